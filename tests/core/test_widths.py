"""Every width from one factorisation equals a solution of its own."""

import numpy as np
import pytest

from keras_swim.core.readout import ReadoutState
from keras_swim.core.solvers import solve
from keras_swim.core.widths import NestedDual, NestedPrimal, nested

WIDTHS = [1, 3, 4, 9]


def problem(n, k=9, c=2, seed=0):
    rng = np.random.default_rng(seed)
    features = 2 + rng.normal(size=(n, k)) * rng.uniform(0.5, 2, size=k)
    return features, rng.normal(size=(n, c)), rng.integers(0, 4, size=n) / 2


def alone(features, targets, weight, columns, penalty):
    """The ridge solution of some columns, from scratch."""
    total = weight.sum()
    f = features[:, columns] - weight @ features[:, columns] / total
    y = targets - weight @ targets / total
    gram = f.T @ (weight[:, None] * f) + penalty * np.eye(len(columns))
    kernel = np.zeros((features.shape[1], targets.shape[1]))
    kernel[columns] = np.linalg.solve(gram, f.T @ (weight[:, None] * y))
    return kernel, (weight @ targets - weight @ features @ kernel) / total


def penalty_of(features, weight, l2):
    f = features - weight @ features / weight.sum()
    return l2 * np.einsum("n,nk,nk->", weight, f, f) / f.shape[1]


@pytest.mark.parametrize("n, kind", [(200, NestedPrimal), (5, NestedDual)])
@pytest.mark.parametrize("l2", [1e-6, 1e-2, 10.0])
def test_every_width_equals_a_solution_of_its_own(n, kind, l2):
    features, targets, weight = problem(n)
    state = ReadoutState(9, 2).update(features, targets, weight)
    path = nested(state, np.arange(9), widths=1)
    assert isinstance(path, kind)
    kernels, biases = path.coefficients(l2, WIDTHS)
    penalty = penalty_of(features, weight, l2)
    for i, width in enumerate(WIDTHS):
        kernel, bias = alone(features, targets, weight, np.arange(width), penalty)
        np.testing.assert_allclose(kernels[:, i], kernel, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(biases[i], bias, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n", [200, 6, 3])
def test_columns_of_every_width_and_columns_left_out(n):
    features, targets, weight = problem(n)
    # Two columns that do not belong to the layer, in between and at the end.
    numbers = np.array([0, 1, -1, 2, 3, 4, 5, 6, -1])
    keep = np.arange(9) != 1
    state = ReadoutState(9, 2).update(features, targets, weight)
    path = nested(state, numbers, keep, widths=1)
    kernels, biases = path.coefficients(0.1, [1, 3, 7])
    penalty = penalty_of(features[:, keep], weight, 0.1)
    for i, columns in enumerate([[0, 2, 8], [0, 2, 3, 8], [0, 2, 3, 4, 5, 6, 7, 8]]):
        kernel, bias = alone(features, targets, weight, np.array(columns), penalty)
        np.testing.assert_allclose(kernels[:, i], kernel, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(biases[i], bias, rtol=1e-7, atol=1e-10)


def test_running_scores_are_those_of_the_coefficients():
    features, targets, weight = problem(200)
    state = ReadoutState(9, 2).update(features, targets, weight)
    path = nested(state, np.array([0, 1, -1, 2, 3, 4, 5, 6, -1]))
    widths = [1, 2, 5, 7]
    kernels, biases = path.coefficients(1e-3, widths)
    new = np.random.default_rng(1).normal(size=(30, 9))
    expected = np.einsum("mk,kwc->cwm", new, kernels) + biases.T[:, :, None]
    ((where, scores, rest),) = path.running_scores(1e-3, new, widths)
    assert where == slice(0, 4) and rest is None
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)
    single = path.running_scores(1e-3, new.astype("float32"), widths)
    ((_, scores, _),) = single
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-4)


def test_running_scores_come_some_at_a_time():
    features, targets, weight = problem(300, k=80)
    state = ReadoutState(80, 2).update(features, targets, weight)
    path = nested(state, np.arange(80))
    widths = np.arange(1, 81)
    kernels, biases = path.coefficients(1e-3, widths)
    expected = np.einsum("mk,kwc->cwm", features, kernels) + biases.T[:, :, None]
    found = np.empty_like(expected)
    for where, scores, _ in path.running_scores(1e-3, features, widths):
        found[:, where] = scores
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n", [40, 8, 5])
def test_leave_one_out_equals_leaving_one_out(n):
    features, targets, weight = problem(n)
    weight[3] = 0.0
    state = ReadoutState(9, 2).update(features, targets, weight)
    path = nested(state, np.arange(9), widths=1)
    penalty = penalty_of(features, weight, 0.05)
    for width in (2, 9):
        if isinstance(path, NestedDual):
            gaps = path.left_out(0.05, width)
        else:
            running = path.running_scores(0.05, features, [width], weight)
            ((_, scores, rest),) = running
            gaps = (targets - scores[:, 0].T) / rest[0][:, None]
        for row in range(n):
            if not weight[row]:
                continue
            others = np.arange(n) != row
            kernel, bias = alone(
                features[others],
                targets[others],
                weight[others],
                np.arange(width),
                penalty,
            )
            np.testing.assert_allclose(
                gaps[row],
                targets[row] - features[row] @ kernel - bias,
                rtol=1e-5,
                atol=1e-8,
            )


def test_no_column_left_gives_the_mean():
    features, targets, weight = problem(20)
    state = ReadoutState(9, 2).update(features, targets, weight)
    path = nested(state, np.arange(9), np.zeros(9, bool))
    kernels, biases = path.coefficients(1.0, WIDTHS)
    assert not kernels.any()
    np.testing.assert_allclose(
        biases, np.tile(weight @ targets / weight.sum(), (4, 1)), rtol=1e-12
    )


def test_full_width_is_what_solve_gives():
    features, targets, weight = problem(100)
    state = ReadoutState(9, 2).update(features, targets, weight)
    kernels, biases = nested(state, np.arange(9)).coefficients(0.3, [9])
    solved = solve(state, 0.3, "cholesky")
    np.testing.assert_allclose(kernels[:, 0], solved.kernel, rtol=1e-10)
    np.testing.assert_allclose(biases[0], solved.bias, rtol=1e-10)


def test_a_singular_system_is_not_a_solution():
    features = np.repeat(np.random.default_rng(0).normal(size=(50, 1)), 4, axis=1)
    state = ReadoutState(4, 1, "sums").update(features, features[:, :1])
    kernels, _ = nested(state, np.arange(4)).coefficients(1e-30, [4])
    assert np.isnan(kernels).all()
