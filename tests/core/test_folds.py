"""Folds are disjoint, balanced and bounded; their units have not seen them."""

import numpy as np
import pytest

from keras_swim.core.activations import constants_for
from keras_swim.core.folds import (
    ENOUGH_ROWS,
    FOLDS,
    FOLDS_OF_VERY_FEW,
    held_out_folds,
    untouched_units,
)
from keras_swim.core.readout import ReadoutState
from keras_swim.core.sampling import pair_parameters, sample_pairs
from keras_swim.core.solvers import factor


def _folds(n, seed=0, **options):
    return held_out_folds(n, np.random.default_rng(seed), **options)


@pytest.mark.parametrize("n", [2, 4, 5, 7, 20, 99, 100, ENOUGH_ROWS])
def test_few_rows_are_all_held_out_once(n):
    folds = _folds(n)
    assert len(folds) == min(FOLDS if n >= 100 else FOLDS_OF_VERY_FEW, n)
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(n))
    sizes = [len(fold) for fold in folds]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("n", [ENOUGH_ROWS + 1, 9000, 10_241, 50_000, 1_000_000])
@pytest.mark.parametrize("stratified", [False, True])
def test_many_rows_are_enough_but_bounded(n, stratified):
    labels = np.arange(n) % 3 if stratified else None
    folds = _folds(n, labels=labels)
    rows = np.concatenate(folds)
    assert len(np.unique(rows)) == len(rows)
    assert rows.min() >= 0 and rows.max() < n
    assert ENOUGH_ROWS <= len(rows) < 2 * ENOUGH_ROWS
    for fold in folds:
        assert len(fold) <= 1.2 * ENOUGH_ROWS + 1
        # What is left must still be most of the rows.
        assert len(fold) <= -(-n // FOLDS)


@pytest.mark.parametrize("n", [FOLDS * ENOUGH_ROWS, 12_287, 1_000_000])
def test_one_fold_is_enough_where_it_can_be(n):
    assert len(_folds(n)) == 1


def test_options():
    assert [len(fold) for fold in _folds(90, folds=3, enough=50)] == [30, 30]
    assert [len(fold) for fold in _folds(90, folds=3, enough=10)] == [10]


def test_rows_are_sorted_and_spread_over_the_data():
    for fold in _folds(1000):
        assert np.all(np.diff(fold) > 0)
        # Sorted data must not end up in one fold.
        assert abs(fold.mean() - 499.5) < 60


@pytest.mark.parametrize("n", [60, 20_000])
def test_every_fold_has_its_share_of_every_class(n):
    rng = np.random.default_rng(1)
    # Classes in order of appearance, one of them rare.
    labels = np.sort(rng.choice(4, size=n, p=[0.6, 0.25, 0.1, 0.05]))
    for fold in _folds(n, labels=labels):
        found = np.bincount(labels[fold], minlength=4)
        share = np.bincount(labels, minlength=4) * len(fold) / n
        assert np.all(np.abs(found - share) < 1.5)


def test_stratified_folds_are_still_random():
    labels = np.arange(100) % 2
    first, other = _folds(100, labels=labels), _folds(100, seed=1, labels=labels)
    assert any(set(a) != set(b) for a, b in zip(first, other, strict=True))


def test_seed_decides():
    for one, same in zip(_folds(50), _folds(50), strict=True):
        np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize("width", [2, 4])
def test_untouched_units_by_brute_force(width):
    rng = np.random.default_rng(2)
    n = 40
    pairs = rng.integers(-1, n, size=(300, width))
    for rows in (*_folds(n), np.array([n - 1]), np.array([0]), np.arange(n)):
        held_out = set(rows.tolist())
        expected = [not held_out & set(pair) for pair in pairs.tolist()]
        np.testing.assert_array_equal(untouched_units(pairs, rows, n), expected)


def test_units_of_no_row_are_always_untouched():
    pairs = np.full((5, 2), -1)
    assert untouched_units(pairs, np.arange(10), 10).all()


def test_about_64_percent_of_the_units_judge_a_fold():
    rng = np.random.default_rng(3)
    pairs = np.stack([rng.permutation(500), rng.permutation(500)], axis=1)
    shares = [untouched_units(pairs, fold, 500).mean() for fold in _folds(500)]
    assert np.mean(shares) == pytest.approx(0.64, abs=0.02)


def coin_flips(seed, n=200, d=50, k=200, l2=1e-3):
    """Held-out accuracy on labels that mean nothing: honest, and naive."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, d)), rng.permutation(np.arange(n) % 2)
    constants = constants_for("tanh", None)
    drawn = sample_pairs(x, y, k, rng, mirrored=constants.mirrored)
    kernel, bias = pair_parameters(x, drawn, constants, 1.0, "float64")
    features, targets = np.tanh(x @ kernel + bias), np.eye(2)[y]
    right = np.zeros((2, n))
    for rows in held_out_folds(n, rng, y, 5, enough=n + 1):
        others = np.setdiff1d(np.arange(n), rows)
        state = ReadoutState(k, 2).update(features[others], targets[others])
        for i, keep in enumerate([untouched_units(drawn.pairs, rows, n), None]):
            kernel, bias = factor(state, keep).coefficients(l2)
            scores = features[rows] @ kernel + bias
            right[i, rows] = scores.argmax(axis=1) == y[rows]
    return right.mean(axis=1)


def test_coin_flips_are_not_predicted():
    draws = 30
    honest, naive = np.mean([coin_flips(seed) for seed in range(draws)], axis=0)
    error = 0.5 / np.sqrt(200 * draws)
    assert abs(honest - 0.5) < 2 * error
    assert naive - 0.5 > 4 * error
