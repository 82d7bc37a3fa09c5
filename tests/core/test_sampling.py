"""Pairs follow q, units pass through their two rows, numbers stay exact."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from keras_swim.core import candidates
from keras_swim.core.activations import constants_for
from keras_swim.core.sampling import (
    Sample,
    pair_parameters,
    random_parameters,
    sample_pairs,
)

TANH = constants_for("tanh")

# Uneven distances and uneven targets: every pair has its own q.
POINTS = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 2.0], [-2.0, 1.0], [4.0, -1.0]])
VALUES = np.array([[0.0], [1.0], [-0.5], [2.0], [0.7]])


def _data(n=120, d=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, np.sin(x[:, :1]) + 0.3 * rng.normal(size=(n, 1))


def _q(x, y, x_norm=2, y_norm=np.inf):
    """The (n, n) table of q, row by row as the formula has it."""
    n = len(x)
    q = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            distance = np.linalg.norm(x[j] - x[i], ord=x_norm)
            if distance > 0:
                q[i, j] = np.linalg.norm(y[j] - y[i], ord=y_norm) / distance
    return q


def _counts(pairs, n):
    return np.bincount(pairs[:, 0] * n + pairs[:, 1], minlength=n * n).reshape(n, n)


def _drawn(x, codes, units=20_000, seed=0, **options):
    """How often each pair is drawn, with replacement from all pairs."""
    rng = np.random.default_rng(seed)
    sample = sample_pairs(x, codes, units, rng, replace=True, **options)
    return _counts(sample.pairs, len(x))


def _first_units(x, codes, draws=3000, **options):
    """How often each pair is the first unit of a draw without replacement."""
    rng = np.random.default_rng(0)
    # Enough candidates that every pair is one of them.
    options = {"candidates": 2 * len(x), **options}
    firsts = [sample_pairs(x, codes, 2, rng, **options).pairs[:1] for _ in range(draws)]
    return _counts(np.concatenate(firsts), len(x))


def _assert_follows(counts, weights):
    """Chi-square; a pair of weight zero must never occur."""
    counts, weights = np.ravel(counts), np.ravel(weights)
    assert counts[weights == 0].sum() == 0
    counts, weights = counts[weights > 0], weights[weights > 0]
    expected = weights / weights.sum() * counts.sum()
    assert expected.min() > 5, "too few draws for a chi-square test"
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def _keys(pairs, mirrored=True):
    return {tuple(sorted(pair)) if mirrored else tuple(pair) for pair in pairs.tolist()}


def _pre_activations(x, sample, place, dtype="float64", **options):
    """Pre-activation of every unit at a + place * (b - a), in float64."""
    kernel, bias = pair_parameters(x, sample, dtype=dtype, **options)
    a, b = (x[sample.pairs[:, side]].astype(np.float64) for side in (0, 1))
    rows = a + place * (b - a)
    return np.einsum("kd,dk->k", rows, kernel.astype(np.float64)) + bias


# Units


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "sin", "relu", "gelu"])
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_pre_activation_at_the_rows_and_half_way(name, scale):
    x, y = _data()
    constants = constants_for(name)
    s1, s2 = scale * constants.s1, scale * constants.s2
    sample = sample_pairs(x, y, 80, np.random.default_rng(1))
    options = dict(constants=constants, scale=scale)
    for place in (0.0, 0.5, 1.0):
        found = _pre_activations(x, sample, place, **options)
        np.testing.assert_allclose(found, place * s1 - s2, atol=1e-12)


def test_unit_does_not_change_across_the_pair():
    x = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 5.0]])
    kernel, _ = pair_parameters(x, Sample(np.array([[0, 1]]), None), TANH)
    np.testing.assert_allclose(kernel[:, 0], [np.log(3), 0.0], atol=1e-7)


@pytest.mark.parametrize("distance", [1e-200, 1e-30, 1e30, 1e150])
def test_tiny_and_huge_distances(distance):
    x = distance * np.array([[0.0, 0.0], [3.0, 4.0]])
    sample = sample_pairs(x, np.array([0, 1]), 1, np.random.default_rng(0))
    kernel, _ = pair_parameters(x, sample, TANH, dtype="float64")
    assert np.isfinite(kernel).all()
    for place in (0.0, 1.0):
        found = _pre_activations(x, sample, place, constants=TANH)
        np.testing.assert_allclose(found, (place - 0.5) * np.log(3), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float16, np.float32])
def test_dtype_of_the_input_does_not_matter(dtype):
    x = np.random.default_rng(0).integers(0, 200, size=(40, 4))
    y = np.arange(40.0)[:, None]
    expected = sample_pairs(x.astype(float), y, 30, np.random.default_rng(1))
    sample = sample_pairs(x.astype(dtype), y, 30, np.random.default_rng(1))
    np.testing.assert_array_equal(sample.pairs, expected.pairs)
    found = pair_parameters(x.astype(dtype), sample, TANH)
    for part, known in zip(
        found, pair_parameters(x.astype(float), expected, TANH), strict=True
    ):
        assert part.dtype == np.float32
        np.testing.assert_array_equal(part, known)


def test_bias_is_exact_for_long_rows_that_are_close_together():
    # All differences are orthogonal to the common offset, so the bias is of
    # order 1, while rounding the kernel alone moves <w, a> by up to 1e-2.
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(50, 40))
    steps -= steps.mean(axis=1, keepdims=True)
    x = 1e5 + steps
    sample = sample_pairs(x, rng.normal(size=(50, 1)), 100, rng)
    found = _pre_activations(x, sample, 0.5, dtype="float32", constants=TANH)
    np.testing.assert_allclose(found, 0.0, atol=1e-6)


def test_bias_is_rounded_only_once():
    rng = np.random.default_rng(1)
    x = 1e4 + rng.normal(size=(50, 40))
    sample = sample_pairs(x, rng.normal(size=(50, 1)), 100, rng)
    _, bias = pair_parameters(x, sample, TANH)
    found = _pre_activations(x, sample, 0.5, dtype="float32", constants=TANH)
    half_a_digit = np.abs(bias) * 2.0**-24
    assert np.all(np.abs(found) <= 1.01 * half_a_digit + 1e-9)


def test_blocks_of_units_do_not_show(monkeypatch):
    x, y = _data()
    sample = sample_pairs(x, y, 50, np.random.default_rng(1))
    whole = pair_parameters(x, sample, TANH)
    monkeypatch.setattr(candidates, "_BLOCK_ELEMENTS", 7 * x.shape[1])
    again = sample_pairs(x, y, 50, np.random.default_rng(1))
    np.testing.assert_array_equal(again.pairs, sample.pairs)
    for part, known in zip(pair_parameters(x, sample, TANH), whole, strict=True):
        np.testing.assert_array_equal(part, known)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_rigid_motion_and_scale_change_nothing(scale, epsilon):
    x, y = _data(d=4)
    rotation = stats.ortho_group.rvs(4, random_state=0)
    moved = scale * (x @ rotation + [1.0, -2.0, 0.5, 3.0])
    outputs, pairs = [], []
    for rows in (x, moved):
        sample = sample_pairs(rows, y, 100, np.random.default_rng(5), epsilon=epsilon)
        kernel, bias = pair_parameters(rows, sample, TANH, dtype="float64")
        outputs.append(np.tanh(rows @ kernel + bias))
        pairs.append(sample.pairs)
    np.testing.assert_array_equal(pairs[0], pairs[1])
    np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-10)


# Which pairs


def test_pairs_with_replacement_follow_q():
    counts = _drawn(POINTS, VALUES)
    _assert_follows(counts, _q(POINTS, VALUES))


def test_first_pair_without_replacement_follows_q():
    counts = _first_units(POINTS, VALUES)
    _assert_follows(counts, _q(POINTS, VALUES))


def test_second_pair_without_replacement_follows_q_of_what_is_left():
    x, y = POINTS[:3], VALUES[:3]
    q = _q(x, y)[np.triu_indices(3, 1)]
    q /= q.sum()
    rng = np.random.default_rng(0)
    number = {(0, 1): 0, (0, 2): 1, (1, 2): 2}
    counts = np.zeros((3, 3))
    for _ in range(3000):
        pairs = sample_pairs(x, y, 2, rng, mirrored=True).pairs
        first, second = (number[tuple(sorted(pair))] for pair in pairs.tolist())
        counts[first, second] += 1
    expected = q[:, None] * q / (1 - q[:, None])
    np.fill_diagonal(expected, 0.0)
    _assert_follows(counts, expected)


def test_mirrored_pairs_follow_q_in_both_directions():
    # The sign of a unit must not tell which of its rows came first.
    counts = _first_units(POINTS, VALUES, mirrored=True)
    _assert_follows(counts, _q(POINTS, VALUES))


@pytest.mark.parametrize("x_norm", [1, 2, np.inf])
def test_norm_of_the_input_enters_q(x_norm):
    counts = _drawn(POINTS, VALUES, x_norm=x_norm)
    _assert_follows(counts, _q(POINTS, VALUES, x_norm=x_norm))
    # The other norms would be told apart by as many draws.
    for other in {1, 2, np.inf} - {x_norm}:
        with pytest.raises(AssertionError):
            _assert_follows(counts, _q(POINTS, VALUES, x_norm=other))


@pytest.mark.parametrize("y_norm", [1, 2, np.inf])
def test_norm_of_the_target_enters_q(y_norm):
    targets = np.array([[0.0, 0], [1, 1], [3, 0], [-2, 2], [0, 1]])
    counts = _drawn(POINTS, targets, y_norm=y_norm)
    _assert_follows(counts, _q(POINTS, targets, y_norm=y_norm))
    for other in {1, 2, np.inf} - {y_norm}:
        with pytest.raises(AssertionError):
            _assert_follows(counts, _q(POINTS, targets, y_norm=other))


def test_labels_count_as_one_hot():
    labels = np.array([0, 1, 2, 2, 0])
    counts = _drawn(POINTS, labels)
    _assert_follows(counts, _q(POINTS, np.eye(3)[labels]))


def test_epsilon_is_the_smallest_distance_that_counts():
    distances = np.linalg.norm(POINTS[:, None] - POINTS, axis=2)
    floor = 1.2 * np.median(distances[np.triu_indices(5, 1)])
    gaps = np.abs(VALUES - VALUES.T)
    expected = gaps / np.maximum(distances, floor)
    np.fill_diagonal(expected, 0.0)
    _assert_follows(_drawn(POINTS, VALUES, epsilon=1.2), expected)


@pytest.mark.parametrize("draw", [_drawn, _first_units])
def test_constant_targets_give_uniform_pairs(draw):
    expected = 1.0 - np.eye(5)
    _assert_follows(draw(POINTS, np.ones((5, 1))), expected)
    _assert_follows(draw(POINTS, np.zeros(5, dtype=int)), expected)


@pytest.mark.parametrize("draw", [_drawn, _first_units])
def test_uniform_sampler_takes_no_notice_of_targets_and_distances(draw):
    counts = draw(POINTS, VALUES, sampler="uniform")
    _assert_follows(counts, 1.0 - np.eye(5))


def test_candidates_are_uniform_where_not_all_pairs_are_looked_at():
    # Corners of a simplex: all distances equal, so candidates decide alone.
    x, rng = np.eye(6), np.random.default_rng(0)
    drawn = [
        sample_pairs(x, np.arange(6), 3, rng, candidates=1).pairs for _ in range(2000)
    ]
    _assert_follows(_counts(np.concatenate(drawn), 6), 1.0 - np.eye(6))


def test_more_candidates_find_steeper_pairs():
    x, y = _data(n=150)
    q = _q(x, y)

    def steepness(candidates):
        # Logarithms: a few very steep pairs would decide a mean of q.
        means = []
        for seed in range(30):
            rng = np.random.default_rng(seed)
            i, j = sample_pairs(x, y, 150, rng, candidates=candidates).pairs.T
            means.append(np.log(q[i, j]).mean())
        return np.mean(means)

    assert steepness(40) > steepness(2) + 0.05


def test_seed_decides():
    x, y = _data()
    first, same, other = (
        sample_pairs(x, y, 50, np.random.default_rng(seed)).pairs for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()


# Weights


def test_weights_multiply_q():
    weight = np.array([1.0, 2.0, 0.5, 0.0, 3.0])
    expected = _q(POINTS, VALUES) * weight[:, None] * weight
    _assert_follows(_drawn(POINTS, VALUES, sample_weight=weight), expected)
    _assert_follows(_first_units(POINTS, VALUES, sample_weight=weight), expected)


def test_row_of_weight_two_counts_as_the_row_twice():
    weight = np.array([1, 2, 1, 1, 3])
    twice = np.repeat(np.arange(5), weight)
    weighted = _drawn(POINTS, VALUES, sample_weight=weight.astype(float))
    pairs = _drawn(POINTS[twice], VALUES[twice], seed=1)
    repeated = np.zeros((5, 5))
    np.add.at(repeated, (twice[:, None], twice), pairs)
    table = np.stack([weighted.ravel(), repeated.ravel()])
    table = table[:, table.any(axis=0)]
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_weights_count_among_many_rows():
    """The heavy half makes as many units as if its rows were repeated."""
    x, y = _data(n=300)
    weight = np.where(np.arange(300) < 150, 4, 1)

    def heavy_share(rows, **options):
        shares = []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            sample = sample_pairs(x[rows], y[rows], 300, rng, **options)
            shares.append(np.mean(rows[sample.pairs] < 150))
        return np.mean(shares)

    weighted = heavy_share(np.arange(300), sample_weight=weight.astype(float))
    repeated = heavy_share(np.repeat(np.arange(300), weight))
    assert weighted == pytest.approx(repeated, abs=0.03)


@pytest.mark.parametrize("units", [20, 500])
@pytest.mark.parametrize("constant", [False, True])
def test_rows_of_weight_zero_make_no_unit(units, constant):
    x, y = _data()
    weight = (np.arange(len(x)) % 3 > 0).astype(float)
    y = np.ones_like(y) if constant else y
    rng = np.random.default_rng(0)
    pairs = sample_pairs(x, y, units, rng, sample_weight=weight).pairs
    assert (weight[pairs] > 0).all()


# Distinct pairs


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_equal_rows_never_pair(replace, constant):
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(4, 3)), 5, axis=0)
    y = np.zeros((20, 1)) if constant else rng.normal(size=(20, 1))
    pairs = sample_pairs(x, y, 300, rng, replace=replace).pairs
    assert np.all(pairs[:, 0] // 5 != pairs[:, 1] // 5)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("n, units", [(30, 30), (30, 200), (30, 435), (200, 199)])
def test_all_units_differ_when_there_are_pairs_enough(mirrored, n, units):
    x, y = _data(n)
    rng = np.random.default_rng(3)
    pairs = sample_pairs(x, y, units, rng, mirrored=mirrored).pairs
    assert pairs.shape == (units, 2)
    assert len(_keys(pairs, mirrored)) == units


def test_units_differ_also_where_many_rows_are_equal():
    """Half of the rows are zero, as in sparse data: a quarter of all pairs."""
    x, y = _data(200)
    x[::2] = 0.0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        pairs = sample_pairs(x, y, 200, rng).pairs
        assert len(_keys(pairs, mirrored=False)) == 200


def test_twins_count_as_two_unless_mirrored():
    x, y = _data(6)
    rng = np.random.default_rng(0)
    assert len(_keys(sample_pairs(x, y, 30, rng).pairs, mirrored=False)) == 30
    twins = sample_pairs(x, y, 30, rng, mirrored=True).pairs
    assert len(_keys(twins[:15])) == 15


@pytest.mark.parametrize("mirrored, distinct", [(False, 20), (True, 10)])
def test_too_few_pairs_are_all_taken_and_then_repeated(mirrored, distinct):
    pairs = sample_pairs(
        POINTS, VALUES, 64, np.random.default_rng(0), mirrored=mirrored
    ).pairs
    assert len(pairs) == 64
    assert len(_keys(pairs[:distinct], mirrored)) == distinct
    # As often as each other: 64 = 3 * 20 + 4 = 6 * 10 + 4.
    ordered = pairs if not mirrored else np.sort(pairs, axis=1)
    counts = np.unique(ordered, axis=0, return_counts=True)[1]
    assert len(counts) == distinct
    assert sorted(counts)[0] == 64 // distinct
    assert sorted(counts)[-1] == 64 // distinct + 1


def test_pairs_of_equal_targets_make_no_unit_even_when_units_are_many():
    labels = np.array([0, 0, 0, 0, 1])
    pairs = sample_pairs(POINTS, labels, 50, np.random.default_rng(0)).pairs
    assert _keys(pairs) == {(i, 4) for i in range(4)}


def test_near_duplicates_of_different_classes_cost_one_unit():
    x, _ = _data(60)
    x[1] = x[0]
    x[1, 0] += 1e-7
    labels = np.arange(60) % 2
    options = dict(candidates=60, mirrored=True)

    def is_that_pair(replace):
        rng = np.random.default_rng(0)
        pairs = sample_pairs(x, labels, 50, rng, replace=replace, **options).pairs
        return (np.sort(pairs, axis=1) == [0, 1]).all(axis=1)

    # With replacement the pair eats the layer: that is what makes it a test.
    assert is_that_pair(replace=True).mean() > 0.9
    assert is_that_pair(replace=False).sum() == 1


def test_first_units_of_a_wide_layer_are_the_narrow_layer():
    x, y = _data(300)
    for k in (1, 40, 150):
        narrow, wide = (
            sample_pairs(x, y, units, np.random.default_rng(9), candidates=4).pairs
            for units in (k, 250)
        )
        np.testing.assert_array_equal(narrow, wide[:k])


@pytest.mark.parametrize("units", [50, 1000])
@pytest.mark.parametrize("real", [False, True])
def test_rare_class_yields_distinct_pairs(units, real):
    """Two rows of 2000 differ from the rest: 3996 pairs are worth having."""
    x, _ = _data(2000, d=2)
    codes = np.zeros(2000, dtype=int)
    codes[[70, 1500]] = 1
    codes = codes[:, None].astype(float) if real else codes
    rng = np.random.default_rng(0)
    pairs = sample_pairs(x, codes, units, rng, mirrored=True).pairs
    assert np.all(np.isin(pairs, [70, 1500]).sum(axis=1) == 1)
    assert len(_keys(pairs)) == units


# Column subsets


@pytest.mark.parametrize("candidates", [1, 10])
def test_subset_sizes_get_equal_shares(candidates):
    """Neither do short differences win, nor does one tiny one cost its size."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(500, 6))
        y = x.sum(axis=1, keepdims=True)
        sample = sample_pairs(
            x, y, 400, rng, subset_sizes=[0, 1, 2, 3], candidates=candidates
        )
        sizes = sample.columns.sum(axis=1)
        shares = [np.mean(sizes == size) for size in (1, 2, 3, 6)]
        # Four standard deviations of an independent choice of the size.
        np.testing.assert_allclose(shares, 0.25, atol=0.09)


