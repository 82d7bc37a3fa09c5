"""The chosen penalty is the best of the grid, on whichever path it is found."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from keras_swim.core import solvers
from keras_swim.core.activations import constants_for
from keras_swim.core.folds import held_out_folds, untouched_units
from keras_swim.core.readout import ReadoutState
from keras_swim.core.ridge import (
    LARGEST,
    SMALLEST,
    Fold,
    choose_l2,
    held_out_error,
    held_out_scores,
)
from keras_swim.core.sampling import pair_parameters, sample_pairs
from keras_swim.core.solvers import Dual, Primal, factor, solve
from keras_swim.core.targets import one_hot

GRID = np.logspace(-12, 4, 33)


class _Curve:
    """A path whose held-out error is a known function of log10(l2)."""

    def __init__(self, error, many):
        self.error, self.many = error, many

    def coefficients(self, l2):
        return np.array([[np.sqrt(self.error(np.log10(l2)))]]), np.zeros(1)


def _curve_fold(error, many):
    path = _Curve(error, many)
    return Fold(path, lambda kernel, bias: kernel + bias, np.zeros((1, 1)), np.ones(1))


def _fold(state_rows, fold_rows, keep=None, many=True):
    features, targets, weight = state_rows
    state = ReadoutState(features.shape[1], targets.shape[1])
    state.update(features, targets, weight)
    path = factor(state, keep, many)
    held_features = fold_rows[0]
    return Fold(path, lambda w, b: held_features @ w + b, *fold_rows[1:])


def _cross_validation(rows, count=5, many=True):
    number = np.arange(len(rows[0])) % count
    return [
        _fold(
            tuple(part[number != fold] for part in rows),
            tuple(part[number == fold] for part in rows),
            many=many,
        )
        for fold in range(count)
    ]


def _noisy(n, k=40, noise=2.0, seed=0):
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).normal(size=(k, k)) * np.logspace(0, -3, k)
    truth = np.random.default_rng(98).normal(size=(k, 1))
    latent = rng.normal(size=(n, k))
    targets = latent[:, :5] @ truth[:5] + noise * rng.normal(size=(n, 1))
    return latent @ mixing, targets, rng.uniform(0.5, 2.0, n)


# The search


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("best", [-12, -9.5, -7, -3, -2.5, 0, 3.5, 4])
def test_minimum_of_a_valley_is_found_to_half_a_step(best, many):
    choice = choose_l2([_curve_fold(lambda e: 1 + (e - best) ** 2, many)])
    assert np.log10(choice.l2) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("best", [-20, 20])
def test_search_stays_inside_its_range(best, many):
    choice = choose_l2([_curve_fold(lambda e: 1 + (e - best) ** 2, many)])
    assert choice.l2 == pytest.approx(SMALLEST if best < 0 else LARGEST)
    tried = np.array(list(choice.errors))
    assert tried.min() >= 0.999 * SMALLEST and tried.max() <= 1.001 * LARGEST


@pytest.mark.parametrize("best", [-6, 0])
def test_walk_goes_over_one_bump(best):
    def error(e):
        bump = 1.5 if round(e) == (-4 if best < 0 else -2) else 0.0
        return 1 + 0.1 * abs(e - best) + bump

    choice = choose_l2([_curve_fold(error, many=False)])
    assert np.log10(choice.l2) == pytest.approx(best)


def test_walk_costs_few_factorisations():
    choice = choose_l2([_curve_fold(lambda e: 1 + (e + 3) ** 2, many=False)])
    assert len(choice.errors) <= 7


def test_eigenvalues_are_used_only_if_every_fold_has_them():
    valley = lambda e: 1 + (e + 3) ** 2  # noqa: E731
    choice = choose_l2([_curve_fold(valley, True), _curve_fold(valley, False)])
    assert len(choice.errors) <= 7


def test_choice_reports_what_was_tried():
    folds = [_curve_fold(lambda e: 2 + (e + 1.5) ** 2, True)]
    choice = choose_l2(folds)
    assert list(choice.errors) == sorted(choice.errors)
    assert choice.errors[choice.l2] == min(choice.errors.values())
    for l2, error in choice.errors.items():
        assert error == pytest.approx(2 + (np.log10(l2) + 1.5) ** 2)


# Held-out scores


def test_error_is_the_weighted_mean_over_all_rows_of_all_folds():
    folds = _cross_validation(_noisy(53), count=4)
    scores, targets, weight = held_out_scores(folds, 0.1)
    assert scores.shape == targets.shape == (53, 1)
    expected = np.average(((scores - targets) ** 2).sum(axis=1), weights=weight)
    assert held_out_error(folds, 0.1) == pytest.approx(expected)
    first = folds[0]
    np.testing.assert_array_equal(
        scores[: len(first.targets)], first.scores(*first.path.coefficients(0.1))
    )


def test_error_adds_up_all_outputs():
    fold = Fold(
        _Curve(lambda e: 0.0, True),
        lambda kernel, bias: np.array([[1.0, 2.0], [0.0, 0.0]]),
        np.zeros((2, 2)),
        np.array([1.0, 3.0]),
    )
    assert held_out_error([fold], 1.0) == pytest.approx(5 / 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_penalty_that_breaks_down_is_never_chosen(bad):
    fold = _curve_fold(lambda e: bad if e < -5 else 2 + (e + 4) ** 2, True)
    assert held_out_error([fold], 1e-8) == np.inf
    assert choose_l2([fold]).l2 == pytest.approx(1e-4)


def test_folds_without_weight_count_for_nothing():
    fold = _curve_fold(lambda e: 1.0, True)._replace(weight=np.zeros(1))
    assert held_out_error([fold], 1.0) == np.inf


# Noisy problems


@pytest.mark.parametrize("n", [30, 60, 300])
@pytest.mark.parametrize("many", [False, True])
def test_choice_is_as_good_on_new_rows_as_the_best_of_the_grid(n, many):
    rows, new = _noisy(n), _noisy(4000, seed=1)
    choice = choose_l2(_cross_validation(rows, many=many))
    state = ReadoutState(40, 1).update(*rows)

    def error(l2):
        solved = solve(state, l2)
        gaps = new[0] @ solved.kernel + solved.bias - new[1]
        return np.average(gaps[:, 0] ** 2, weights=new[2])

    errors = [error(l2) for l2 in GRID]
    assert error(choice.l2) < 1.1 * min(errors)
    # Otherwise any choice would pass.
    assert max(errors[0], errors[-1]) > 1.3 * min(errors)


@pytest.mark.parametrize("n, kind", [(30, Dual), (300, Primal)])
def test_eigenvalues_and_walk_agree(n, kind, monkeypatch):
    rows = _noisy(n)
    fast = _cross_validation(rows)
    monkeypatch.setattr(solvers, "_EIGEN_SIZE", 0)
    slow = _cross_validation(rows, many=False)
    assert all(isinstance(fold.path, kind) for fold in fast + slow)
    assert all(fold.path.many for fold in fast)
    assert not any(fold.path.many for fold in slow)
    for l2 in (1e-8, 1e-3, 1.0, 1e3):
        expected = held_out_error(fast, l2)
        assert held_out_error(slow, l2) == pytest.approx(expected, rel=1e-5)
    assert choose_l2(slow).l2 == choose_l2(fast).l2


# Real data


@pytest.mark.parametrize("ratio", [0.25, 1, 2, 8])
def test_honest_folds_choose_well_on_digits(ratio):
    """Within two points of the best ridge, also where units equal rows."""
    x, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, labels = x[order] / 16.0, labels[order]
    n, rng = 300, np.random.default_rng(1)
    units = int(ratio * n)
    sample = sample_pairs(x[:n], labels[:n], units, rng, mirrored=True)
    kernel, bias = pair_parameters(x, sample, constants_for("tanh"), dtype="float64")
    features = np.tanh(x @ kernel + bias)
    targets = one_hot(labels, 10)
    rows = features[:n], targets[:n], np.ones(n)
    folds = []
    for fold in held_out_folds(n, rng, labels[:n]):
        inside = np.isin(np.arange(n), fold)
        folds.append(
            _fold(
                tuple(part[~inside] for part in rows),
                tuple(part[inside] for part in rows),
                keep=untouched_units(sample.pairs, fold, n),
            )
        )
    path = factor(ReadoutState(units, 10).update(*rows), many=True)

    def accuracy(l2):
        kernel, bias = path.coefficients(l2)
        scores = features[n:] @ kernel + bias
        return np.mean(scores.argmax(axis=1) == labels[n:])

    best = max(accuracy(l2) for l2 in GRID[::2])
    assert best > 0.9
    assert accuracy(choose_l2(folds).l2) >= best - 0.02
    if ratio == 1:
        # The cliff that the choice has to avoid.
        assert accuracy(1e-12) < best - 0.2
