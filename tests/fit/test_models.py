"""Shapes of models that `swim_fit` walks through."""

import keras
import numpy as np
import pytest

from keras_swim import SampledDense, swim_fit
from keras_swim.fit.segment import Segment

layers = keras.layers


@pytest.fixture
def regression(rng):
    x = rng.uniform(-1, 1, size=(800, 4)).astype("float32")
    y = (np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2]).astype("float32")
    return x, y


def r2(model, x, y):
    error = model.predict(x, verbose=0).reshape(y.shape) - y
    return 1 - np.mean(error**2) / np.var(y)


def test_unbuilt_sequential_is_built_from_the_data(regression):
    x, y = regression
    model = keras.Sequential([SampledDense(200), layers.Dense(1)])
    swim_fit(model, x, y, seed=0, verbose=0)
    assert model.input_shape == (None, 4)
    assert r2(model, x, y) > 0.99


def test_layers_in_between(regression):
    x, y = regression
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Normalization(),
            SampledDense(100),
            layers.Dropout(0.5),
            layers.BatchNormalization(),
            SampledDense(100),
            layers.LayerNormalization(),
            layers.Activation("tanh"),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    x = 10 * x + 100
    swim_fit(model, x, y, seed=0, verbose=0)
    assert r2(model, x, y) > 0.95
    normalization = model.layers[0]
    np.testing.assert_allclose(
        np.ravel(keras.ops.convert_to_numpy(normalization.mean)), x.mean(0), rtol=1e-4
    )
    hidden = keras.Model(model.inputs, model.layers[1].output).predict(x, verbose=0)
    batch_norm = model.layers[3]
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(batch_norm.moving_mean), hidden.mean(0), atol=1e-3
    )
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(batch_norm.moving_variance),
        hidden.var(0),
        rtol=1e-2,
        atol=1e-4,
    )


def test_adapted_normalization_is_kept(regression):
    x, y = regression
    normalization = layers.Normalization()
    normalization.adapt(5 * x + 1)
    model = keras.Sequential(
        [keras.Input((4,)), normalization, SampledDense(50), layers.Dense(1)]
    )
    before = keras.ops.convert_to_numpy(normalization.mean).copy()
    swim_fit(model, x, y, seed=0, verbose=0)
    np.testing.assert_array_equal(
        before, keras.ops.convert_to_numpy(normalization.mean)
    )


def test_predict_before_the_fit_does_not_freeze_statistics(regression):
    x, y = regression
    x = 100 * x
    model = keras.Sequential(
        [keras.Input((4,)), layers.Normalization(), SampledDense(100), layers.Dense(1)]
    )
    model.predict(x[:8], verbose=0)
    swim_fit(model, x, y, seed=0, verbose=0)
    np.testing.assert_allclose(
        model.predict(x[:8], verbose=0),
        keras.ops.convert_to_numpy(model(x[:8])),
        rtol=1e-4,
        atol=1e-4,
    )
    assert r2(model, x, y) > 0.95


def test_skip_connections_and_concatenation(regression):
    x, y = regression
    inputs = keras.Input((4,))
    first = SampledDense(80)(inputs)
    second = SampledDense(80)(first)
    added = layers.Add()([first, second])
    joined = layers.Concatenate()([inputs, added])
    model = keras.Model(inputs, layers.Dense(1)(joined))
    swim_fit(model, x, y, seed=0, verbose=0)
    assert r2(model, x, y) > 0.98
    assert model.get_layer(index=1).pairs is not None


def test_nested_models_are_opened(regression):
    x, y = regression
    body = keras.Sequential([keras.Input((4,)), SampledDense(100), layers.Dropout(0.1)])
    inputs = keras.Input((4,))
    inner = keras.Model(inputs, body(inputs))
    outer_in = keras.Input((4,))
    model = keras.Model(outer_in, layers.Dense(1)(inner(outer_in)))
    nodes = len(body.layers[0]._inbound_nodes)
    swim_fit(model, x, y, seed=0, verbose=0)
    assert body.layers[0].pairs.shape == (100, 2)
    assert r2(model, x, y) > 0.98
    # The user's layers keep no trace of having been walked through.
    assert len(body.layers[0]._inbound_nodes) == nodes


