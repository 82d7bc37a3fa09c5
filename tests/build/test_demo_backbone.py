"""The demo's backbone: small, the same everywhere, and better than pixels."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_swim import SampledDense, SwimHead, swim_fit
from keras_swim.build.demo_backbone import (
    WEIGHTS,
    build_demo_backbone,
    demo_backbone,
    save_demo_weights,
)

ROOT = Path(__file__).parent.parent.parent
# Every 32nd feature of three patterns: stripes, a chequerboard, plain grey.
REFERENCE = [
    [0.478803, 1.291642, 0.107743, 0.045619, 0.463713, 0.409982],
    [0.903330, 1.624125, 1.275567, 0.224986, 0.034612, 0.0],
    [0.010247, 0.205322, 0.252782, 0.198653, 0.0, 0.0],
]


@pytest.fixture(scope="module")
def backbone():
    return demo_backbone()


def patterns():
    rows, columns, channels = np.indices((32, 32, 3))
    stripes = (7 * rows + 3 * columns + 40 * channels) % 256
    squares = 255 * ((rows // 4 + columns // 8) % 2)
    return np.stack([stripes, squares, np.full_like(rows, 128)]).astype("uint8")


def test_weights_are_small_and_plain():
    assert WEIGHTS.stat().st_size < 1_500_000
    with np.load(WEIGHTS, allow_pickle=False) as file:
        stored = {name: file[name] for name in file.files}
    variables = build_demo_backbone().weights
    assert len(stored) == len(variables)
    assert sum(array.size for array in stored.values()) == sum(
        int(np.prod(variable.shape)) for variable in variables
    )
    assert all(np.isfinite(array).all() for array in stored.values())


def test_features_are_the_same_on_every_backend(backbone):
    assert not backbone.trainable_weights
    features = backbone.predict(patterns(), verbose=0)
    assert features.shape == (3, 192)
    np.testing.assert_allclose(features[:, ::32], REFERENCE, atol=1e-4)


def test_saved_weights_are_those_of_the_model(backbone, tmp_path):
    save_demo_weights(backbone, tmp_path / "again.npz")
    with np.load(tmp_path / "again.npz") as again, np.load(WEIGHTS) as file:
        assert again.files == file.files
        for name in file.files:
            np.testing.assert_array_equal(again[name], file[name])


def test_few_digits_are_told_apart_better_than_by_pixels(backbone, digits):
    x, y, x_test, y_test = digits
    x, y = x[:100], y[:100]
    pixels = keras.Sequential(
        [SampledDense(256, seed=0), keras.layers.Dense(10, activation="softmax")]
    )
    swim_fit(pixels, x, y, seed=0, verbose=0)
    head = SwimHead(backbone, 10, units=256, seed=0)
    swim_fit(head, images(x), y, seed=0, verbose=0)
    by_pixels = np.mean(pixels.predict(x_test, verbose=0).argmax(axis=1) == y_test)
    found = head.predict(images(x_test), verbose=0).argmax(axis=1)
    assert np.mean(found == y_test) > max(0.92, by_pixels + 0.03)


def images(x):
    grey = np.round(255 * x).astype("uint8").reshape(-1, 8, 8, 1)
    return np.repeat(grey, 3, axis=-1)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="once is enough for the recipe"
)
def test_the_recipe_runs(tmp_path):
    recipe = ROOT / "examples" / "train_demo_backbone.py"
    small = ["--images", "256", "--epochs", "1", "--out", "weights.npz"]
    done = subprocess.run(
        [sys.executable, str(recipe), *small],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(ROOT), TF_CPP_MIN_LOG_LEVEL="3"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "accuracy on letters in unseen fonts" in done.stdout
    with np.load(tmp_path / "weights.npz") as new, np.load(WEIGHTS) as file:
        assert {name: new[name].shape for name in new.files} == {
            name: file[name].shape for name in file.files
        }
