"""SampledDense as a layer: a Dense in every respect, with values worked out by hand."""

import keras
import numpy as np
import pytest
from adapting import adapted, assert_same, outputs, state

from keras_swim import SampledDense

BACKEND = keras.backend.backend()

needs_float64 = pytest.mark.skipif(
    BACKEND == "jax", reason="JAX holds float32 where float64 is asked for"
)


# A Dense layer in every respect.


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 3), (7, 4, 3), (7, 2, 4, 3)])
def test_weights_and_shapes_are_those_of_dense(use_bias, shape):
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    dense = keras.layers.Dense(5, activation="tanh", use_bias=use_bias)
    dense.build(shape)
    layer = adapted(x, np.arange(7), units=5, use_bias=use_bias)

    assert isinstance(layer, keras.layers.Dense)
    assert [w.shape for w in layer.get_weights()] == [
        w.shape for w in dense.get_weights()
    ]
    assert layer.count_params() == dense.count_params()
    assert len(layer.trainable_variables) == len(dense.trainable_variables)
    assert layer.compute_output_shape(shape) == dense.compute_output_shape(shape)
    assert outputs(layer, x).shape == (*shape[:-1], 5)
    assert (layer.bias is None) == (not use_bias)

    dense.set_weights(layer.get_weights())
    np.testing.assert_allclose(outputs(layer, x), outputs(dense, x), atol=1e-6)
    zeros = [np.zeros_like(w) for w in dense.get_weights()]
    layer.set_weights(zeros)
    assert not outputs(layer, x).any()


def test_before_adapt_the_weights_are_those_of_the_initializers():
    layer = SampledDense(4, kernel_initializer="ones", bias_initializer="zeros")
    layer.build((None, 2))
    np.testing.assert_array_equal(layer.get_weights()[0], np.ones((2, 4)))
    np.testing.assert_array_equal(layer.get_weights()[1], np.zeros(4))


def test_regularizers_add_losses(data):
    layer = adapted(*data, kernel_regularizer=keras.regularizers.L2(0.5))
    kernel = layer.get_weights()[0]
    assert len(layer.losses) == 1
    loss = float(keras.ops.convert_to_numpy(layer.losses[0]))
    np.testing.assert_allclose(loss, 0.5 * (kernel**2).sum(), rtol=1e-5)


def test_constraints_are_kept_for_training(data):
    layer = adapted(*data, kernel_constraint="non_neg", bias_constraint="non_neg")
    # Sampled weights stay as they are until an optimizer takes over.
    assert layer.get_weights()[0].min() < 0
    for variable in layer.trainable_variables:
        limited = keras.ops.convert_to_numpy(variable.constraint(variable))
        assert limited.min() == 0


def test_model_trains_from_the_sampled_weights(data):
    x, y = data
    layer = adapted(x, y, units=32)
    model = keras.Sequential(
        [keras.Input((3,)), layer, keras.layers.Dense(3, activation="softmax")]
    )
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    before = state(layer)
    loss = model.evaluate(x, y, batch_size=30, verbose=0)
    model.fit(x, y, epochs=1, batch_size=30, verbose=0)
    assert model.evaluate(x, y, batch_size=30, verbose=0) < loss
    assert np.abs(layer.get_weights()[0] - before[0]).max() > 0
    np.testing.assert_array_equal(layer.pairs, before[2])


def test_predict_sees_a_later_adapt(data):
    x, y = data
    layer = SampledDense(16, seed=0)
    model = keras.Sequential([keras.Input((3,)), layer])
    before = model.predict(x, verbose=0)
    layer.adapt(x, y)
    after = model.predict(x, verbose=0)
    assert np.abs(after - before).max() > 0.1
    np.testing.assert_allclose(after, outputs(layer, x), atol=1e-5)


@pytest.mark.parametrize(
    ("policy", "compute", "atol"),
    [("mixed_float16", "float16", 5e-3), ("mixed_bfloat16", "bfloat16", 3e-2)],
)
def test_mixed_policies(policy, compute, atol):
    x = np.array([[0.0, 1.0], [2.0, 3.0]], dtype="float32")
    layer = adapted(x, [0, 1], units=1, dtype=policy)
    assert layer.variable_dtype == "float32"
    assert keras.backend.standardize_dtype(layer(x).dtype) == compute
    values = outputs(layer, x)[layer.pairs[0], 0]
    np.testing.assert_allclose(values, [-0.5, 0.5], atol=atol)


