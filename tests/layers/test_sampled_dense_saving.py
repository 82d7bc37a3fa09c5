"""What survives: configs, files, other processes, other backends, exports."""

import ast
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_swim
from keras_swim import SampledDense

BACKEND = keras.backend.backend()

tensorflow_only = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="exported from the TensorFlow backend"
)


@keras.saving.register_keras_serializable(package="saving_tests")
def ramp(z):
    return keras.ops.clip(z, 0.0, 1.0)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype("float32")
    return x, rng.integers(0, 3, size=60)


def adapted_model(x, y, **kwargs):
    """Input -> SampledDense -> Dense, the first one adapted."""
    layer = SampledDense(8, **{"seed": 0, **kwargs})
    model = keras.Sequential([keras.Input((3,)), layer, keras.layers.Dense(2)])
    layer.adapt(x, y)
    return model


def outputs(model, x):
    # A plain call: `predict` would compile every one of these models.
    return keras.ops.convert_to_numpy(model(x)).astype("float64")


# Configs.

EVERY_ARGUMENT = dict(
    units=5,
    activation="relu",
    use_bias=False,
    scale=0.5,
    offset="auto",
    sampler="uniform",
    candidates=3.0,
    x_norm=1,
    y_norm=2,
    replace=True,
    subset_sizes=[0, 1],
    groups=[0, 0, 1],
    constants=(2.0, 1.0),
    seed=7,
)

DENSE_ARGUMENTS = dict(
    name="sampled",
    trainable=False,
    dtype="mixed_bfloat16",
    kernel_initializer="ones",
    bias_initializer="ones",
    kernel_regularizer="l2",
    bias_regularizer="l1",
    activity_regularizer="l2",
    kernel_constraint="non_neg",
    bias_constraint="non_neg",
)


def signature():
    parameters = inspect.signature(SampledDense).parameters
    return {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }


def test_config_keeps_every_argument():
    # A new argument must be added to this test, with another value.
    assert set(EVERY_ARGUMENT) == set(signature())
    for name, default in signature().items():
        assert EVERY_ARGUMENT[name] != default
    layer = SampledDense(**EVERY_ARGUMENT, **DENSE_ARGUMENTS)
    config = layer.get_config()
    for name, value in EVERY_ARGUMENT.items():
        expected = list(value) if name == "constants" else value
        assert config[name] == expected, name
    plain = SampledDense(5).get_config()
    for name in DENSE_ARGUMENTS:
        assert config[name] != plain.get(name), name
    assert SampledDense.from_config(config).get_config() == config


def test_config_survives_json():
    layer = SampledDense(**EVERY_ARGUMENT, **DENSE_ARGUMENTS)
    text = json.dumps(keras.saving.serialize_keras_object(layer))
    again = keras.saving.deserialize_keras_object(json.loads(text))
    assert type(again) is SampledDense
    assert again.get_config() == layer.get_config()


def test_numpy_arguments_survive_json():
    layer = SampledDense(
        np.int64(5),
        scale=np.float32(0.5),
        candidates=np.int64(3),
        x_norm=np.int64(1),
        y_norm=np.inf,
        replace=np.bool_(True),
        subset_sizes=np.array([0, 1]),
        groups=np.array([0, 0, 1]),
        constants=np.array([2.0, 1.0]),
        seed=np.int64(7),
    )
    text = json.dumps(keras.saving.serialize_keras_object(layer))
    again = keras.saving.deserialize_keras_object(json.loads(text))
    assert again.get_config() == layer.get_config()
    assert again.groups == [0, 0, 1]
    assert again.constants == (2.0, 1.0)
    assert (again.x_norm, again.y_norm) == (1, "inf")


def test_a_layer_from_a_config_draws_the_same_pairs(data):
    layer = SampledDense(8, subset_sizes=[0, 1], x_norm="inf", seed=3)
    again = SampledDense.from_config(layer.get_config())
    layer.adapt(*data)
    again.adapt(*data)
    np.testing.assert_array_equal(again.pairs, layer.pairs)
    np.testing.assert_array_equal(again.get_weights()[0], layer.get_weights()[0])


def documented_defaults():
    """Name -> documented default, from the Args of the class docstring."""
    text = inspect.cleandoc(SampledDense.__doc__)
    arguments = text.split("\nArgs:\n")[1].split("\n\n")[0]
    entries = re.split(r"^    (?=\S)", arguments, flags=re.MULTILINE)
    defaults = {}
    for entry in filter(None, entries):
        name, description = entry.split(":", 1)
        found = re.findall(r"Defaults to\s+`([^`]+)`", description)
        if found:
            defaults[name] = ast.literal_eval(found[-1])
    return defaults