def test_readout_inside_a_nested_model(regression):
    x, y = regression
    head = keras.Sequential([keras.Input((4,)), SampledDense(100), layers.Dense(1)])
    inputs = keras.Input((4,))
    model = keras.Model(inputs, head(layers.Rescaling(2.0)(inputs)))
    swim_fit(model, x, y, seed=0, verbose=0)
    assert r2(model, x, y) > 0.98


def test_frozen_backbone_runs_once_per_row_and_does_not_change(rng, monkeypatch):
    calls, rows = [], []
    backbone = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.GlobalAveragePooling2D(),
        ]
    )
    backbone.trainable = False
    model = keras.Sequential(
        [backbone, SampledDense(60), layers.Dense(3, activation="softmax")]
    )
    images = rng.normal(size=(300, 8, 8, 3)).astype("float32")
    y = rng.integers(0, 3, size=300)
    images += y[:, None, None, None]

    class Watched(keras.utils.PyDataset):
        def __len__(self):
            return 10

        def __getitem__(self, index):
            calls.append(index)
            part = slice(30 * index, 30 * index + 30)
            return images[part], y[part]

    tensors = Segment.tensors

    def counted(segment, arrays):
        if backbone in segment._members:
            rows.append(len(arrays[0]))
        return tensors(segment, arrays)

    monkeypatch.setattr(Segment, "tensors", counted)
    before = backbone.get_weights()
    swim_fit(model, Watched(), seed=0, verbose=0)
    assert sorted(calls) == list(range(10))
    assert sum(rows) == 300
    for first, second in zip(before, backbone.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)
    assert (model.predict(images, verbose=0).argmax(1) == y).mean() > 0.9


def test_normalization_before_a_frozen_backbone(rng):
    backbone = keras.Sequential(
        [keras.Input((4,)), layers.Dense(16, activation="relu")], name="backbone"
    )
    backbone.trainable = False
    normalization = layers.Normalization()
    model = keras.Sequential(
        [
            keras.Input((4,)),
            normalization,
            backbone,
            SampledDense(60),
            layers.Dense(1),
        ]
    )
    x = 50 + 5 * rng.normal(size=(400, 4)).astype("float32")
    y = x[:, 0]
    swim_fit(model, x, y, seed=0, verbose=0)
    np.testing.assert_allclose(
        np.ravel(keras.ops.convert_to_numpy(normalization.mean)), x.mean(0), rtol=1e-4
    )
    assert r2(model, x, y) > 0.9


def test_several_inputs_and_outputs(rng):
    a, b = rng.normal(size=(2, 500, 3)).astype("float32")
    label = (a[:, 0] * b[:, 0] > 0).astype("int64")
    value = (a[:, 1] + b[:, 1])[:, None]
    first, second = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    joined = layers.Concatenate()([first, second])
    hidden = SampledDense(300)(joined)
    outputs = [
        layers.Dense(2, activation="softmax", name="kind")(hidden),
        layers.Dense(1, name="size")(layers.Concatenate()([hidden, joined])),
    ]
    model = keras.Model([first, second], outputs)
    history = swim_fit(model, [a, b], [label, value], seed=0, verbose=0)
    kind, size = model.predict([a, b], verbose=0)
    assert (kind.argmax(1) == label).mean() > 0.88
    assert np.mean((size - value) ** 2) < 1e-3
    assert {"kind_accuracy", "size_r2", "kind_l2", "size_l2"} <= set(history.history)
    again = keras.models.clone_model(model)
    by_name = swim_fit(
        again,
        {"b": b, "a": a},
        {"size": value, "kind": label},
        seed=0,
        verbose=0,
    )
    assert by_name.history["kind_loss"][0] == pytest.approx(
        history.history["kind_loss"][0], rel=1e-3
    )