@needs_float64
def test_float64_policy():
    x = np.array([[0.0, 1.0], [2.0, 3.0]]) / 3
    layer = adapted(x, [0, 1], units=1, dtype="float64")
    assert keras.backend.standardize_dtype(layer(x).dtype) == "float64"
    values = outputs(layer, x)[layer.pairs[0], 0]
    np.testing.assert_allclose(values, [-0.5, 0.5], atol=1e-14)


@pytest.mark.parametrize("dtype", ["mixed_float16", "float32"])
def test_rows_that_are_equal_in_the_layers_dtype_form_no_pair(dtype):
    close = 1e-5 if dtype == "mixed_float16" else 1e-9
    x = np.array([[1.0], [1.0 + close], [2.0]])
    layer = adapted(x, [0, 1, 0], units=8, dtype=dtype)
    assert {frozenset(pair) for pair in layer.pairs.tolist()} == {frozenset({1, 2})}


@pytest.mark.parametrize("policy", ["mixed_float16", "float32"])
def test_numbers_beyond_the_layers_dtype_are_named(data, policy):
    x, y = data
    huge = x.astype("float64") * (1e6 if policy == "mixed_float16" else 1e39)
    with pytest.raises(ValueError, match=policy.removeprefix("mixed_")):
        adapted(huge, y, dtype=policy)


def test_lora_after_adapt_keeps_the_output(data):
    x, y = data
    layer = adapted(x, y)
    before = outputs(layer, x)
    layer.enable_lora(2)
    np.testing.assert_allclose(outputs(layer, x), before, atol=1e-6)
    weights = state(layer)
    with pytest.raises(ValueError, match=r"LoRA.*`adapt\(\)` before `enable_lora"):
        layer.adapt(x, y)
    assert_same(state(layer), weights)


def test_lora_rank_given_at_construction(data):
    x, y = data
    layer = adapted(x, y, lora_rank=2)
    assert layer.lora_enabled
    np.testing.assert_allclose(outputs(layer, x), outputs(adapted(x, y), x), atol=1e-6)


def test_adapt_after_quantization_is_refused(data):
    x, y = data
    layer = adapted(x, y)
    before = outputs(layer, x)
    layer.quantize("int8", type_check=False)
    np.testing.assert_allclose(outputs(layer, x), before, atol=0.1)
    weights = state(layer)
    with pytest.raises(ValueError, match=r"quantized.*`adapt\(\)` before"):
        layer.adapt(x, y)
    assert_same(state(layer), weights)


# Values worked out by hand.


@pytest.mark.parametrize(
    ("activation", "low", "high"),
    [
        ("tanh", -0.5, 0.5),
        ("relu", 0.0, 1.0),
        ("sigmoid", 0.25, 0.75),
        ("sin", -0.5, 0.5),
        ("keras_swim>sin", -0.5, 0.5),
        ("softsign", -0.5, 0.5),
        ("leaky_relu", 0.0, 1.0),
        ("linear", 0.0, 1.0),
        (None, 0.0, 1.0),
    ],
)
def test_values_at_the_two_rows(activation, low, high):
    x = np.array([[3.0, -1.0], [4.0, 1.0]], dtype="float32")
    layer = adapted(x, [0, 1], units=4, activation=activation)
    for unit, (first, second) in enumerate(layer.pairs):
        assert {first, second} == {0, 1}
        values = outputs(layer, x)[[first, second], unit]
        np.testing.assert_allclose(values, [low, high], atol=1e-5)


def test_scale_makes_units_steeper_in_the_same_places():
    x = np.array([[3.0, -1.0], [4.0, 1.0]], dtype="float32")
    layer = adapted(x, [0, 1], units=1, scale=2)
    middle = x.mean(axis=0, keepdims=True)
    np.testing.assert_allclose(outputs(layer, middle), [[0.0]], atol=1e-6)
    # tanh(ln 3) = (9 - 1) / (9 + 1)
    values = outputs(layer, x)[layer.pairs[0], 0]
    np.testing.assert_allclose(values, [-0.8, 0.8], atol=1e-5)


@pytest.mark.parametrize(
    "activation, offset, at_middle",
    [
        ("tanh", "auto", 3**-0.5),
        ("tanh", -0.2, np.tanh(-0.2)),
        ("sin", "auto", np.sqrt(5) / 3),
        ("relu", "auto", 0.5),
        ("relu", 0.25, 0.75),
    ],
)
def test_offset_moves_units_off_their_centre(activation, offset, at_middle):
    x = np.array([[1.0, 2.0], [4.0, 6.0]])
    layer = SampledDense(1, activation=activation, offset=offset, scale=1.0, seed=0)
    layer.adapt(x, np.array([0, 1]))
    middle = x.mean(axis=0, keepdims=True).astype("float32")
    found = keras.ops.convert_to_numpy(layer(middle))
    np.testing.assert_allclose(found, [[at_middle]], atol=1e-5)
    again = SampledDense.from_config(layer.get_config())
    assert again.offset == offset