def test_documented_defaults_are_those_of_the_signature():
    actual = {
        name: default
        for name, default in signature().items()
        if default is not inspect.Parameter.empty
    }
    assert documented_defaults() == actual


# Files.


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "bfloat16"])
def test_keras_file(data, tmp_path, dtype):
    x, y = data
    model = adapted_model(x, y, dtype=dtype)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert type(again.layers[0]) is SampledDense
    np.testing.assert_array_equal(again.layers[0].pairs, model.layers[0].pairs)
    np.testing.assert_array_equal(outputs(again, x), outputs(model, x))
    assert again.layers[0].get_config() == model.layers[0].get_config()


@pytest.mark.parametrize("use_bias", [True, False])
def test_weights_file(data, tmp_path, use_bias):
    x, y = data
    model = adapted_model(x, y, use_bias=use_bias)
    model.save_weights(tmp_path / "model.weights.h5")
    other = adapted_model(x, y, use_bias=use_bias, seed=1)
    assert (other.layers[0].pairs != model.layers[0].pairs).any()
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(other.layers[0].pairs, model.layers[0].pairs)
    np.testing.assert_array_equal(outputs(other, x), outputs(model, x))


def test_sharded_weights_file(data, tmp_path):
    x, y = data
    model = adapted_model(x, y)
    model.save_weights(tmp_path / "model.weights.json", max_shard_size=1)
    other = adapted_model(x, y, seed=1)
    other.load_weights(tmp_path / "model.weights.json")
    np.testing.assert_array_equal(other.layers[0].pairs, model.layers[0].pairs)


@pytest.mark.parametrize("sampler", ["gradient", "random"])
def test_weights_without_pairs_bring_none(data, tmp_path, sampler):
    x, y = data
    layer = SampledDense(8, sampler=sampler, seed=0)
    model = keras.Sequential([keras.Input((3,)), layer, keras.layers.Dense(2)])
    if sampler == "random":
        layer.adapt(x)
    model.save_weights(tmp_path / "model.weights.h5")
    other = adapted_model(x, y)
    other.load_weights(tmp_path / "model.weights.h5")
    # The loaded kernel does not come from the pairs drawn before.
    assert other.layers[0].pairs is None
    np.testing.assert_array_equal(outputs(other, x), outputs(model, x))


@pytest.mark.parametrize(
    ("activation", "constants"),
    [("sin", None), (ramp, (1.0, 0.0)), ("leaky_relu", None), (None, None)],
    ids=["sin", "custom", "leaky_relu", "linear"],
)
def test_activations_save_and_load(data, tmp_path, activation, constants):
    x, y = data
    model = adapted_model(x, y, activation=activation, constants=constants)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(outputs(again, x), outputs(model, x))
    assert again.layers[0].constants == constants
    # The loaded layer can be adapted again: its constants are known.
    again.layers[0].adapt(x, y)
    np.testing.assert_array_equal(outputs(again, x), outputs(model, x))


def test_a_layer_as_activation_saves_and_loads(data, tmp_path):
    x, y = data
    activation = keras.layers.LeakyReLU(negative_slope=0.1)
    model = adapted_model(x, y, activation=activation, constants=(1.0, 0.0))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(outputs(again, x), outputs(model, x))


def test_pairs_survive_lora_and_quantization(data, tmp_path):
    x, y = data
    for name in ("lora", "int8"):
        model = adapted_model(x, y)
        layer = model.layers[0]
        if name == "lora":
            layer.enable_lora(2)
            layer.lora_kernel_b.assign(np.ones((2, 8)))
        else:
            layer.quantize("int8", type_check=False)
        model.save(tmp_path / f"{name}.keras")
        again = keras.models.load_model(tmp_path / f"{name}.keras")
        np.testing.assert_array_equal(again.layers[0].pairs, layer.pairs)
        np.testing.assert_allclose(outputs(again, x), outputs(model, x), atol=1e-5)


def test_weights_move_to_dense_and_back(data):
    x, y = data
    model = adapted_model(x, y)
    dense = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(2)]
    )
    dense.set_weights(model.get_weights())
    np.testing.assert_allclose(outputs(dense, x), outputs(model, x), atol=1e-6)
    copy = keras.models.clone_model(model)
    copy.set_weights(dense.get_weights())
    np.testing.assert_array_equal(outputs(copy, x), outputs(model, x))