def test_columns_of_a_subset_are_equally_likely():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(500, 6)), rng.normal(size=(500, 1))
    columns = sample_pairs(x, y, 600, rng, subset_sizes=[2]).columns
    np.testing.assert_array_equal(columns.sum(axis=1), 2)
    np.testing.assert_allclose(columns.mean(axis=0), 1 / 3, atol=0.08)


def test_columns_outside_a_subset_have_no_weight():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 6)), rng.normal(size=(100, 1))
    sample = sample_pairs(x, y, 80, rng, subset_sizes=[1, 3])
    kernel, _ = pair_parameters(x, sample, TANH)
    np.testing.assert_array_equal(kernel.T != 0, sample.columns)
    for place in (0.0, 0.5, 1.0):
        found = _pre_activations(x, sample, place, constants=TANH)
        np.testing.assert_allclose(found, (place - 0.5) * np.log(3), atol=1e-12)


def test_groups_of_columns_stay_together():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 6)), rng.normal(size=(100, 1))
    groups = np.array([7, 7, 2, 2, 2, 5])
    sample = sample_pairs(x, y, 90, rng, subset_sizes=[1, 2], groups=groups)
    members = [sample.columns[:, groups == name] for name in (7, 2, 5)]
    for columns in members:
        np.testing.assert_array_equal(columns.any(axis=1), columns.all(axis=1))
    counts = sum(columns.any(axis=1).astype(int) for columns in members)
    assert set(counts) == {1, 2}


