"""What SampledDense refuses, and that nothing is changed then."""

import numpy as np
import pytest
from adapting import adapted, assert_same, one_hot, state

from keras_swim import SampledDense

# Bad input.


@pytest.mark.parametrize("units", [0, -1, 2.5, True, "8", None])
def test_bad_units(units):
    with pytest.raises(ValueError, match=r"`units` must be a positive integer.*units="):
        SampledDense(units)


def test_numpy_integers_are_integers(data):
    layer = adapted(*data, units=np.int64(16), seed=np.int32(0))
    assert type(layer.units) is int
    assert_same(state(layer), state(adapted(*data)))


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "1", True, None, [1.0]])
@pytest.mark.parametrize("name", ["scale", "candidates"])
def test_bad_positive_numbers(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be a positive number"):
        SampledDense(4, **{name: value})


@pytest.mark.parametrize("name", ["x_norm", "y_norm"])
@pytest.mark.parametrize("value", [0, 3, -np.inf, "l2", None, [2]])
def test_bad_norms(name, value):
    with pytest.raises(ValueError, match=f'`{name}` must be 1, 2 or "inf".*Received'):
        SampledDense(4, **{name: value})


def test_infinity_is_a_norm():
    layer = SampledDense(4, x_norm=np.inf, y_norm=float("inf"))
    assert (layer.x_norm, layer.y_norm) == ("inf", "inf")


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True, [1]])
def test_bad_seeds(seed):
    with pytest.raises(ValueError, match="`seed` must be a non-negative integer"):
        SampledDense(4, seed=seed)


@pytest.mark.parametrize("name", ["subset_sizes", "groups"])
@pytest.mark.parametrize("value", [[-1], [1.5], ["a"], [True], 2])
def test_bad_lists_of_integers(name, value):
    with pytest.raises((TypeError, ValueError), match=f"`{name}`.*integer"):
        SampledDense(4, **{name: value})


@pytest.mark.parametrize("sampler", ["grad", "", None, 1])
def test_unknown_sampler_lists_the_known_ones(sampler):
    with pytest.raises(ValueError, match=r"'gradient', 'uniform', 'random'.*Rec"):
        SampledDense(4, sampler=sampler)


@pytest.mark.parametrize(
    "value", [(0.0, 1.0), (1.0,), (np.nan, 0.0), "ab", 5, (None, 1.0)]
)
def test_bad_constants(value):
    with pytest.raises((TypeError, ValueError), match="`constants` must be"):
        SampledDense(4, constants=value)


def squared(z):
    return z * z


@pytest.mark.parametrize("activation", [squared, "hard_sigmoid"])
def test_unknown_activation_needs_constants(activation):
    name = getattr(activation, "__name__", activation)
    with pytest.raises(ValueError, match=rf"{name}.*constants=\(s1, s2\)"):
        SampledDense(4, activation=activation)
    SampledDense(4, activation=activation, constants=(1.0, 0.0))
    # Nothing is placed between rows, so nothing needs to be known.
    SampledDense(4, activation=activation, sampler="random")


def test_misspelt_activation():
    with pytest.raises(ValueError, match="tanhh"):
        SampledDense(4, activation="tanhh")


def with_value(array, at, value):
    array = np.array(array, dtype="float64")
    array[at] = value
    return array


