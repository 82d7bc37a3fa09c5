"""Which pairs SampledDense draws: samplers, seeds, targets and weights."""

import keras
import numpy as np
import pytest
from adapting import adapted, assert_same, one_hot, outputs, state

from keras_swim import SampledDense

BACKEND = keras.backend.backend()


# Samplers.


def test_uniform_sampler_needs_no_targets_and_ignores_them(data):
    x, y = data
    layer = adapted(x, sampler="uniform")
    assert layer.pairs.shape == (16, 2)
    assert_same(state(layer), state(adapted(x, y, sampler="uniform")))
    # Pairs of one class occur, which the gradient sampler never draws.
    many = adapted(x, y, sampler="uniform", units=60)
    assert (y[many.pairs[:, 0]] == y[many.pairs[:, 1]]).any()
    gradient = adapted(x, y, units=60)
    assert (y[gradient.pairs[:, 0]] != y[gradient.pairs[:, 1]]).all()


def test_random_sampler_uses_no_data(data):
    x = np.random.default_rng(1).normal(size=(4, 50)).astype("float32")
    layer = adapted(x, sampler="random", units=200, scale=3.0)
    kernel, bias = layer.get_weights()
    # 10 000 normal numbers: five standard errors.
    assert abs(kernel.mean()) < 5 * 3.0 / 100
    assert abs(kernel.std() - 3.0) < 5 * 3.0 / np.sqrt(2 * kernel.size)
    assert np.abs(bias).max() <= np.pi
    assert bias.min() < -2.8
    assert bias.max() > 2.8
    assert layer.pairs is None
    other = adapted(100 + x, [0, 1, 2, 3], sampler="random", units=200, scale=3.0)
    assert_same(other.get_weights(), layer.get_weights())


def test_pairs_are_none_before_adapt():
    layer = SampledDense(4)
    assert layer.pairs is None
    layer.build((None, 2))
    assert layer.pairs is None


def test_units_differ_unless_replace(data):
    x, y = data
    distinct = {frozenset(pair) for pair in adapted(x, y, units=100).pairs.tolist()}
    assert len(distinct) == 100
    drawn = adapted(x, y, units=100, replace=True).pairs.tolist()
    assert len({frozenset(pair) for pair in drawn}) < 100


def test_more_units_than_pairs_repeats_pairs():
    x = np.array([[0.0], [1.0], [3.0]], dtype="float32")
    layer = adapted(x, [0, 1, 2], units=9)
    pairs = [frozenset(pair) for pair in layer.pairs.tolist()]
    # The three distinct pairs come first.
    assert len(set(pairs[:3])) == 3
    assert np.isfinite(layer.get_weights()[0]).all()


def test_first_units_of_a_wider_layer_come_from_the_likelier_pairs():
    # One gap is far larger over its distance than all the others.
    x = np.array([[0.0], [1e-3], [1.0], [2.0], [3.0], [4.0]], dtype="float32")
    y = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    firsts = [
        set(adapted(x, y, units=4, seed=seed, candidates=6).pairs[0])
        for seed in range(20)
    ]
    assert firsts.count({0, 1}) >= 18


@pytest.mark.parametrize("replace", [False, True])
def test_near_duplicates_of_two_classes_cost_one_unit(replace):
    rng = np.random.default_rng(3)
    x = rng.uniform(1, 2, size=(50, 2))
    dtype = "float32" if BACKEND == "jax" else "float64"
    close = 2.0**-20 if BACKEND == "jax" else 1e-7
    x[:2] = 1.5
    x[1, 0] += close
    y = np.arange(50) % 2
    # So many candidates that the twins are among them.
    layer = adapted(x, y, units=32, replace=replace, dtype=dtype, candidates=50)
    pairs = [frozenset(pair) for pair in layer.pairs.tolist()]
    twins = pairs.count(frozenset({0, 1}))
    if replace:
        # What the default protects from: the twins take most of the layer.
        assert twins > 16
    else:
        assert twins == 1
        assert len(set(pairs)) == 32
    assert np.isfinite(outputs(layer, x)).all()


