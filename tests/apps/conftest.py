"""Small folders of images, and a backbone for them."""

import keras
import numpy as np
import pytest

PIL = pytest.importorskip("PIL.Image")

COLORS = {"blue": (40, 60, 200), "green": (40, 180, 60), "red": (210, 50, 40)}


def picture(color, rng, size=(20, 16)):
    noise = rng.integers(-30, 31, size=(*size, 3))
    return np.clip(np.array(color) + noise, 0, 255).astype("uint8")


@pytest.fixture
def photos(tmp_path):
    """Three classes of ten images each, of several sizes and formats."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    for name, color in COLORS.items():
        (folder / name).mkdir(parents=True)
        for i in range(10):
            size = [(20, 16), (32, 32), (15, 40)][i % 3]
            image = PIL.fromarray(picture(color, rng, size))
            image.save(folder / name / f"{i}.{['png', 'jpg', 'bmp'][i % 3]}")
    return folder


@pytest.fixture(scope="session")
def backbone(tmp_path_factory):
    """File of a small backbone whose features tell colors."""
    path = tmp_path_factory.mktemp("backbone") / "backbone.keras"
    keras.utils.set_random_seed(0)
    inputs = keras.Input((12, 12, 3))
    features = keras.layers.Rescaling(1 / 255)(inputs)
    features = keras.layers.Conv2D(8, 3, activation="relu")(features)
    keras.Model(inputs, features, name="tiny").save(path)
    return path
