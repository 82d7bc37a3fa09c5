"""SampledDense as a layer: its values, its targets, and what it refuses."""

import keras
import numpy as np
import pytest

from keras_swim import SampledDense

BACKEND = keras.backend.backend()

needs_float64 = pytest.mark.skipif(
    BACKEND == "jax", reason="JAX holds float32 where float64 is asked for"
)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype("float32")
    return x, rng.integers(0, 3, size=60)


def adapted(x, y=None, sample_weight=None, *, depth=0, units=16, seed=0, **kwargs):
    layer = SampledDense(units, seed=seed, **kwargs)
    layer.adapt(x, y, sample_weight, depth=depth)
    return layer


def outputs(layer, x):
    # Half types come out of ml_dtypes, which assert_allclose does not know.
    return keras.ops.convert_to_numpy(layer(x)).astype("float64")


def state(layer):
    return [*layer.get_weights(), layer.pairs]


def assert_same(left, right):
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


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


def one_hot(labels, classes=3):
    return np.eye(classes, dtype="float32")[labels]


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
