import keras
import numpy as np
import pytest

from keras_swim.layers.preprocessing import BicubicResizing


def _kernel(far):
    near = 1.5 * far**3 - 2.5 * far**2 + 1
    outer = -0.5 * far**3 + 2.5 * far**2 - 4 * far + 2
    return np.where(far < 1, near, np.where(far < 2, outer, 0.0))


def _resized(image, size):
    """Keys' bicubic interpolation in float64, one pixel after the other."""
    new = np.zeros((*size, image.shape[-1]))
    places = [
        (np.arange(n) + 0.5) * old / n - 0.5
        for n, old in zip(size, image.shape[:2], strict=True)
    ]
    for i, y in enumerate(places[0]):
        for j, x in enumerate(places[1]):
            down = _kernel(np.abs(y - np.arange(image.shape[0])))
            across = _kernel(np.abs(x - np.arange(image.shape[1])))
            weights = np.outer(down / down.sum(), across / across.sum())
            new[i, j] = np.tensordot(weights, image, 2)
    return new


@pytest.mark.parametrize("shape", [(8, 8, 3), (5, 9, 1), (20, 11, 3), (12, 7, 3)])
def test_every_backend_gives_the_same_pixels(shape, rng):
    image = rng.integers(0, 256, size=shape).astype("float32")
    layer = BicubicResizing(12, 7)
    found = keras.ops.convert_to_numpy(layer(image[None]))[0]
    # TensorFlow looks its kernel up in a table of 1024 values.
    np.testing.assert_allclose(found, _resized(image, (12, 7)), atol=0.2)
    if shape[:2] == (12, 7):
        np.testing.assert_allclose(found, image, atol=1e-4)


def test_it_is_saved_and_takes_any_size(tmp_path, rng):
    inputs = keras.Input((None, None, 3))
    model = keras.Model(inputs, BicubicResizing(6, 4)(inputs))
    assert model.output_shape == (None, 6, 4, 3)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for size in ((9, 9), (3, 5)):
        images = rng.uniform(0, 255, size=(2, *size, 3)).astype("float32")
        np.testing.assert_allclose(
            again.predict(images, verbose=0), model.predict(images, verbose=0)
        )