def test_distance_counts_only_the_subset():
    """q of a single column: all units (pair and column) can be counted."""
    x, y = POINTS[:3], VALUES[:3]
    rng = np.random.default_rng(0)
    counts = np.zeros((2, 3, 3))
    for _ in range(2500):
        sample = sample_pairs(x, y, 1, rng, subset_sizes=[1], candidates=60)
        (i, j), column = sample.pairs[0], int(sample.columns[0].argmax())
        counts[column, i, j] += 1
    expected = np.stack([_q(x[:, :1], y), _q(x[:, 1:], y)])
    _assert_follows(counts, expected)


def test_subset_that_does_not_tell_two_rows_apart_makes_no_unit():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(2, size=100), rng.normal(size=100)])
    sample = sample_pairs(x, rng.normal(size=(100, 1)), 100, rng, subset_sizes=[1])
    step = np.abs(x[sample.pairs[:, 0]] - x[sample.pairs[:, 1]])
    assert np.all((step * sample.columns).max(axis=1) > 0)
    assert sample.columns.any(axis=0).all()


@pytest.mark.parametrize("sizes", [None, [0], [0, 0]])
def test_no_subsets_no_columns(sizes):
    x, y = _data()
    rng = np.random.default_rng(0)
    assert sample_pairs(x, y, 5, rng, subset_sizes=sizes).columns is None