BAD_DATA = {
    "nan in x": (
        lambda x, y: (with_value(x, (5, 1), np.nan), y),
        r"`x` must hold finite numbers.*nan at row 5, position \(1,\)",
    ),
    "inf in x": (
        lambda x, y: (with_value(x, (59, 2), -np.inf), y),
        r"`x` must hold finite numbers.*-inf at row 59, position \(2,\)",
    ),
    "nan in y": (
        lambda x, y: (x, with_value(y, 7, np.nan)),
        r"`y` must hold finite numbers.*nan at row 7 ",
    ),
    "inf in wide y": (
        lambda x, y: (x, with_value(one_hot(y), (7, 2), np.inf)),
        r"`y` must hold finite numbers.*inf at row 7, position \(2,\)",
    ),
    "nan in weights": (
        lambda x, y: (x, y, with_value(np.ones(60), 9, np.nan)),
        r"`sample_weight` must hold finite numbers.*nan at row 9 ",
    ),
    "negative weight": (
        lambda x, y: (x, y, with_value(np.ones(60), 9, -2.0)),
        r"`sample_weight` must not be negative.*-2\.0 at row 9",
    ),
    "weights all zero": (
        lambda x, y: (x, y, np.zeros(60)),
        r"two or more rows \(of positive weight\)",
    ),
    "weights of two dimensions": (
        lambda x, y: (x, y, np.ones((60, 1))),
        r"one weight a row.*sample_weight\.shape=\(60, 1\)",
    ),
    "empty": (lambda x, y: (x[:0], y[:0]), "Expected (one|at least one).*empty"),
    "one row": (lambda x, y: (x[:1], y[:1]), "two or more rows.*Received: 1"),
    "equal rows": (
        lambda x, y: (np.ones_like(x), y),
        "two distinct rows.*60 row.*all equal",
    ),
    "lengths of x and y": (
        lambda x, y: (x, y[:50]),
        "same number of rows.*60 in x, 50 in y",
    ),
    "lengths of x and weights": (
        lambda x, y: (x, y, np.ones(59)),
        "same number of rows.*60 in x, 59 in sample_weight",
    ),
    "rank 1": (lambda x, y: (x[:, 0], y), r"x\.shape=\(60,\).*x\[:, None\]"),
    "no rank": (lambda x, y: (3.0, y), "`x` must have rows"),
    "columns": (
        lambda x, y: (x[:, :2], y),
        r"built for 3 columns.*x\.shape=\(60, 2\)",
    ),
    "no targets": (lambda x, y: (x,), r"needs targets.*adapt\(x, y\).*uniform"),
    "no data": (lambda x, y: (None, y), "x=None"),
    "two inputs": (lambda x, y: ([x, x], y), "one input array.*2 arrays"),
}


@pytest.mark.parametrize("case", BAD_DATA)
@pytest.mark.parametrize("stream", [False, True], ids=["arrays", "stream"])
def test_bad_data_is_refused_and_leaves_the_weights_alone(data, case, stream):
    change, message = BAD_DATA[case]
    layer = adapted(*data)
    before = state(layer)
    arguments = change(*data)
    if stream:
        batch = arguments
        arguments = (lambda: iter([batch]),)
    with pytest.raises(ValueError, match=message):
        layer.adapt(*arguments)
    assert_same(state(layer), before)
    layer.adapt(*data)
    assert_same(state(layer), before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x + 1j, "complex"),
        (lambda x: x.astype(object), "Python objects"),
        (lambda x: x.astype(str), "text"),
    ],
    ids=["complex", "objects", "text"],
)
def test_inputs_that_are_no_real_numbers(data, change, message):
    x, y = data
    layer = adapted(x, y)
    before = state(layer)
    with pytest.raises(TypeError, match=message):
        layer.adapt(change(x), y)
    assert_same(state(layer), before)


def test_groups_need_one_integer_a_column(data):
    x, y = data
    layer = SampledDense(4, groups=[0, 0], subset_sizes=[1], seed=0)
    layer.build((None, 3))
    before = layer.get_weights()
    with pytest.raises(ValueError, match=r"`groups`.*2 for 3 columns"):
        layer.adapt(x, y)
    assert_same(layer.get_weights(), before)
    assert layer.pairs is None


@pytest.mark.parametrize("case", ["groups", "equal rows", "one row"])
def test_refused_data_does_not_fix_the_number_of_columns(data, case):
    x, y = data
    layer = SampledDense(4, groups=[0, 0, 1] if case == "groups" else None, seed=0)
    wrong = {
        "groups": (x[:, :2], y),
        "equal rows": (np.ones((60, 2)), y),
        "one row": (x[:1, :2], y[:1]),
    }[case]
    with pytest.raises(ValueError, match=r"groups|distinct rows|two or more rows"):
        layer.adapt(*wrong)
    layer.adapt(x, y)
    assert layer.kernel.shape == (3, 4)


def test_a_unit_that_does_not_fit_the_dtype():
    x = np.array([[0.0], [1e-6]], dtype="float32")
    layer = SampledDense(1, dtype="float16", seed=0)
    layer.build((None, 1))
    before = layer.get_weights()
    with pytest.raises(ValueError, match="overflows float16"):
        layer.adapt(x, [0, 1])
    assert_same(layer.get_weights(), before)