def test_both_directions_of_a_pair_are_units_off_the_centre():
    x = np.array([[0.0], [1.0]])
    layer = SampledDense(2, offset="auto", seed=0)
    layer.adapt(x, np.array([0, 1]))
    assert sorted(map(tuple, layer.pairs)) == [(0, 1), (1, 0)]
    centred = SampledDense(2, seed=0)
    centred.adapt(x, np.array([0, 1]))
    np.testing.assert_array_equal(centred.pairs[0], centred.pairs[1])


def test_rows_of_equal_norm_are_no_trouble_off_the_centre(recwarn):
    # An odd function of x cannot tell x from -x; x0 * x1 is even.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = x[:, 0] * x[:, 1]
    layer = SampledDense(200, offset="auto", seed=0)
    layer.adapt(x, y)
    assert not [one for one in recwarn if "same norm" in str(one.message)]
    features = keras.ops.convert_to_numpy(layer(x.astype("float32")))
    features = np.column_stack([features, np.ones(len(x))]).astype(float)
    readout = np.linalg.lstsq(features[:300], y[:300], rcond=1e-6)[0]
    error = features[300:] @ readout - y[300:]
    assert np.sqrt(np.mean(error**2)) < 0.05 * y.std()


@pytest.mark.parametrize("value", ["bend", None, np.nan, np.inf, True, [0.5]])
def test_bad_offsets(value):
    with pytest.raises(ValueError, match=r"`offset` must be.*Received: offset="):
        SampledDense(3, offset=value)


def test_rows_far_from_the_origin_and_close_together():
    x = np.array([[1000.0, 1000.0], [1000.0, 1000.0 + 2**-8]], dtype="float32")
    layer = adapted(x, [0, 1], units=1, activation="linear")
    values = outputs(layer, x)[layer.pairs[0], 0]
    # The pre-activation is a difference of numbers near 256 000.
    np.testing.assert_allclose(values, [0.0, 1.0], atol=0.04)


def test_without_bias_only_the_slope_is_sampled(data):
    x, y = data
    layer = adapted(x, y, use_bias=False, activation="linear", units=8)
    a, b = x[layer.pairs[:, 0]], x[layer.pairs[:, 1]]
    rise = np.diag(outputs(layer, b) - outputs(layer, a))
    np.testing.assert_allclose(rise, np.ones(8), rtol=1e-4)


def test_custom_constants_place_a_custom_activation():
    x = np.array([[0.0], [4.0]], dtype="float32")
    layer = adapted(
        x, [0, 1], units=1, activation=lambda z: 10 * z, constants=(0.5, 0.2)
    )
    values = outputs(layer, x)[layer.pairs[0], 0]
    np.testing.assert_allclose(values, [-2.0, 3.0], atol=1e-5)


def test_more_than_two_dimensions_count_every_position_as_a_row():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 2, 4, 3)).astype("float32")
    y = np.array([0, 1, 2, 0, 1, 2])
    layer = adapted(x, y, np.array([1.0, 1, 1, 1, 0, 1]), units=30)
    owner = layer.pairs // 8
    assert layer.pairs.max() >= 6
    assert 4 not in owner
    # All positions of a sample share its target.
    assert (y[owner[:, 0]] != y[owner[:, 1]]).all()
    values = outputs(layer, x).reshape(48, 30)
    for unit, (first, second) in enumerate(layer.pairs):
        np.testing.assert_allclose(
            values[[first, second], unit], [-0.5, 0.5], atol=1e-4
        )


@pytest.mark.parametrize("groups", [None, [0, 1, 1, 1]])
def test_subsets_of_columns(groups):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 4)).astype("float32")
    y = rng.integers(0, 2, size=40)
    layer = adapted(x, y, units=24, subset_sizes=[0, 1], groups=groups)
    used = [tuple(np.flatnonzero(column)) for column in layer.get_weights()[0].T]
    features = [(0,), (1,), (2,), (3,)] if groups is None else [(0,), (1, 2, 3)]
    # Both sizes occur, and a single feature is one column or one group.
    assert set(used) == {(0, 1, 2, 3), *features}
    values = outputs(layer, x)
    for unit, (first, second) in enumerate(layer.pairs):
        np.testing.assert_allclose(
            values[[first, second], unit], [-0.5, 0.5], atol=1e-3
        )