def test_subclassed_model_with_keras_parts(regression):
    x, y = regression

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.body = keras.Sequential([SampledDense(100), layers.Dropout(0.2)])
            self.readout = layers.Dense(1)

        def call(self, inputs, training=False):
            hidden = self.body(inputs)
            return self.readout(keras.ops.concatenate([inputs, hidden], axis=-1))

    model = Net()
    swim_fit(model, x, y, seed=0, verbose=0)
    assert r2(model, x, y) > 0.98


def test_activation_layer_behind_the_readout(digits):
    x, y, x_test, y_test = digits
    model = keras.Sequential(
        [SampledDense(300), layers.Dense(10), layers.Activation("softmax")]
    )
    swim_fit(model, x, y, seed=0, verbose=0)
    found = model.predict(x_test, verbose=0)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)
    assert (found.argmax(1) == y_test).mean() > 0.95


def test_plain_linear_model_is_solved(rng):
    x = rng.normal(size=(100, 3)).astype("float32")
    y = x @ [1.0, -2.0, 0.5] + 3
    model = keras.Sequential([keras.Input((3,)), layers.Dense(1)])
    swim_fit(model, x, y, l2=0.0, verbose=0)
    kernel, bias = model.get_weights()
    np.testing.assert_allclose(kernel[:, 0], [1, -2, 0.5], atol=1e-5)
    np.testing.assert_allclose(bias, 3, atol=1e-5)


def test_sequences_of_positions(rng):
    x = rng.normal(size=(100, 7, 3)).astype("float32")
    y = np.sin(2 * x[..., :1])
    model = keras.Sequential([SampledDense(100), layers.Dense(1)])
    history = swim_fit(model, x, y, seed=0, verbose=0)
    assert history.history["r2"][0] > 0.97
    error = model.predict(x, verbose=0) - y
    assert np.mean(error**2) < 0.01
    # Targets of the two positions behind each unit differ.
    first, second = y.reshape(-1)[model.layers[0].pairs.T]
    assert (first != second).all()


@pytest.mark.parametrize(
    "kind", ["tf.data", "PyDataset", "DataLoader", "generator", "factory"]
)
def test_data_sets_give_what_arrays_give(digits, kind):
    x, y, *_ = digits

    def batches():
        for start in range(0, len(x), 100):
            yield x[start : start + 100], y[start : start + 100]

    class Data(keras.utils.PyDataset):
        def __len__(self):
            return 12

        def __getitem__(self, index):
            part = slice(100 * index, 100 * index + 100)
            return x[part], y[part]

    if kind == "tf.data":
        tf = pytest.importorskip("tensorflow")
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(100)
    elif kind == "DataLoader":
        torch = pytest.importorskip("torch")
        data = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y)), 100
        )
    else:
        data = {"PyDataset": Data(), "generator": batches(), "factory": batches}[kind]

    def model():
        return keras.Sequential(
            [
                keras.Input((64,)),
                SampledDense(100, seed=0),
                layers.Dense(10, activation="softmax"),
            ]
        )

    streamed, dense = model(), model()
    swim_fit(streamed, data, seed=0, verbose=0)
    swim_fit(dense, x, y, seed=0, verbose=0)
    np.testing.assert_array_equal(streamed.layers[0].pairs, dense.layers[0].pairs)
    for first, second in zip(streamed.get_weights(), dense.get_weights(), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4)


def test_shuffled_data_set_keeps_labels_with_features(digits):
    tf = pytest.importorskip("tensorflow")
    x, y, x_test, y_test = digits
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1200).batch(64)
    model = keras.Sequential(
        [keras.Input((64,)), SampledDense(300), layers.Dense(10, activation="softmax")]
    )
    swim_fit(model, data, seed=0, verbose=0)
    assert (model.predict(x_test, verbose=0).argmax(1) == y_test).mean() > 0.95


def test_frozen_sampled_layer_is_kept(regression):
    x, y = regression
    layer = SampledDense(100, seed=0)
    layer.adapt(x, y)
    layer.trainable = False
    before = layer.get_weights()
    model = keras.Sequential([layer, layers.Dense(1)])
    swim_fit(model, x, y, seed=1, verbose=0)
    for first, second in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_one_column_without_its_axis(rng):
    x = rng.uniform(-2, 2, size=300).astype("float32")
    model = keras.Sequential([keras.Input((1,)), SampledDense(50), layers.Dense(1)])
    swim_fit(model, x, np.sin(x), seed=0, verbose=0)
    assert r2(model, x[:, None], np.sin(x)) > 0.99


