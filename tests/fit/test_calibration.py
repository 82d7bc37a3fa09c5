"""Probabilities: calibrated, and decided as before."""

import keras
import numpy as np
import pytest

from keras_swim import SampledDense, swim_fit


def log_loss(chances, y):
    return -np.mean(np.log(np.maximum(chances[np.arange(len(y)), y], 1e-12)))


def calibration_error(chances, y, bins=10):
    """Expected calibration error of the top class."""
    top, right = chances.max(1), chances.argmax(1) == y
    edges = np.clip((top * bins).astype(int), 0, bins - 1)
    return sum(
        np.mean(edges == b) * abs(top[edges == b].mean() - right[edges == b].mean())
        for b in range(bins)
        if (edges == b).any()
    )


def softmax(scores):
    shifted = np.exp(scores - scores.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


def fitted(x, y, units):
    model = keras.Sequential(
        [SampledDense(units, seed=0), keras.layers.Dense(10, activation="softmax")]
    )
    history = swim_fit(model, x, y, seed=0, verbose=0)
    return model, history.history["temperature"][0]


@pytest.mark.parametrize("rows, units", [(300, 1000), (5000, 1000)])
def test_real_features_are_calibrated(resnet_features, rows, units):
    x, y, x_test, y_test = resnet_features
    model, temperature = fitted(x[:rows], y[:rows], units)
    chances = model.predict(x_test, verbose=0)
    logits = np.log(np.maximum(chances, 1e-30))
    raw = softmax(logits / temperature)
    assert np.array_equal(raw.argmax(1), chances.argmax(1))
    assert calibration_error(chances, y_test) < 0.05
    assert calibration_error(raw, y_test) > 0.3
    assert log_loss(chances, y_test) < 0.6 * log_loss(raw, y_test)
    # No other temperature would do much better on rows never seen.
    others = [log_loss(softmax(logits * t), y_test) for t in np.geomspace(0.3, 3, 31)]
    assert log_loss(chances, y_test) < min(others) + 0.02


def test_sigmoid_readout(rng):
    x = rng.normal(size=(1500, 2)).astype("float32")
    chance = 1 / (1 + np.exp(-2 * x[:, 0] - x[:, 1]))
    y = (rng.random(1500) < chance).astype("int64")
    model = keras.Sequential(
        [SampledDense(50), keras.layers.Dense(1, activation="sigmoid")]
    )
    history = swim_fit(model, x[:1000], y[:1000], seed=0, verbose=0)
    found = model.predict(x[1000:], verbose=0)[:, 0]
    assert np.mean(np.abs(found - chance[1000:])) < 0.08
    assert history.history["accuracy"][0] > 0.7


def test_multi_label_readout(rng):
    x = rng.normal(size=(1000, 3)).astype("float32")
    y = (np.stack([x[:, 0] > 0, x[:, 1] > 1.5, x[:, 2] > -1], 1)).astype("float32")
    model = keras.Sequential(
        [SampledDense(200), keras.layers.Dense(3, activation="sigmoid")]
    )
    swim_fit(model, x, y, seed=0, verbose=0)
    found = model.predict(x, verbose=0)
    assert ((found > 0.5) == (y > 0.5)).mean() > 0.95


def test_logits_are_calibrated_for_their_loss(digits):
    x, y, x_test, y_test = digits
    model = keras.Sequential([SampledDense(300), keras.layers.Dense(10)])
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    swim_fit(model, x, y, seed=0, verbose=0)
    loss, right = model.evaluate(x_test, y_test, verbose=0)
    assert right > 0.95
    assert loss < 0.2


def test_one_hot_and_integer_labels_give_the_same(digits):
    x, y, *_ = digits
    models = []
    for targets in (y, np.eye(10)[y], y[:, None], y.astype("float32")):
        model = keras.Sequential(
            [
                SampledDense(100, seed=0),
                keras.layers.Dense(10, activation="softmax"),
            ]
        )
        swim_fit(model, x, targets, seed=0, verbose=0)
        models.append(model.get_weights())
    for other in models[1:]:
        for first, second in zip(models[0], other, strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-5)
