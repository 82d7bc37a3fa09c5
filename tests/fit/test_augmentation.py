"""Augmented copies are extra rows that stay with the row they come from."""

import keras
import numpy as np
import pytest

from keras_swim import SampledDense, swim_fit, swim_select
from keras_swim.fit.dataset import Dataset
from keras_swim.fit.rows import ArrayRows

FLIP = keras.layers.RandomFlip("horizontal", seed=0)
SHIFT = keras.layers.RandomTranslation(0.1, 0.1, fill_mode="constant", seed=0)


def network():
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            SampledDense(400, seed=0),
            keras.layers.Dense(10, "softmax"),
        ]
    )


@pytest.fixture(scope="module")
def images(digits):
    x, y, x_test, y_test = digits
    return x[:200].reshape(-1, 8, 8, 1), y[:200], x_test.reshape(-1, 8, 8, 1), y_test


def test_copies_are_rows_named_after_their_origin(images):
    x, y = images[:2]
    model = network()
    history = swim_fit(
        model, x, y, augmentation=SHIFT, copies=3, keep_state=True, verbose=0
    )
    assert history.state.count == 800
    pairs = model.layers[1].pairs
    assert pairs.max() < 200
    assert (y[pairs[:, 0]] != y[pairs[:, 1]]).all()


def test_shifted_copies_teach_shifts(images):
    x, y, x_test, y_test = images
    shifted = np.roll(x_test, 1, axis=2)
    found = []
    for options in ({}, {"augmentation": SHIFT, "copies": 4}):
        model = network()
        swim_fit(model, x, y, seed=0, verbose=0, **options)
        chances = model.predict(shifted, verbose=0)
        found.append(np.mean(chances.argmax(axis=1) == y_test))
    assert found[1] > found[0] + 0.03


def test_copies_of_a_row_are_held_out_together():
    origin = np.r_[np.arange(50), np.arange(50), np.arange(50)]
    data = Dataset(ArrayRows([np.zeros((150, 1))]), [], [], [], origin)
    labels = origin % 2
    folds = data.held_out(np.random.default_rng(0), labels)
    assert sorted(np.concatenate(folds).tolist()) == list(range(150))
    for rows in folds:
        assert len(rows) == 3 * len(np.unique(origin[rows]))


def test_held_out_scores_stay_honest(images):
    # Copies without change: rows that were seen would be known by heart.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 8, 8, 1)).astype("float32")
    y = rng.permutation(np.arange(200) % 2)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            SampledDense(300, seed=0),
            keras.layers.Dense(2, "softmax"),
        ]
    )
    same = {"augmentation": lambda batch: batch + 0.0, "copies": 2, "verbose": 0}
    history = swim_fit(model, x, y, l2=1e-4, seed=0, **same)
    assert history.history["cv_accuracy"][0] < 0.65
    selection = swim_select(model, x, y, l2=[1e-4], widths=[300], seed=0, **same)
    assert selection.surface.accuracy.max() < 0.65
    assert selection.surface.rows == 600


@pytest.mark.parametrize("kind", ["layers", "function", "stream", "weights"])
def test_what_can_be_passed(images, kind):
    x, y = images[:2]
    data, options = (x, y), {"augmentation": [FLIP, SHIFT], "copies": 1}
    if kind == "function":
        options["augmentation"] = lambda batch: keras.ops.flip(batch, axis=2)
    if kind == "stream":
        data = (lambda: ((x[i : i + 50], y[i : i + 50]) for i in range(0, 200, 50)),)
    if kind == "weights":
        options["sample_weight"] = np.arange(200) % 2 + 1.0
    model = network()
    history = swim_fit(model, *data, seed=0, keep_state=True, verbose=0, **options)
    assert history.state.count == 400
    assert history.history["accuracy"][0] > 0.9


def test_refused(images, tmp_path):
    x, y = images[:2]
    with pytest.raises(ValueError, match="copies"):
        swim_fit(network(), x, y, augmentation=FLIP, copies=0, verbose=0)
    with pytest.raises(TypeError, match="Keras layer"):
        swim_fit(network(), x, y, augmentation="flip", verbose=0)
    with pytest.raises(ValueError, match="do not go together"):
        swim_fit(network(), x, y, augmentation=FLIP, cache_dir=tmp_path, verbose=0)
    with pytest.raises(ValueError, match="keep the number of rows"):
        swim_fit(network(), x, y, augmentation=lambda batch: batch[:5], verbose=0)