# Seeds.


def test_seed_decides(data):
    assert_same(state(adapted(*data)), state(adapted(*data)))
    assert (adapted(*data).pairs != adapted(*data, seed=1).pairs).any()
    drawn = [adapted(*data, seed=None).pairs for _ in range(2)]
    assert (drawn[0] != drawn[1]).any()


def test_adapting_again_starts_from_the_seed(data):
    layer = adapted(*data)
    before = state(layer)
    layer.adapt(*data)
    assert_same(state(layer), before)


def test_depth_enters_the_seed(data):
    first, second = adapted(*data), adapted(*data, depth=1)
    assert (first.pairs != second.pairs).any()
    assert_same(state(second), state(adapted(*data, depth=1)))


def test_depth_limits_the_preference_for_close_pairs():
    # Rows 0 and 1: 1e-15 over 1e-20 in a first layer, over 1e-10 (of the
    # median distance) in a deep one. All other gaps are about 1 over 1.
    x = np.array([[0.0], [1e-20], [1.0], [2.0]], dtype="float32")
    y = np.array([0.0, 1e-15, 1.0, 0.0])
    for depth, expected in ((0, 20), (1, 0)):
        drawn = [
            set(adapted(x, y, units=1, seed=seed, depth=depth, candidates=4).pairs[0])
            for seed in range(20)
        ]
        assert drawn.count({0, 1}) == expected


# Targets and weights.


@pytest.mark.parametrize(
    "form",
    [
        lambda y: y[:, None],
        lambda y: y.astype("uint8"),
        lambda y: y.tolist(),
        lambda y: one_hot(y),
        lambda y: one_hot(y).astype("int64"),
        lambda y: np.array(["ant", "bee", "crow"])[y],
        lambda y: np.array(["ant", "bee", "crow"])[y].tolist(),
    ],
    ids=["column", "uint8", "list", "one-hot", "int one-hot", "text", "text list"],
)
def test_forms_of_class_labels_give_the_same_pairs(data, form):
    x, y = data
    assert_same(state(adapted(x, form(y))), state(adapted(x, y)))


def test_a_list_of_numpy_scalars_is_one_array_of_labels(data):
    x, y = data
    labels = [np.int64(label) for label in y]
    assert_same(state(adapted(x, labels)), state(adapted(x, y)))


def test_text_objects_are_classes_too(data):
    # A pandas column of text has this dtype.
    x, y = data
    labels = np.array(["ant", "bee", "crow"], dtype=object)[y]
    assert_same(state(adapted(x, labels)), state(adapted(x, y)))


def test_booleans_are_classes(data):
    x, y = data
    assert_same(state(adapted(x, y == 1)), state(adapted(x, (y == 1).astype(int))))


@pytest.mark.parametrize(
    "names", [[1, 2, 0], [2, 1, 0], [0, 5, 1000], [-1, 7, 3]], ids=str
)
def test_class_numbers_are_not_magnitudes(data, names):
    x, y = data
    names = np.array(names)
    expected = state(adapted(x, y, units=40))
    assert_same(state(adapted(x, names[y], units=40)), expected)
    assert_same(state(adapted(x, names[y][:, None], units=40)), expected)
    if set(names) == {0, 1, 2}:
        assert_same(state(adapted(x, one_hot(names[y]), units=40)), expected)


def test_class_numbers_of_several_outputs_are_not_magnitudes(data):
    x, y = data
    other = np.random.default_rng(1).integers(0, 2, size=60)
    before = state(adapted(x, [y, other]))
    assert_same(state(adapted(x, [np.array([2, 0, 1])[y], 1 - other])), before)


def test_class_numbers_of_positions_are_not_magnitudes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4, 3)).astype("float32")
    y = rng.integers(0, 3, size=(12, 4))
    renamed = np.array([0, 50, 1])[y]
    assert_same(state(adapted(x, renamed)), state(adapted(x, y)))


