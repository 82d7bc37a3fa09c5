"""Every solver solves the same, stated, problem."""

import tracemalloc

import numpy as np
import pytest

from keras_swim.core import solvers
from keras_swim.core.activations import constants_for
from keras_swim.core.readout import ReadoutState
from keras_swim.core.sampling import pair_parameters, sample_pairs
from keras_swim.core.solvers import Dual, Primal, factor, gram_error, solve

WEIGHTS = [False, True]


def _rows(n, k, c=2, seed=0, weighted=False, rank=None):
    rng = np.random.default_rng(seed)
    if rank is None:
        features = rng.normal(size=(n, k))
    else:
        features = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, k))
    features += rng.normal(size=k)
    targets = np.sin(features[:, :c]) + 0.1 * rng.normal(size=(n, c)) + 1.0
    weight = rng.uniform(0.2, 3.0, n) if weighted else np.ones(n)
    return features, targets, weight


def _state(rows, form="auto"):
    features, targets, weight = rows
    state = ReadoutState(features.shape[1], targets.shape[1], form)
    return state.update(features, targets, weight)


def _centred(rows):
    features, targets, weight = rows
    means = [np.average(part, axis=0, weights=weight) for part in (features, targets)]
    root = np.sqrt(weight)[:, None]
    return root * (features - means[0]), root * (targets - means[1]), *means


def _least_squares(rows, rcond=None):
    f, y, f_mean, y_mean = _centred(rows)
    kernel = np.linalg.lstsq(f, y, rcond=rcond)[0]
    return kernel, y_mean - f_mean @ kernel


def _ridge(rows, l2):
    """The penalised problem as the docstring states it, from singular values."""
    f, y, f_mean, y_mean = _centred(rows)
    penalty = l2 * np.trace(f @ f.T) / f.shape[1]
    u, s, vt = np.linalg.svd(f, full_matrices=False)
    kernel = vt.T @ ((s / (s**2 + penalty))[:, None] * (u.T @ y))
    return kernel, y_mean - f_mean @ kernel


def _assert_same(found, expected, rtol):
    for part, known in zip(found[:2], expected[:2], strict=True):
        scale = max(np.abs(known).max(), 1e-300)
        np.testing.assert_allclose(part, known, rtol=0, atol=rtol * scale)


# Least squares


@pytest.mark.parametrize("solver", ["auto", "cholesky", "qr", "svd"])
@pytest.mark.parametrize("weighted", WEIGHTS)
def test_more_rows_than_units_is_least_squares(solver, weighted):
    rows = _rows(80, 12, weighted=weighted)
    _assert_same(solve(_state(rows, "rows"), 0.0, solver), _least_squares(rows), 1e-8)


@pytest.mark.parametrize("solver", ["auto", "dual", "qr", "svd"])
@pytest.mark.parametrize("weighted", WEIGHTS)
def test_more_units_than_rows_is_minimum_norm_least_squares(solver, weighted):
    rows = _rows(15, 60, weighted=weighted)
    # Centred rows have rank n - 1: the cut-off of "svd" must be above rounding.
    cut = 1e-12 if solver == "svd" else 0.0
    found = solve(_state(rows), cut, solver)
    _assert_same(found, _least_squares(rows, rcond=1e-12), 1e-8)


@pytest.mark.parametrize("n, k, rank", [(80, 20, 6), (20, 50, 6), (30, 30, 29)])
@pytest.mark.parametrize("solver", ["auto", "qr", "svd"])
def test_repeated_units_get_the_minimum_norm(solver, n, k, rank):
    rows = _rows(n, k, rank=rank, weighted=True)
    cut = 1e-12 if solver == "svd" else 0.0
    found = solve(_state(rows, "rows"), cut, solver)
    _assert_same(found, _least_squares(rows, rcond=1e-12), 1e-8)


@pytest.mark.parametrize("n, k, rank", [(80, 20, 6), (20, 50, 6)])
def test_gram_of_repeated_units_gets_the_minimum_norm(n, k, rank):
    rows = _rows(n, k, rank=rank)
    found = solve(_state(rows, "sums"), 0.0, "cholesky")
    _assert_same(found, _least_squares(rows, rcond=1e-12), 1e-8)


def test_more_rows_than_units_but_rows_kept():
    rows = _rows(80, 12)
    _assert_same(solve(_state(rows, "rows"), 0.0, "dual"), _least_squares(rows), 1e-8)


# Ridge


