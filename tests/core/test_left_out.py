"""Ridge regression whose penalty is chosen by leave-one-out."""

import numpy as np
import pytest

from keras_swim.core.left_out import honest_scores, ridge_honest, ridge_left_out


def solved(x, y, weight, penalty):
    """Weighted ridge with a free bias, by the normal equations."""
    x = np.hstack([x, np.ones((len(x), 1))])
    ridge = penalty * np.eye(x.shape[1])
    ridge[-1, -1] = 0.0
    return np.linalg.solve(
        x.T @ (weight[:, None] * x) + ridge, x.T @ (weight[:, None] * y)
    )


def penalty_of(x, weight, l2):
    centred = x - weight @ x / weight.sum()
    return l2 * (weight @ (centred**2)).sum() / x.shape[1]


@pytest.mark.parametrize("n, k", [(40, 7), (12, 30)])
def test_scores_are_those_of_fits_without_the_row(n, k):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, k)), rng.normal(size=(n, 2))
    weight = rng.uniform(0.5, 2.0, size=n)
    found = ridge_left_out(x, y, weight, penalties=[0.1])
    penalty = penalty_of(x, weight, 0.1)
    whole = solved(x, y, weight, penalty)
    np.testing.assert_allclose(found.kernel, whole[:-1], atol=1e-9)
    np.testing.assert_allclose(found.bias, whole[-1], atol=1e-9)
    for row in range(n):
        rest = np.arange(n) != row
        without = solved(x[rest], y[rest], weight[rest], penalty)
        np.testing.assert_allclose(
            found.scores[row], x[row] @ without[:-1] + without[-1], atol=1e-8
        )


@pytest.mark.parametrize("n, k", [(40, 7), (12, 30)])
def test_a_weight_of_two_is_two_rows_but_they_leave_together(n, k):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(n, k)), rng.normal(size=(n, 1))
    weight = np.ones(n)
    weight[0] = 2.0
    penalty = penalty_of(x, weight, 0.1)
    found = ridge_left_out(x, y, weight, penalties=[0.1])
    without = solved(x[1:], y[1:], weight[1:], penalty)
    np.testing.assert_allclose(
        found.scores[0], x[0] @ without[:-1] + without[-1], atol=1e-8
    )


def test_noise_asks_for_more_penalty():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 50))
    clean = x[:, :1] + x[:, 1:2]
    noisy = clean + 5 * rng.normal(size=clean.shape)
    assert ridge_left_out(x, clean).l2 < ridge_left_out(x, noisy).l2


@pytest.mark.parametrize("columns", [0, 2])
def test_columns_that_say_nothing(columns):
    y = np.arange(6.0)[:, None]
    found = ridge_left_out(np.ones((6, columns)), y)
    assert found.kernel.shape == (columns, 1)
    np.testing.assert_allclose(found.kernel, 0.0, atol=1e-12)
    np.testing.assert_allclose(found.bias, y.mean(axis=0))
    np.testing.assert_allclose(found.scores[0], y[1:].mean(axis=0))


def test_honest_folds_use_no_column_that_the_fold_has_made():
    rng = np.random.default_rng(3)
    n = 30
    y = rng.normal(size=(n, 1))
    # Each column gives one row's target away, and says nothing of the others.
    x = np.diag(y[:, 0])
    pairs = np.stack([np.arange(n), np.arange(n)], axis=1)
    folds = [np.arange(start, n, 5) for start in range(5)]
    honest = ridge_honest(x, y, None, pairs, folds)
    for fold in folds:
        rest = np.setdiff1d(np.arange(n), fold)
        part = x[rest][:, rest]
        one = np.ones(len(rest))
        without = solved(part, y[rest], one, penalty_of(part, one, honest.l2))
        # The fold's rows are zero in all columns that are left.
        np.testing.assert_allclose(honest.scores[fold, 0], without[-1, 0], atol=1e-6)
    # Columns of nobody serve all folds: plain cross-validation.
    line = np.arange(n)[:, None] / n
    plain = ridge_honest(line, 3 * line + 1, None, np.full((1, 2), -1), folds)
    np.testing.assert_allclose(plain.scores, 3 * line + 1, atol=1e-3)


@pytest.mark.parametrize("n, k", [(60, 7), (12, 30)])
def test_penalties_are_chosen_the_same_together_and_one_by_one(n, k):
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(n, k)), rng.normal(size=(n, 3))
    y += x[:, :3]
    penalties = 10.0 ** np.arange(-6, 3)
    errors = [
        np.sum((y - ridge_left_out(x, y, penalties=[l2]).scores) ** 2)
        for l2 in penalties
    ]
    found = ridge_left_out(x, y, penalties=penalties)
    # So many outputs that each penalty is tried by itself.
    wide = ridge_left_out(x, np.tile(y, 11), penalties=penalties)
    assert found.l2 == wide.l2 == penalties[np.argmin(errors)]
    np.testing.assert_allclose(np.sum((y - found.scores) ** 2), min(errors))
    np.testing.assert_allclose(wide.scores[:, :3], found.scores, atol=1e-9)


def test_many_rows_are_summed_in_parts():
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(1300, 4)), rng.normal(size=(1300, 1))
    weight = rng.uniform(0.5, 2.0, size=1300)
    found = ridge_left_out(x, y, weight, penalties=[0.1])
    whole = solved(x, y, weight, penalty_of(x, weight, 0.1))
    np.testing.assert_allclose(found.kernel, whole[:-1], atol=1e-9)
    np.testing.assert_allclose(found.bias, whole[-1], atol=1e-9)


@pytest.mark.parametrize("n, k", [(60, 9), (20, 50)])
def test_honest_scores_know_neither_the_rows_nor_their_units(n, k):
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(n, k)), rng.normal(size=(n, 2))
    weight = rng.uniform(0.5, 2.0, size=n)
    pairs = rng.integers(0, n, size=(k, 2))
    pairs[0] = -1
    folds = np.array_split(rng.permutation(n), 4)
    found = honest_scores(x, y, weight, pairs, folds, 0.1)
    for fold in folds:
        rest = np.setdiff1d(np.arange(n), fold)
        keep = ~np.isin(pairs, fold).any(axis=1)
        assert 0 < keep.sum() < k
        part = x[:, keep]
        penalty = penalty_of(part[rest], weight[rest], 0.1)
        without = solved(part[rest], y[rest], weight[rest], penalty)
        np.testing.assert_allclose(
            found[fold], part[fold] @ without[:-1] + without[-1], atol=1e-8
        )
    # The same as the folds that choose a penalty, with one to choose from.
    chosen = ridge_honest(x, y, weight, pairs, folds, penalties=[0.1])
    np.testing.assert_allclose(found, chosen.scores, atol=1e-8)


def test_honest_scores_where_no_unit_is_left():
    y = np.arange(8.0)[:, None]
    folds = np.array_split(np.arange(8), 2)
    pairs = np.array([[0, 5]])
    found = honest_scores(np.ones((8, 1)), y, None, pairs, folds, 0.1)
    np.testing.assert_allclose(found[:, 0], [5.5] * 4 + [1.5] * 4)