# Other processes and other backends.

CHILD = """
import json, sys

import keras
import numpy as np

from keras_swim import SampledDense


@keras.saving.register_keras_serializable(package="saving_tests")
def ramp(z):
    return keras.ops.clip(z, 0.0, 1.0)


folder = sys.argv[1]
data = np.load(folder + "/data.npz")
x, y = data["x"], data["y"]


def outputs(model):
    return keras.ops.convert_to_numpy(model(x)).tolist()


def pairs(model):
    return [layer.pairs.tolist() for layer in model.layers]


loaded = keras.models.load_model(folder + "/model.keras")
fresh = keras.models.model_from_json(open(folder + "/model.json").read())
fresh.load_weights(folder + "/model.weights.h5")
first = SampledDense(16, seed=5)
first.adapt(x, y)
second = SampledDense(16, seed=5)
second.adapt(first(x), y, depth=1)
print(json.dumps({
    "backend": keras.backend.backend(),
    "first": first.pairs.tolist(),
    "second": second.pairs.tolist(),
    "saved": [pairs(loaded), pairs(fresh)],
    "outputs": [outputs(loaded), outputs(fresh)],
}))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a model and its data, and what the model predicts."""
    folder = tmp_path_factory.mktemp("saved")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).astype("float32")
    y = rng.integers(0, 3, size=200)
    layers = [
        SampledDense(8, seed=0),
        SampledDense(8, activation="sin", scale=2.0, seed=0),
        SampledDense(8, activation=ramp, constants=(1.0, 0.0), seed=0),
    ]
    model = keras.Sequential([keras.Input((3,)), *layers])
    features = x
    for depth, layer in enumerate(layers):
        layer.adapt(features, y, depth=depth)
        features = layer(features)
    model.save(folder / "model.keras")
    model.save_weights(folder / "model.weights.h5")
    (folder / "model.json").write_text(model.to_json())
    np.savez(folder / "data.npz", x=x, y=y)
    return folder, model, x, y


@pytest.fixture(scope="module")
def children(saved):
    """What a new process of each installed backend makes of the folder."""
    folder = saved[0]
    root = str(Path(keras_swim.__file__).parents[1])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]

    def run(backend):
        return subprocess.run(
            [sys.executable, "-c", CHILD, str(folder)],
            env={
                **os.environ,
                "KERAS_BACKEND": backend,
                "PYTHONPATH": os.pathsep.join(paths),
            },
            capture_output=True,
            text=True,
            timeout=300,
        )

    backends = filter(importlib.util.find_spec, ["tensorflow", "jax", "torch"])
    # Most of their time goes into imports: two at once, no more.
    with ThreadPoolExecutor(2) as pool:
        return {name: pool.submit(run, name) for name in backends}


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_a_new_process_of_any_backend_gives_the_same(saved, children, backend):
    if backend not in children:
        pytest.skip(f"{backend} is not installed")
    done = children[backend].result()
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["backend"] == backend

    _, model, x, y = saved
    expected = outputs(model, x)
    for found in result["outputs"]:
        if backend == BACKEND:
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, atol=1e-5)
    for pairs in result["saved"]:
        assert pairs == [layer.pairs.tolist() for layer in model.layers]

    first = SampledDense(16, seed=5)
    first.adapt(x, y)
    second = SampledDense(16, seed=5)
    second.adapt(first(x), y, depth=1)
    assert result["first"] == first.pairs.tolist()
    assert result["second"] == second.pairs.tolist()


# Exports.


@tensorflow_only
def test_saved_model(saved, tmp_path):
    tf = pytest.importorskip("tensorflow")
    _, model, x, _ = saved
    model.export(tmp_path / "model", verbose=False)
    predictions = model.predict(x, verbose=0)
    served = tf.saved_model.load(tmp_path / "model")
    np.testing.assert_allclose(served.serve(x).numpy(), predictions, atol=1e-5)


@tensorflow_only
def test_onnx(saved, tmp_path):
    pytest.importorskip("tf2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    _, model, x, _ = saved
    path = tmp_path / "model.onnx"
    model.export(path, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(path)
    found = session.run(None, {session.get_inputs()[0].name: x})[0]
    np.testing.assert_allclose(found, model.predict(x, verbose=0), atol=1e-5)