def test_targets_of_positions_belong_to_their_positions():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4, 3)).astype("float32")
    y = rng.integers(0, 3, size=(12, 4))
    layer = adapted(x, y, units=40)
    labels = y.ravel()
    assert (labels[layer.pairs[:, 0]] != labels[layer.pairs[:, 1]]).all()
    # Two positions of one sample may differ, and then they form pairs too.
    assert (layer.pairs[:, 0] // 4 == layer.pairs[:, 1] // 4).any()
    for form in (y[..., None], one_hot(y)):
        assert_same(state(adapted(x, form, units=40)), state(layer))


def test_real_targets_are_magnitudes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2)).astype("float32")
    y = rng.normal(size=30)
    y[7] = 1e6
    layer = adapted(x, y, units=10, candidates=30)
    assert (layer.pairs == 7).any(axis=1).all()
    column = adapted(x, y[:, None], units=10, candidates=30)
    assert_same(state(column), state(layer))
    wide = np.zeros((30, 3))
    wide[:, 1] = y
    assert_same(state(adapted(x, wide, units=10, candidates=30)), state(layer))


@pytest.mark.parametrize(("norm", "share"), [("inf", 0.4), (1, 0.57), (2, 0.485)])
def test_y_norm_joins_the_columns_of_a_target(norm, share):
    x = np.array([[0.0], [1.0], [2.0]], dtype="float32")
    # From the middle row: (1, 1) to the left, (1.5, 0) to the right, so the
    # left pair's share is 1 / 2.5, 2 / 3.5 or 1.414 / 2.914.
    y = np.array([[1.0, 1.0], [0.0, 0.0], [1.5, 0.0]])
    layer = adapted(x, y, units=4000, y_norm=norm, replace=True)
    drawn = [set(pair) for pair in layer.pairs.tolist()]
    left, right = drawn.count({0, 1}), drawn.count({1, 2})
    # Three standard errors.
    assert abs(left / (left + right) - share) < 0.03


@pytest.mark.parametrize(("norm", "share"), [("inf", 0.4), (1, 0.57), (2, 0.485)])
def test_x_norm_measures_the_distance_of_rows(norm, share):
    # The same shares with the norms in the denominator: the right pair is far
    # by (1, 1), the left one by (1.5, 0).
    x = np.array([[1.5, 0.0], [0.0, 0.0], [1.0, 1.0]], dtype="float32")
    y = np.array([1.0, 0.0, -1.0])
    layer = adapted(x, y, units=4000, x_norm=norm, replace=True)
    drawn = [set(pair) for pair in layer.pairs.tolist()]
    left, right = drawn.count({0, 1}), drawn.count({1, 2})
    assert abs(left / (left + right) - share) < 0.03


def test_constant_targets_give_uniform_pairs(data):
    x = data[0]
    layer = adapted(x, np.zeros(60), units=30)
    assert len({frozenset(pair) for pair in layer.pairs.tolist()}) == 30
    assert (x[layer.pairs[:, 0]] != x[layer.pairs[:, 1]]).any(axis=1).all()


def test_rows_of_weight_zero_never_appear(data):
    x, y = data
    weight = (np.arange(60) % 3 > 0).astype("float32")
    used = np.unique(adapted(x, y, weight, units=200).pairs)
    assert (weight[used] > 0).all()
    # All the others do.
    assert len(used) == 40


def test_heavy_rows_appear_more_often(data):
    x, y = data
    weight = np.ones(60)
    weight[:5] = 1000.0
    pairs = adapted(x, y, weight, units=5).pairs
    assert (pairs < 5).any(axis=1).all()
    assert not (adapted(x, y, units=5).pairs < 5).any(axis=1).all()


def test_equal_weights_change_nothing(data):
    assert_same(state(adapted(*data, np.full(60, 2.0))), state(adapted(*data)))
