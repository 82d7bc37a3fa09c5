"""Every backbone gets its images as keras.applications wants them."""

import importlib

import keras
import numpy as np
import pytest

from keras_swim.build.backbones import RECIPES, get_backbone
from keras_swim.layers.preprocessing import ImagePreprocessing


def module_of(name):
    builder = getattr(keras.applications, name)
    return importlib.import_module(builder.__module__)


def test_all_of_keras_applications_is_there():
    builders = {
        name
        for name in dir(keras.applications)
        if name[0].isupper() and callable(getattr(keras.applications, name))
    }
    assert set(RECIPES) == builders


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_preprocessing_is_that_of_the_module(name, rng):
    images = rng.integers(0, 256, size=(2, 5, 4, 3)).astype("float32")
    expected = module_of(name).preprocess_input(images.copy())
    found = images
    if RECIPES[name].mode is not None:
        layer = ImagePreprocessing(RECIPES[name].mode)
        found = keras.ops.convert_to_numpy(layer(images))
        # Whole numbers are images too.
        whole = keras.ops.convert_to_numpy(layer(images.astype("uint8")))
        np.testing.assert_allclose(whole, found, atol=1e-5)
    np.testing.assert_allclose(
        found, keras.ops.convert_to_numpy(expected), rtol=1e-5, atol=1e-4
    )


class Stopped(Exception):
    """Carries a model's default size out of its builder."""


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_size_is_that_of_the_weights(name, monkeypatch):
    def stop(input_shape, default_size, **kwargs):
        raise Stopped(default_size)

    module = module_of(name)
    monkeypatch.setattr(module.imagenet_utils, "obtain_input_shape", stop)
    try:
        getattr(keras.applications, name)(weights=None)
    except Stopped as stopped:
        assert stopped.args[0] == RECIPES[name].size
    except ValueError:
        if keras.backend.backend() == "torch" and name.startswith("NASNet"):
            pytest.skip("Keras has no NASNet on torch")
        raise
    else:
        # MobileNetV3 takes any size; 224 is what it was trained with.
        assert name.startswith("MobileNetV3") and RECIPES[name].size == 224


def test_preprocessing_does_not_change_its_input(rng):
    images = rng.uniform(0, 255, size=(2, 5, 4, 3)).astype("float32")
    before = images.copy()
    for mode in ("caffe", "tf", "torch"):
        ImagePreprocessing(mode)(images)
    np.testing.assert_array_equal(images, before)


def test_names_in_any_case():
    found = get_backbone("mobilenetv2", None, 32, "auto")
    assert found.size == (32, 32)
    assert found.preprocessing.mode == "tf"


def test_a_model_of_ones_own():
    model = keras.Sequential(
        [keras.Input((24, 20, 3)), keras.layers.Conv2D(4, 3), keras.layers.Flatten()]
    )
    assert get_backbone(model, "imagenet", None, "auto").size == (24, 20)
    free = keras.Sequential([keras.Input((None, None, 3)), keras.layers.Conv2D(4, 3)])
    assert get_backbone(free, "imagenet", None, "auto").size is None
    assert get_backbone(free, "imagenet", (8, 9), "tf").size == (8, 9)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("ResNet51", None, None, "auto"), "ResNet50"),
        (("ResNet50", None, "big", "auto"), "image_size"),
        (("ResNet50", None, (224, 0), "auto"), "image_size"),
        (("ResNet50", "nowhere.weights.h5", None, "auto"), "does not exist"),
        (("ResNet50", None, 32, "bgr"), "caffe"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        get_backbone(*arguments)


def test_models_that_take_no_images():
    table = keras.Sequential([keras.Input((7,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="batch of images"):
        get_backbone(table, None, None, "auto")
    with pytest.raises(TypeError, match="Keras model"):
        get_backbone(lambda x: x, None, None, "auto")
    fixed = keras.Sequential([keras.Input((24, 20, 3)), keras.layers.Conv2D(4, 3)])
    with pytest.raises(ValueError, match="Leave out"):
        get_backbone(fixed, None, 32, "auto")


def test_without_a_network_the_error_says_what_to_do(monkeypatch):
    def fail(*args, **kwargs):
        raise Exception("URL fetch failure on https://...: None -- unreachable")

    monkeypatch.setattr(keras.applications, "ResNet50", fail)
    with pytest.raises(ConnectionError, match=r"weights=.ResNet50\.weights\.h5"):
        get_backbone("ResNet50", "imagenet", None, "auto")


def test_weights_from_a_file(tmp_path):
    keras.utils.set_random_seed(0)
    model = keras.applications.MobileNetV2(
        weights=None, include_top=False, input_shape=(32, 32, 3)
    )
    model.save_weights(tmp_path / "mobile.weights.h5")
    found = get_backbone("MobileNetV2", tmp_path / "mobile.weights.h5", 32, "auto")
    for mine, theirs in zip(
        found.model.get_weights(), model.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
