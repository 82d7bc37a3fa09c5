"""Heads to compare on the same features: sampled, ridge, random weights, Adam."""

import time
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np

from keras_swim.fit.swim_fit import swim_fit
from keras_swim.layers.sampled_dense import SampledDense

LEARNING_RATE, BATCH_SIZE, PATIENCE = 1e-3, 32, 10


class Rows(NamedTuple):
    """Features and labels.

    Attributes:
        x: `(n, d)` features.
        y: `(n,)` integer labels.
    """

    x: np.ndarray
    y: np.ndarray


class Settings(NamedTuple):
    """What all heads of one comparison share.

    Attributes:
        classes: Number of classes.
        units: Width of the hidden layer.
        epochs: Most epochs of a head that is trained.
        seed: Seed of all that is random.
    """

    classes: int
    units: int
    epochs: int
    seed: int


def sampled_head(train, validation, settings):
    """Units from pairs of rows, and a solved readout: `SwimHead` without images."""
    inputs = keras.Input(train.x.shape[1:])
    hidden = SampledDense(settings.units, offset="auto", seed=settings.seed)(inputs)
    return _solved(inputs, hidden, train, settings)


def plain_ridge(train, validation, settings):
    """A solved readout on the features themselves."""
    inputs = keras.Input(train.x.shape[1:])
    return _solved(inputs, inputs, train, settings)


def random_weights(train, validation, settings):
    """As the sampled head, but with weights that know nothing of the data."""
    inputs = keras.Input(train.x.shape[1:])
    # Random weights need features of a known size. Rows of d standardised ones
    # have length sqrt(d), so with this scale the units see numbers of size 1.
    hidden = keras.layers.BatchNormalization(center=False, scale=False)(inputs)
    hidden = SampledDense(
        settings.units,
        sampler="random",
        scale=train.x.shape[1] ** -0.5,
        seed=settings.seed,
    )(hidden)
    return _solved(inputs, hidden, train, settings)


def adam_head(train, validation, settings):
    """A tanh layer of equal width, trained by Adam with early stopping."""
    keras.utils.set_random_seed(settings.seed)
    inputs = keras.Input(train.x.shape[1:])
    hidden = keras.layers.Dense(settings.units, activation="tanh")(inputs)
    outputs = keras.layers.Dense(settings.classes, activation="softmax")(hidden)
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.Adam(LEARNING_RATE), "sparse_categorical_crossentropy"
    )
    stop = keras.callbacks.EarlyStopping(patience=PATIENCE, restore_best_weights=True)
    model.fit(
        train.x,
        train.y,
        validation_data=(validation.x, validation.y),
        batch_size=BATCH_SIZE,
        epochs=settings.epochs,
        callbacks=[stop],
        verbose=0,
    )
    return model


HEADS: dict[str, Callable] = {
    "sampled head": sampled_head,
    "plain ridge": plain_ridge,
    "random weights": random_weights,
    "Adam": adam_head,
}


def compare(head, draws, test, settings):
    """Fits a head to several draws of rows, and judges it on the same test rows.

    Args:
        head: Function of training rows, validation rows and settings that returns
            a fitted model: one of `HEADS`.
        draws: List of `(train, validation)`, each `Rows`. The n-th is fitted with
            seed `settings.seed + n`. Only Adam looks at the validation rows.
        test: `Rows`.
        settings: `Settings`.

    Returns:
        Dict: mean `accuracy` and `log_loss`, their standard deviations over the
        draws with `_spread`, the median `seconds` of a fit, the number of `draws`.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 2))
    >>> y = (x[:, 0] * x[:, 1] > 0).astype(int)
    >>> rows = [Rows(x[part], y[part]) for part in np.split(np.arange(300), 3)]
    >>> settings = Settings(classes=2, units=50, epochs=1, seed=0)
    >>> found = compare(HEADS["sampled head"], [rows[:2]], rows[2], settings)
    >>> found["accuracy"] > 0.8, found["draws"]
    (True, 1)
    """
    scores, seconds = [], []
    for number, (train, validation) in enumerate(draws):
        start = time.perf_counter()
        seeded = settings._replace(seed=settings.seed + number)
        model = head(train, validation, seeded)
        seconds.append(time.perf_counter() - start)
        scores.append(score(model.predict_on_batch(test.x), test.y))
    found: dict = {}
    for name in scores[0]:
        values = [each[name] for each in scores]
        found[name] = float(np.mean(values))
        found[f"{name}_spread"] = float(np.std(values))
    return {**found, "seconds": float(np.median(seconds)), "draws": len(seconds)}


def score(chances, labels):
    """Accuracy and log loss of probabilities.

    Example:

    >>> score(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0, 1]))["accuracy"]
    1.0
    """
    chances = keras.ops.convert_to_numpy(chances).astype("float64")
    own = chances[np.arange(len(labels)), labels]
    return {
        "accuracy": float(np.mean(chances.argmax(axis=1) == labels)),
        "log_loss": float(-np.mean(np.log(np.maximum(own, 1e-12)))),
    }


def _solved(inputs, hidden, train, settings):
    readout = keras.layers.Dense(settings.classes, activation="softmax")
    model = keras.Model(inputs, readout(hidden))
    swim_fit(model, train.x, train.y, seed=settings.seed, verbose=0)
    return model
