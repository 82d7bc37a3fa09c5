"""The triangle is the R of all rows, however they come."""

import numpy as np
import pytest

from keras_swim.core import triangle
from keras_swim.core.triangle import Triangle


def _rows(n=90, units=8, outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, units)) + 1.0
    return features, rng.normal(size=(n, outputs)) - 2.0, rng.uniform(0.2, 3.0, n)


def _triangle(rows, sizes=None):
    features, targets, _ = rows
    made = Triangle(features.shape[1], targets.shape[1])
    start = 0
    for size in sizes or [len(features)]:
        made.update(*(part[start : start + size] for part in rows))
        start += size
    return made


def _centred(features, targets, weight):
    root = np.sqrt(weight)[:, None]
    f = features - np.average(features, axis=0, weights=weight)
    y = targets - np.average(targets, axis=0, weights=weight)
    return root * f, root * y


def _assert_solves(solved, kernel, rows, rtol=1e-9):
    features, targets, weight = rows
    means = (np.average(part, axis=0, weights=weight) for part in (features, targets))
    f_mean, y_mean = means
    scale = np.abs(kernel).max()
    np.testing.assert_allclose(solved[0], kernel, rtol=0, atol=rtol * scale)
    np.testing.assert_allclose(solved[1], y_mean - f_mean @ kernel, atol=rtol * scale)


@pytest.mark.parametrize("n", [1, 5, 90, 700])
def test_r_is_the_factor_of_the_gram_of_ones_features_and_targets(n):
    features, targets, weight = _rows(n)
    r = _triangle((features, targets, weight)).r
    joined = np.column_stack([np.ones(n), features, targets])
    gram = (joined.T * weight) @ joined
    np.testing.assert_array_equal(r, np.triu(r))
    np.testing.assert_allclose(r.T @ r, gram, atol=1e-12 * gram.max())


@pytest.mark.parametrize("sizes", [[1] * 90, [40, 50], [89, 1], [3, 0, 87]])
def test_block_sizes_do_not_show(sizes):
    rows = _rows()
    whole, parts = _triangle(rows), _triangle(rows, sizes)
    assert whole.count == parts.count == 90
    np.testing.assert_allclose(
        parts.r.T @ parts.r, whole.r.T @ whole.r, rtol=1e-12, atol=1e-11
    )
    for l2 in (0.0, 1e-3):
        for part, known in zip(
            parts.coefficients(l2), whole.coefficients(l2), strict=True
        ):
            np.testing.assert_allclose(part, known, rtol=1e-10, atol=1e-12)


def test_blocks_inside_an_update_do_not_show(monkeypatch):
    rows = _rows(1000)
    whole = _triangle(rows).coefficients(0.0)
    monkeypatch.setattr(triangle, "_BLOCK_ELEMENTS", 1)
    kernel, bias = _triangle(rows).coefficients(0.0)
    np.testing.assert_allclose(kernel, whole[0], rtol=1e-10)
    np.testing.assert_allclose(bias, whole[1], rtol=1e-10)


def test_panels_of_wide_triangles_do_not_show():
    # More columns than one panel, and no multiple of it.
    rows = _rows(400, units=150)
    kernel = np.linalg.lstsq(*_centred(*rows), rcond=None)[0]
    _assert_solves(_triangle(rows, [256, 144]).coefficients(0.0), kernel, rows)


@pytest.mark.parametrize("l2", [1e-12, 1e-3, 1.0])
@pytest.mark.parametrize("n", [5, 90])
def test_ridge_equals_a_direct_solve(l2, n):
    rows = _rows(n)
    f, y = _centred(*rows)
    k = f.shape[1]
    penalty = l2 * np.trace(f.T @ f) / k
    stacked = np.vstack([f, np.sqrt(penalty) * np.eye(k)])
    padded = np.vstack([y, np.zeros((k, y.shape[1]))])
    kernel = np.linalg.lstsq(stacked, padded, rcond=None)[0]
    # A tiny penalty on more units than rows: digits go with its square root.
    rtol = 1e-9 if n > k or l2 > 1e-6 else 1e-5
    _assert_solves(_triangle(rows).coefficients(l2), kernel, rows, rtol)


@pytest.mark.parametrize("rcond", [1e-10, 1e-3, 0.2])
def test_cut_off_equals_lstsq_with_rcond(rcond):
    rng = np.random.default_rng(1)
    features, targets, weight = _rows(90, units=12)
    features = features @ (rng.normal(size=(12, 12)) * np.logspace(0, -7, 12))
    rows = features, targets, weight
    f, y = _centred(*rows)
    kernel, _, _, s = np.linalg.lstsq(f, y, rcond=rcond)
    kept = np.sum(s > rcond * s[0])
    assert kept == 12 if rcond == 1e-10 else 0 < kept < 12
    rtol = 1e-6 if rcond == 1e-10 else 1e-9
    _assert_solves(_triangle(rows).cut_off(rcond), kernel, rows, rtol)


@pytest.mark.parametrize("n", [5, 90])
def test_no_penalty_is_minimum_norm_least_squares(n):
    features, targets, weight = _rows(n)
    features[:, 3] = features[:, 1]
    features[:, 5] = 2.0
    rows = features, targets, weight
    kernel = np.linalg.lstsq(*_centred(*rows), rcond=None)[0]
    solved = _triangle(rows).coefficients(0.0)
    _assert_solves(solved, kernel, rows)
    np.testing.assert_allclose(solved[0][3], solved[0][1], rtol=1e-8)
    np.testing.assert_allclose(solved[0][5], 0.0, atol=1e-12)


def test_features_far_from_zero_keep_their_rank():
    """A repeated unit must be found out although means exceed spreads."""
    features, targets, weight = _rows()
    features[:, 3] = features[:, 1]
    features += 1e5
    rows = features, targets, weight
    kernel = np.linalg.lstsq(*_centred(*rows), rcond=None)[0]
    _assert_solves(_triangle(rows).coefficients(0.0), kernel, rows, rtol=1e-5)


def test_bias_is_not_penalised():
    features, targets, weight = _rows()
    plain = _triangle((features, targets, weight)).coefficients(0.3)
    moved = _triangle((features, targets + 100.0, weight)).coefficients(0.3)
    np.testing.assert_allclose(moved[0], plain[0], atol=1e-11)
    np.testing.assert_allclose(moved[1], plain[1] + 100.0, atol=1e-11)
