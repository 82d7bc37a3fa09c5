"""SwimHead: one model from raw images to probabilities."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_swim import SampledDense, SwimHead, swim_fit, swim_select, swim_update
from keras_swim.layers.labeled_dense import class_names
from keras_swim.layers.preprocessing import BicubicResizing

BACKEND = keras.backend.backend()


def small_backbone(seed=0):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((24, 24, 3)),
            keras.layers.Conv2D(16, 5, strides=2, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        ],
        name="small",
    )


@pytest.fixture(scope="module")
def images():
    """Three kinds of striped images of odd size, uint8."""
    rng = np.random.default_rng(0)
    labels = np.arange(150) % 3
    rows, columns = np.mgrid[:30, :26]
    stripes = np.stack([np.sin(rows), np.sin(columns), np.sin((rows + columns) / 2)])
    x = 120 + 60 * stripes[labels][..., None] + 30 * rng.normal(size=(150, 30, 26, 3))
    return np.clip(x, 0, 255).astype("uint8"), labels


def head(**options):
    options = {"units": 60, "preprocessing": "tf", "seed": 0, **options}
    return SwimHead(small_backbone(), 3, **options)


def accuracy(model, images):
    x, y = images
    return np.mean(model.predict(x, verbose=0).argmax(axis=1) == y)


@pytest.fixture(scope="module")
def fitted(images):
    model = head(class_names=["rows", "columns", "diagonal"])
    swim_fit(model, images[0][:100], images[1][:100], seed=0, verbose=0)
    return model


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_units_of_a_head_lie_where_they_bend(images, activation):
    offsets = {}
    for offset in (0.0, "auto"):
        options = {} if offset == "auto" else {"offset": offset}
        model = head(units=4, activation=activation, **options)
        swim_fit(model, images[0][:40], images[1][:40], seed=0, verbose=0)
        sampled = model.get_layer("sampled_1")
        before = keras.Model(model.inputs, sampled.input)
        rows = before.predict(images[0][:40], verbose=0)
        middles = 0.5 * (rows[sampled.pairs[:, 0]] + rows[sampled.pairs[:, 1]])
        kernel, bias = sampled.get_weights()
        offsets[offset] = np.einsum("kd,dk->k", middles, kernel) + bias
    bend = np.arctanh(3**-0.5) if activation == "tanh" else 0.5
    centre = 0.0 if activation == "tanh" else 0.5
    np.testing.assert_allclose(offsets["auto"], bend, atol=1e-3)
    np.testing.assert_allclose(offsets[0.0], centre, atol=1e-3)


def test_raw_images_in_probabilities_out(fitted, images):
    x, y = images
    chances = fitted.predict(x[100:], verbose=0)
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-5)
    assert np.mean(chances.argmax(axis=1) == y[100:]) > 0.9
    np.testing.assert_allclose(
        fitted.predict(x[100:].astype("float32"), verbose=0), chances, atol=1e-6
    )


def test_any_size(fitted, images):
    x = images[0][:4]
    larger = np.repeat(np.repeat(x, 3, axis=1), 3, axis=2)
    assert fitted.predict(larger, verbose=0).shape == (4, 3)
    # The backbone's own size, given by hand, changes nothing.
    resized = BicubicResizing(24, 24)(x.astype("float32"))
    np.testing.assert_allclose(
        fitted.predict(keras.ops.convert_to_numpy(resized), verbose=0),
        fitted.predict(x, verbose=0),
        atol=1e-4,
    )


def test_the_backbone_stays(images):
    backbone = small_backbone()
    before = backbone.get_weights()
    model = SwimHead(backbone, 3, units=40)
    assert not backbone.trainable
    swim_fit(model, *images, verbose=0)
    for mine, theirs in zip(backbone.get_weights(), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_kernel_entries_are_not_tiny(fitted):
    kernel = keras.ops.convert_to_numpy(fitted.get_layer("sampled_1").kernel)
    usual = np.sqrt(2 / sum(kernel.shape))
    assert 2 < kernel.std() / usual < 200


def test_saved_file_is_self_contained(fitted, images, tmp_path):
    fitted.save(tmp_path / "head.keras")
    np.save(tmp_path / "images.npy", images[0][:8])
    script = (
        "import keras, keras_swim, json, sys, numpy as np\n"
        "model = keras.models.load_model(sys.argv[1])\n"
        "x = np.load(sys.argv[2])\n"
        "from keras_swim.layers.labeled_dense import class_names\n"
        "found = model.predict(x, verbose=0).tolist()\n"
        "print(json.dumps([found, class_names(model)]))\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            script,
            tmp_path / "head.keras",
            tmp_path / "images.npy",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    chances, names = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(
        chances, fitted.predict(images[0][:8], verbose=0), atol=1e-5
    )
    assert names == ["rows", "columns", "diagonal"]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="exports are TensorFlow's")
@pytest.mark.parametrize("mode", [None, "caffe", "tf", "torch"])
def test_exported_models_agree(images, tmp_path, mode):
    import onnxruntime
    import tensorflow as tf

    x, y = images
    model = head(preprocessing=mode, transform="sqrt", skip=True)
    swim_fit(model, x, y, verbose=0)
    expected = model.predict(x[:8], verbose=0)
    model.export(tmp_path / "saved", verbose=False)
    saved = tf.saved_model.load(tmp_path / "saved")
    raw = x[:8].astype("float32")
    np.testing.assert_allclose(saved.serve(raw).numpy(), expected, atol=1e-4)
    model.export(tmp_path / "head.onnx", format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "head.onnx")
    name = session.get_inputs()[0].name
    np.testing.assert_allclose(session.run(None, {name: raw})[0], expected, atol=1e-4)


def test_folders_of_images(images, tmp_path):
    x, y = images
    for number in range(60):
        folder = tmp_path / "abc"[y[number]]
        folder.mkdir(exist_ok=True)
        keras.utils.save_img(folder / f"{number}.png", x[number])
    data = keras.utils.image_dataset_from_directory(
        tmp_path, image_size=(30, 26), batch_size=16, shuffle=False, verbose=0
    )
    model = head(class_names=data.class_names)
    swim_fit(model, data, verbose=0)
    assert class_names(model) == ["a", "b", "c"]
    assert accuracy(model, (x[100:], y[100:])) > 0.85


@pytest.mark.parametrize(
    "options",
    [
        {"hidden_layers": 0},
        {"hidden_layers": 2},
        {"pooling": "max"},
        {"pooling": "flatten"},
        {"transform": "sqrt", "skip": True},
        {"activation": "relu"},
        {"preprocessing": keras.applications.mobilenet.preprocess_input},
    ],
)
def test_other_heads(images, options, tmp_path):
    model = head(**options)
    swim_fit(model, *images, verbose=0)
    assert accuracy(model, images) > 0.85
    model.save(tmp_path / "head.keras")
    again = keras.models.load_model(tmp_path / "head.keras")
    np.testing.assert_allclose(
        again.predict(images[0], verbose=0),
        model.predict(images[0], verbose=0),
        atol=1e-5,
    )


@pytest.mark.parametrize(
    "pooling, columns", [("avg", 16), ("max", 16), ("flatten", 144)]
)
def test_tokens_of_a_transformer(images, pooling, columns):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((24, 24, 3))
    tokens = keras.layers.Conv2D(16, 8, strides=8, activation="relu")(inputs)
    tokens = keras.layers.Reshape((9, 16))(tokens)
    model = SwimHead(
        keras.Model(inputs, tokens), 3, units=60, preprocessing="tf", pooling=pooling
    )
    swim_fit(model, *images, seed=0, verbose=0)
    assert model.get_layer("scaling").input.shape == (None, columns)
    assert accuracy(model, images) > 0.85


def test_a_backbone_of_keras_hub(images, tmp_path):
    hub = pytest.importorskip("keras_hub", reason="needs keras-hub")
    backbone = hub.models.ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[7],
        stackwise_num_filters=[64],
        stackwise_num_blocks=[1],
        stackwise_num_strides=[1],
        block_type="basic_block",
        image_shape=(None, None, 3),
    )
    converter = hub.layers.ResNetImageConverter(image_size=(32, 32), scale=1 / 255)
    model = SwimHead(backbone, 3, units=60, image_size=32, preprocessing=converter)
    swim_fit(model, *images, seed=0, verbose=0)
    model.save(tmp_path / "head.keras")
    again = keras.models.load_model(tmp_path / "head.keras")
    np.testing.assert_allclose(
        again.predict(images[0], verbose=0),
        model.predict(images[0], verbose=0),
        atol=1e-5,
    )


def test_yes_or_no_labels_and_real_outputs(images):
    x, y = images
    labels = np.stack([y == 0, y > 0], axis=1).astype("float32")
    model = SwimHead(
        small_backbone(), 2, units=60, classifier_activation="sigmoid", seed=0
    )
    swim_fit(model, x, labels, verbose=0)
    assert np.mean((model.predict(x, verbose=0) > 0.5) == labels) > 0.9
    model = SwimHead(small_backbone(), 1, 60, classifier_activation=None, seed=0)
    history = swim_fit(model, x, (y == 2).astype("float32"), verbose=0)
    assert history.history["r2"][0] > 0.5


@pytest.mark.parametrize("each", [2, 1])
def test_few_images_of_a_class(images, each):
    x, y = images
    few = np.concatenate([np.flatnonzero(y == c)[:each] for c in range(3)])
    model = head(units=500)
    swim_fit(model, x[few], y[few], verbose=0)
    assert accuracy(model, (x[100:], y[100:])) > 0.5


def test_unbalanced_weighted_and_contradictory_images(images):
    x, y = images
    rare = np.r_[np.flatnonzero(y != 2)[:80], np.flatnonzero(y == 2)[:4]]
    model = head()
    swim_fit(model, x[rare], y[rare], class_weight="balanced", verbose=0)
    assert accuracy(model, (x[100:], y[100:])) > 0.7
    twice = np.r_[x[:30], x[:30]], np.r_[y[:30], (y[:30] + 1) % 3]
    model = head()
    swim_fit(model, *twice, sample_weight=np.repeat([3.0, 1.0], 30), verbose=0)
    chances = model.predict(x[:30], verbose=0)
    assert np.isfinite(chances).all()
    assert np.mean(chances.argmax(axis=1) == y[:30]) > 0.8


def test_a_head_is_selected_and_goes_on(images):
    x, y = images
    model = head(units=128)
    found = swim_select(model, x[:100], y[:100], seed=0, verbose=0)
    assert accuracy(found.model, (x[100:], y[100:])) > 0.85
    assert found.model.get_layer("small") is model.get_layer("small")
    again, _ = swim_update(found.model, found.state, x[100:], y[100:], verbose=0)
    assert accuracy(again, images) > 0.9


def test_new_classes_have_new_names(images):
    x, y = images
    model = SwimHead(small_backbone(), 2, 60, class_names=["a", "b"], seed=0)
    old = y < 2
    state = swim_fit(model, x[old], y[old], keep_state=True, verbose=0).state
    new, _ = swim_update(model, state, x[~old], y[~old], new_classes=["c"], verbose=0)
    assert class_names(new) == ["a", "b", "c"]
    assert accuracy(new, images) > 0.8
    plain, _ = swim_update(model, state, x[~old], y[~old], new_classes=1, verbose=0)
    assert class_names(plain) == ["a", "b", "class_2"]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"pooling": "mean"}, "avg"),
        ({"transform": "log"}, "sqrt"),
        ({"hidden_layers": -1}, "0 or more"),
        ({"class_names": ["a"]}, "3 names"),
        ({"class_names": "abc"}, "list of 3 names"),
        ({"class_names": ["a", "a", "b"]}, "different names"),
        ({"preprocessing": 3}, "a layer or"),
        ({"dropout": 1}, "`dropout` must be a number"),
        ({"dropout": -0.1}, "`dropout` must be a number"),
        ({"dropout": "much"}, "`dropout` must be a number"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        head(**options)


@pytest.mark.parametrize("options", [{}, {"transform": "sqrt"}])
def test_dropout_is_for_training_only(images, options):
    x, y = images
    models = [head(dropout=rate, **options) for rate in (0.0, 0.3)]
    for model in models:
        swim_fit(model, x, y, seed=0, verbose=0)
    found = [model.predict(x, verbose=0) for model in models]
    np.testing.assert_allclose(*found, atol=1e-5)
    plain, dropping = (
        keras.ops.convert_to_numpy(model(x[:20].astype("float32"), training=True))
        for model in models
    )
    np.testing.assert_allclose(plain, found[0][:20], atol=1e-4)
    assert np.abs(dropping - plain).max() > 0.01
    # Plain ridge regression has no sampled layer to protect.
    names = [layer.name for layer in head(hidden_layers=0).layers]
    assert "dropout" not in names


def test_sampled_layers_are_ordinary_ones(fitted):
    assert isinstance(fitted.get_layer("sampled_1"), SampledDense)
    assert isinstance(fitted, keras.Model)
    assert fitted.get_layer("sampled_1").pairs.max() < 100
