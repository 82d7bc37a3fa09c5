"""Product units grown by the gain of each condition."""

import numpy as np
import pytest

from keras_swim.core.boost_units import Problem
from keras_swim.core.grown_units import find_bins, grow_product_units


def problem_of(x, gradient, rows=None, penalty=1.0):
    gradient = gradient.astype("float32")
    curvature = np.ones_like(gradient)
    rows = rows or slice(0, len(x))
    return Problem(x.T.copy(), gradient, curvature, rows, penalty)


def grown(problem, count, terms, seed=0):
    rng = np.random.default_rng(seed)
    bins = find_bins(problem.x)
    units, values = grow_product_units(
        problem, bins, count, rng, terms, "standard", problem.x
    )
    np.testing.assert_allclose(values, units.across(problem.x), atol=1e-6)
    return units


def test_bins_are_those_between_the_cuts():
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=1000), rng.integers(0, 5, 1000)]).astype("float32")
    bins = find_bins(x)
    for codes, cuts, gaps, values in zip(*bins, x, strict=True):
        cuts = cuts[gaps > 0]
        np.testing.assert_array_equal(codes, (values[:, None] > cuts).sum(axis=1))
    assert (bins.gaps[1] > 0).sum() == 4
    np.testing.assert_array_equal(bins.cuts[1, :4], [0.5, 1.5, 2.5, 3.5])
    counts = np.bincount(bins.codes[0])
    assert len(counts) == 64 and counts.min() >= 15 and counts.max() <= 16


def test_steps_are_as_sharp_as_the_values_are_close():
    rng = np.random.default_rng(0)
    even = np.linspace(-4, 4, 1000)
    skewed = np.sort(rng.exponential(size=1000) ** 4)
    x = np.stack([even, (skewed - skewed.mean()) / skewed.std()]).astype("float32")
    bins = find_bins(x)
    np.testing.assert_allclose(bins.gaps[0, :63], 0.1, atol=1e-6)
    # Small values are close together, and a step there stays among its neighbours.
    room, between = bins.gaps[1, :63], np.diff(bins.cuts[1, :63])
    assert room.min() == pytest.approx(1e-3, rel=1e-5) and room.max() >= 0.1
    crowded = room[:-1] < 0.1
    assert crowded.sum() > 10
    assert (room[:-1][crowded] <= np.maximum(between[crowded], 1e-3) + 1e-6).all()


def test_a_frequent_value_has_a_bin_of_its_own():
    x = np.concatenate([np.zeros(900), np.arange(1, 101)]).astype("float32")[None]
    codes = find_bins(x).codes[0]
    assert set(codes[:900]) == {0} and codes[900:].min() > 0


def test_the_first_cut_is_the_best_of_all():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 8, size=(400, 3)).astype("float32")
    gradient = (x[:, 1] > 4) * (x[:, 2] - 3.0) + rng.normal(size=400)
    problem = problem_of(x, gradient[:, None], penalty=2.0)
    unit = grown(problem, 2, terms=1)
    gains = {}
    for column in range(3):
        for cut in np.arange(7) + 0.5:
            right = x[:, column] > cut
            gains[column, cut] = sum(
                gradient[side].sum() ** 2 / (side.sum() + 2.0)
                for side in (right, ~right)
            )
    column, cut = max(gains, key=gains.get)
    assert unit.columns[:, 0].tolist() == [column, column]
    np.testing.assert_allclose(-unit.offsets / unit.slopes, cut, rtol=1e-6)


def test_several_outputs_add_up_what_a_cut_gains():
    rng = np.random.default_rng(6)
    x = rng.integers(0, 8, size=(500, 3)).astype("float32")
    # Each output alone has a best cut of its own; one is good for both.
    first = 1.0 * (x[:, 0] > 2) + 0.9 * (x[:, 1] > 4)
    second = 0.9 * (x[:, 1] > 4) - 1.0 * (x[:, 2] > 5)
    gradient = np.stack([first - first.mean(), second - second.mean()], axis=1)
    unit = grown(problem_of(x, gradient), 2, terms=1)
    assert unit.columns[:, 0].tolist() == [1, 1]
    np.testing.assert_allclose(-unit.offsets / unit.slopes, 4.5, rtol=1e-6)
    for output, column in enumerate((0, 2)):
        unit = grown(problem_of(x, gradient[:, output, None]), 2, terms=1)
        assert unit.columns[:, 0].tolist() == [column, column]


def test_an_exact_conjunction_is_found():
    rng = np.random.default_rng(2)
    x = rng.integers(0, 10, size=(3000, 4)).astype("float32")
    inside = (x[:, 0] > 6) & (x[:, 1] < 3) & (x[:, 3] > 4)
    problem = problem_of(x, inside[:, None] - inside.mean())
    phi = grown(problem, 8, terms=3).features({"standard": x})
    assert np.abs(phi - inside[:, None]).max(axis=0).min() < 0.1


def test_products_share_the_space_among_them():
    rng = np.random.default_rng(3)
    x = rng.integers(0, 6, size=(2000, 5)).astype("float32")
    problem = problem_of(x, rng.normal(size=(2000, 1)))
    phi = grown(problem, 16, terms=4).features({"standard": x})
    np.testing.assert_allclose(phi.sum(axis=1), 1.0, atol=1e-5)
    assert (phi.max(axis=1) > 0.9).all()


@pytest.mark.parametrize("outputs", [1, 3])
def test_products_are_larger_at_the_second_row_of_their_pair(outputs):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(500, 3)).astype("float32")
    problem = problem_of(x, rng.normal(size=(500, outputs)), slice(100, 400))
    units = grown(problem, 40, terms=4)
    assert units.pairs.min() >= 100 and units.pairs.max() < 400
    phi = units.features({"standard": x})
    each = np.arange(40)
    assert (phi[units.pairs[:, 1], each] > phi[units.pairs[:, 0], each]).all()


def test_regions_that_nothing_gains_to_cut_stay_whole():
    x = np.repeat([[0.0, 5.0], [1.0, 5.0]], 20, axis=0).astype("float32")
    problem = problem_of(x, np.repeat([[-1.0], [1.0]], 20, axis=0))
    units = grown(problem, 8, terms=3)
    phi = units.features({"standard": x})
    # One cut is possible: four copies of each side.
    np.testing.assert_allclose(phi[0], np.repeat([0.98, 0.02], 4), atol=0.01)
    np.testing.assert_allclose(phi[-1], np.repeat([0.02, 0.98], 4), atol=0.01)
    sides = x[units.pairs, 0]
    np.testing.assert_array_equal(sides, [[1.0, 0.0]] * 4 + [[0.0, 1.0]] * 4)


def test_one_column_is_cut_again_and_again():
    rng = np.random.default_rng(7)
    x = rng.uniform(0, 4, size=(800, 1)).astype("float32")
    stairs = np.array([0.0, 1.0, 3.0, 4.0])[x[:, 0].astype(int)]
    units = grown(problem_of(x, (stairs - stairs.mean())[:, None]), 4, terms=2)
    cuts = np.sort(np.unique((-units.offsets / units.slopes).round(3)))
    np.testing.assert_allclose(cuts, [1, 2, 3], atol=0.1)


@pytest.mark.parametrize("count", [1, 5, 20])
def test_as_many_units_as_asked_for(count):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(100, 2)).astype("float32")
    units = grown(problem_of(x, rng.normal(size=(100, 1))), count, terms=3)
    assert units.columns.shape == (count, 3) and units.pairs.shape == (count, 2)