@pytest.mark.parametrize("layer", ["sampled", "statistics"])
def test_shared_layer_is_fitted_wherever_it_is_used(regression, layer):
    x, y = regression
    inputs = keras.Input((4,))
    shared = SampledDense(60) if layer == "sampled" else layers.BatchNormalization()
    parts = [shared(inputs[:, 2:]), shared(inputs[:, :2])]
    joined = layers.Concatenate()(parts)
    if layer == "statistics":
        joined = SampledDense(100)(joined)
    model = keras.Model(inputs, layers.Dense(1)(joined))
    history = swim_fit(model, x, y, seed=0, verbose=0)
    # The logs tell what the model does.
    assert r2(model, x, y) == pytest.approx(history.history["r2"][0], abs=1e-3)


def test_rows_without_weight_do_not_count(regression):
    x, y = regression
    weight = np.ones(800)
    weight[::3] = 0
    spoiled = np.where(weight > 0, y, 1e3)
    model = keras.Sequential([SampledDense(200), layers.Dense(1)])
    swim_fit(model, x, spoiled, sample_weight=weight, seed=0, verbose=0)
    assert r2(model, x, y) > 0.98
    assert (weight[model.layers[0].pairs] > 0).all()


def test_class_without_weight(digits):
    x, y, *_ = digits
    model = keras.Sequential([SampledDense(100), layers.Dense(10, "softmax")])
    swim_fit(model, x, y, class_weight={3: 0.0}, seed=0, verbose=0)
    found = model.predict(x, verbose=0).argmax(1)
    assert (found[y != 3] == y[y != 3]).mean() > 0.9
    assert not (found == 3).any()


def test_loss_of_an_output_is_found_by_its_name(rng):
    x = rng.normal(size=(300, 3)).astype("float32")
    inputs = keras.Input((3,))
    hidden = SampledDense(50)(inputs)
    outputs = [layers.Dense(1, name="a")(hidden), layers.Dense(2, name="b")(hidden)]
    model = keras.Model(inputs, outputs)
    logits = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss={"b": logits, "a": "mse"})
    label = (x[:, 0] > 0).astype("int64")
    history = swim_fit(model, x, [x[:, :1], label], seed=0, verbose=0)
    assert "b_cv_accuracy" in history.history and "a_cv_r2" in history.history


def test_sequences_of_unknown_length(rng):
    x = rng.normal(size=(100, 5, 3)).astype("float32")
    y = np.sin(x[..., 0])
    model = keras.Sequential(
        [keras.Input((None, 3)), SampledDense(100), layers.Dense(1)]
    )
    history = swim_fit(model, x, y, seed=0, verbose=0)
    assert history.history["r2"][0] > 0.95


def test_frame_with_booleans_and_nullable_numbers(rng):
    pandas = pytest.importorskip("pandas")
    x = rng.normal(size=(200, 2))
    frame = pandas.DataFrame(x, columns=["a", "b"])
    frame["flag"] = frame["a"] > 0
    frame["count"] = pandas.array([1, 2] * 100, dtype="Int64")
    model = keras.Sequential([SampledDense(100), layers.Dense(1)])
    swim_fit(model, frame, frame["b"] ** 2, seed=0, verbose=0)
    assert r2(model, frame.to_numpy(dtype="float32"), x[:, 1] ** 2) > 0.9


def test_rows_of_equal_norm_are_warned_of(rng):
    x = rng.normal(size=(200, 3)).astype("float32")
    model = keras.Sequential(
        [layers.UnitNormalization(), SampledDense(50), layers.Dense(1)]
    )
    with pytest.warns(UserWarning, match="same norm"):
        swim_fit(model, x, x[:, 0] * x[:, 1], seed=0, verbose=0)