@pytest.mark.parametrize("l2", [1e-8, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("n, k", [(80, 12), (15, 60), (30, 30)])
@pytest.mark.parametrize("solver", ["auto", "cholesky", "dual", "qr"])
def test_all_solvers_solve_the_stated_ridge_problem(solver, n, k, l2):
    rows = _rows(n, k, weighted=True)
    found = solve(_state(rows, "rows"), l2, solver)
    assert found.l2 == l2
    _assert_same(found, _ridge(rows, l2), 1e-8 if l2 > 1e-6 else 1e-6)


def test_penalty_is_relative_to_the_mean_eigenvalue():
    rows = _rows(80, 12, weighted=True)
    f, y, *_ = _centred(rows)
    gram = f.T @ f
    direct = gram + 0.01 * np.linalg.eigvalsh(gram).mean() * np.eye(12)
    kernel = np.linalg.solve(direct, f.T @ y)
    np.testing.assert_allclose(solve(_state(rows), 0.01).kernel, kernel, rtol=1e-9)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("n, k", [(80, 12), (15, 60)])
def test_one_factorisation_serves_every_penalty(n, k, many):
    rows = _rows(n, k, weighted=True)
    for kind in (Primal, Dual):
        path = kind(_state(rows, "rows"), many=many)
        for l2 in (1e-4, 1e2, 1e-2, 1e-4):
            _assert_same(path.coefficients(l2), _ridge(rows, l2), 1e-9)


def test_primal_without_eigenvalues_where_there_are_too_many(monkeypatch):
    monkeypatch.setattr(solvers, "_EIGEN_SIZE", 11)
    rows = _rows(80, 12)
    path = Primal(_state(rows), many=True)
    assert not path.many
    _assert_same(path.coefficients(1e-3), _ridge(rows, 1e-3), 1e-9)
    assert Primal(_state(_rows(80, 11)), many=True).many


@pytest.mark.parametrize("solver", ["auto", "cholesky", "dual", "qr"])
@pytest.mark.parametrize("n, k", [(60, 10), (10, 40)])
def test_penalty_does_not_depend_on_the_number_of_rows(solver, n, k):
    rows = _rows(n, k)
    thrice = tuple(np.concatenate([part] * 3) for part in rows)
    once = solve(_state(rows, "rows"), 1e-2, solver)
    _assert_same(solve(_state(thrice, "rows"), 1e-2, solver), once, 1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("solver", ["auto", "cholesky", "dual", "qr"])
@pytest.mark.parametrize("n, k", [(60, 10), (10, 40)])
def test_penalty_does_not_depend_on_the_scale_of_the_features(solver, scale, n, k):
    features, targets, weight = _rows(n, k)
    plain = solve(_state((features, targets, weight), "rows"), 1e-2, solver)
    scaled = solve(_state((features * scale, targets, weight), "rows"), 1e-2, solver)
    _assert_same((scaled.kernel * scale, scaled.bias), plain, 1e-9)


@pytest.mark.parametrize("solver", ["auto", "cholesky", "dual", "qr", "svd"])
def test_weight_two_is_the_row_twice(solver):
    features, targets, _ = _rows(30, 8)
    times = 1 + np.arange(30) % 3
    weighted = _state((features, targets, times.astype(float)), "rows")
    repeated = _state(
        (features.repeat(times, 0), targets.repeat(times, 0), np.ones(times.sum())),
        "rows",
    )
    _assert_same(solve(weighted, 1e-3, solver), solve(repeated, 1e-3, solver), 1e-9)


@pytest.mark.parametrize("n, k, l2", [(300, 20, 1e-3), (300, 20, 0.0), (30, 60, 1e-3)])
def test_size_and_order_of_batches_do_not_show(n, k, l2):
    rows = _rows(n, k, weighted=True)
    order = np.random.default_rng(1).permutation(n)
    shuffled = tuple(part[order] for part in rows)

    def solved(rows, size):
        state = ReadoutState(k, 2)
        parts = [
            tuple(part[start : start + size] for part in rows)
            for start in range(0, n, size)
        ]
        for part in parts:
            state.update(*part)
        return solve(state, l2, blocks=lambda: iter(parts))

    expected = solved(rows, n)
    for found in (solved(rows, 7), solved(shuffled, n), solved(shuffled, 32)):
        _assert_same(found, expected, 1e-9)


def test_features_far_from_zero():
    features, targets, weight = _rows(200, 10)
    kernel = _ridge((features, targets, weight), 1e-2)[0]
    for solver in ("auto", "cholesky", "dual", "qr"):
        state = _state((features + 1e6, targets, weight), "rows")
        np.testing.assert_allclose(solve(state, 1e-2, solver).kernel, kernel, rtol=1e-6)


# Which solver


@pytest.mark.parametrize(
    "n, form, l2, with_blocks, expected",
    [
        (80, "auto", 1e-3, True, "cholesky"),
        (80, "auto", 0.0, True, "qr"),
        (80, "auto", 1e-14, True, "qr"),
        (80, "auto", 0.0, False, "cholesky"),
        (80, "rows", 0.0, False, "qr"),
        (12, "auto", 1e-3, True, "dual"),
        (12, "auto", 0.0, True, "dual"),
        (12, "sums", 1e-3, True, "cholesky"),
    ],
)
def test_auto_says_what_it_took(n, form, l2, with_blocks, expected):
    rows = _rows(n, 12)
    blocks = (lambda: iter([rows])) if with_blocks else None
    found = solve(_state(rows, form), l2, blocks=blocks)
    assert found.solver == expected


@pytest.mark.parametrize("solver", ["qr", "svd"])
def test_sums_with_blocks_go_back_to_the_rows(solver):
    rows = _rows(80, 12, weighted=True)
    parts = [tuple(part[start::3] for part in rows) for start in range(3)]
    found = solve(_state(rows), 0.0, solver, blocks=lambda: iter(parts))
    assert found.solver == solver
    _assert_same(found, _least_squares(rows), 1e-8)


def test_svd_drops_small_singular_values():
    features, targets, weight = _rows(80, 12)
    rows = features * np.logspace(0, -8, 12), targets, weight
    for cut in (1e-2, 1e-5):
        expected = _least_squares(rows, rcond=cut)
        _assert_same(solve(_state(rows, "rows"), cut, "svd"), expected, 1e-8)
    assert np.abs(solve(_state(rows, "rows"), 1e-2, "svd").kernel).max() < 1e3


def _smooth_layer():
    """A sampled layer on a smooth function: a condition beyond 1e12."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(1200, 2))
    y = np.exp(np.sin(3 * x[:, :1]) + x[:, :1] * x[:, 1:])
    sample = sample_pairs(x, y, 250, rng, mirrored=True)
    constants = constants_for("tanh")
    kernel, bias = pair_parameters(x, sample, constants, scale=0.5, dtype="float64")
    return np.tanh(x @ kernel + bias), y, np.ones(len(x))


def test_auto_reaches_the_residual_of_the_svd_on_a_badly_conditioned_layer():
    rows = _smooth_layer()
    features, targets, _ = rows
    assert np.linalg.cond(_centred(rows)[0]) > 1e12

    def residual(kernel, bias):
        return np.linalg.norm(features @ kernel + bias - targets)

    best = residual(*_least_squares(rows))
    state = _state(rows)
    assert not state.keeps_rows
    accurate = solve(state, 0.0, blocks=lambda: iter([rows]))
    assert residual(*accurate[:2]) < 1.01 * best
    # The Gram matrix has lost the directions that matter.
    assert residual(*solve(state, 0.0, "cholesky")[:2]) > 2 * best


def test_dual_is_accurate_for_a_small_penalty_and_many_units():
    """Few rows, many units: the penalty is small against the largest eigenvalue.

    It is l2 / k times the trace, so what a Gram matrix loses grows with the
    number of units, not of rows.
    """
    rng = np.random.default_rng(0)
    n, k, l2 = 20, 20_000, 1e-11
    left = np.linalg.qr(rng.normal(size=(n, n)))[0]
    right = rng.normal(size=(n, k)) / np.sqrt(k)
    features = (left * np.logspace(0, -8, n)) @ right
    rows = features, rng.normal(size=(n, 1)), np.ones(n)
    expected = _ridge(rows, l2)
    found = solve(_state(rows), l2)
    fitted, known = (features @ part[0] + part[1] for part in (found, expected))
    gap = np.linalg.norm(fitted - known) / np.linalg.norm(known)
    assert gap < solvers._TOLERATED_ERROR


def test_gram_error_grows_with_size_and_falls_with_the_penalty():
    assert gram_error(1000, 0.0) == np.inf
    assert gram_error(1000, 1e-10) == pytest.approx(1000 * 2.0**-52 / 1e-10)


# Some of the units


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("kind", [Primal, Dual])
@pytest.mark.parametrize("n", [80, 15])
def test_kept_units_are_as_if_the_others_were_deleted(kind, many, n):
    features, targets, weight = _rows(n, 30, weighted=True)
    keep = np.random.default_rng(1).random(30) < 0.6
    state = _state((features, targets, weight), "rows")
    kernel, bias = kind(state, keep, many).coefficients(1e-2)
    expected = _ridge((features[:, keep], targets, weight), 1e-2)
    _assert_same((kernel[keep], bias), expected, 1e-9)
    assert not kernel[~keep].any()


def test_the_smaller_problem_is_factored():
    few, most = np.arange(30) < 10, np.arange(30) < 20
    for n, kind, of_few in ((80, Primal, Primal), (15, Dual, Primal)):
        state = _state(_rows(n, 30))
        assert isinstance(factor(state), kind)
        assert isinstance(factor(state, most), kind)
        # Fewer units than rows, although rows are kept.
        assert isinstance(factor(state, few), of_few)


@pytest.mark.parametrize("kept", [5, 12])
def test_rows_give_the_same_for_some_units_by_either_way(kept):
    state = _state(_rows(15, 30, weighted=True))
    assert state.keeps_rows
    keep = np.random.default_rng(0).permutation(30) < kept
    for l2 in (1e-6, 0.1):
        for ours, other in zip(
            Primal(state, keep).coefficients(l2),
            Dual(state, keep).coefficients(l2),
            strict=True,
        ):
            np.testing.assert_allclose(ours, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n", [80, 15])
def test_no_unit_left_is_the_mean(n):
    rows = _rows(n, 30, weighted=True)
    path = factor(_state(rows), np.zeros(30, dtype=bool))
    for l2 in (0.0, 1.0):
        kernel, bias = path.coefficients(l2)
        assert kernel.shape == (30, 2) and not kernel.any()
        np.testing.assert_allclose(bias, np.average(rows[1], axis=0, weights=rows[2]))


# Limits


@pytest.mark.parametrize("solver", ["auto", "cholesky", "dual", "qr"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_constant_features_leave_the_mean(solver, value):
    _, targets, weight = _rows(50, 6)
    rows = np.full((50, 6), value), targets, weight
    for l2 in (0.0, 1e-3):
        kernel, bias = solve(_state(rows, "rows"), l2, solver)[:2]
        # A unit that never moved must not move the output when it does.
        assert np.abs(kernel).max() < 1e-3
        np.testing.assert_allclose(bias + value * kernel.sum(axis=0), targets.mean(0))


@pytest.mark.parametrize("solver", ["auto", "cholesky", "dual", "qr", "svd"])
def test_one_constant_unit_gets_no_weight(solver):
    features, targets, weight = _rows(50, 6)
    features[:, 2] = 0.1
    kernel = solve(_state((features, targets, weight), "rows"), 1e-9, solver).kernel
    np.testing.assert_allclose(kernel[2], 0.0, atol=1e-6)


@pytest.mark.parametrize("solver", ["auto", "cholesky", "dual", "qr", "svd"])
@pytest.mark.parametrize("l2", [0.0, 1e-3])
def test_rows_without_weight_are_refused(solver, l2):
    features, targets, weight = _rows(50, 6)
    state = _state((features, targets, 0 * weight), "rows")
    with pytest.raises(ValueError, match="positive weight"):
        solve(state, l2, solver)


@pytest.mark.parametrize("l2", [0.0, 1e-3])
def test_wide_problems_never_form_a_matrix_of_units(l2):
    n, k = 60, 6000
    rows = _rows(n, k)
    tracemalloc.start()
    try:
        found = solve(_state(rows), l2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.solver == "dual"
    # The rows themselves are 1 % of it; a few copies of them are all there is.
    assert peak < 0.1 * k * k * 8


@pytest.mark.parametrize("solver", ["lu", "", None, "Cholesky"])
def test_unknown_solver_is_refused(solver):
    with pytest.raises(ValueError, match=r"(?s)'cholesky', 'dual'.*Received: solver="):
        solve(_state(_rows(20, 5)), 0.0, solver)


@pytest.mark.parametrize("l2", [-1e-9, np.nan, np.inf, [0.1], "much"])
def test_bad_penalty_is_refused(l2):
    with pytest.raises(ValueError, match=r"(?s)`l2` must be .*Received: l2="):
        solve(_state(_rows(20, 5)), l2)


@pytest.mark.parametrize("solver", ["qr", "svd", "dual"])
def test_solvers_that_need_rows_say_so(solver):
    with pytest.raises(ValueError, match=r'form[ =]"rows"'):
        solve(_state(_rows(20, 5)), 1e-3, solver)