def test_subset_of_all_columns_is_no_restriction():
    x, y = _data(d=3)
    sample = sample_pairs(x, y, 60, np.random.default_rng(0), subset_sizes=[1, 3, 9])
    assert set(sample.columns.sum(axis=1)) == {1, 3}


# Limits


@pytest.mark.parametrize(
    "x, codes",
    [
        (np.ones((5, 2)), np.arange(5.0)[:, None]),
        (np.ones((5, 2)), np.arange(5)),
        (np.ones((1, 2)), np.zeros(1, dtype=int)),
    ],
)
def test_rows_that_form_no_pair_are_refused(x, codes):
    with pytest.raises(ValueError, match=r"(?s)Expected .*two .*rows.*Received"):
        sample_pairs(x, codes, 3, np.random.default_rng(0))


def test_a_single_row_of_positive_weight_is_refused():
    x, y = _data(5)
    weight = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"(?s)positive weight.*Received: 1"):
        sample_pairs(x, y, 3, np.random.default_rng(0), sample_weight=weight)


@pytest.mark.parametrize("sizes", [None, [0, 2]])
def test_memory_does_not_grow_with_candidates_times_inputs(sizes):
    rng = np.random.default_rng(0)
    n, d, candidates = 4000, 500, 20
    x = rng.normal(size=(n, d)).astype(np.float32)
    y = rng.normal(size=(n, 1))
    tracemalloc.start()
    try:
        sample_pairs(x, y, 100, rng, candidates=candidates, subset_sizes=sizes)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.35 * candidates * n * d * 8


def test_memory_of_the_parameters_does_not_grow_beyond_the_kernel():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2000)).astype(np.float32)
    pairs = np.stack([np.arange(10_000) % 50, np.arange(1, 10_001) % 50], axis=1)
    tracemalloc.start()
    try:
        kernel, _ = pair_parameters(x, Sample(pairs, None), TANH)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Three float64 arrays of this size would be six kernels.
    assert peak < 3 * kernel.nbytes


# The data-agnostic baseline


def test_random_parameters():
    kernel, bias = random_parameters(50, 400, np.random.default_rng(0), scale=3.0)
    assert kernel.shape == (50, 400) and bias.shape == (400,)
    assert kernel.dtype == bias.dtype == np.float32
    assert stats.kstest(kernel.ravel() / 3.0, "norm").pvalue > 1e-3
    uniform = stats.uniform(-np.pi, 2 * np.pi)
    assert stats.kstest(bias, uniform.cdf).pvalue > 1e-3
