"""From the rows of a table to a fitted model: what `keras-swim fit` does."""

import time
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from scipy.special import softmax

from keras_swim.apps.console import say, size
from keras_swim.apps.stages import timed
from keras_swim.apps.wording import counted, seconds
from keras_swim.build.tables import table_model
from keras_swim.core.table_boost import default_bags
from keras_swim.core.table_layer import GROUPS, default_units
from keras_swim.core.table_model import fit_table
from keras_swim.core.targets import class_weights

# Rows from which it is worth saying how long it takes.
_LARGE = 5000
# Seconds of a fit per 1000 rows, in those of a product of (2000, 600) with itself,
# measured: of the sampled layer, of boosting, and of boosting for each output.
_LAYER_PRODUCTS = 20.0
_BOOST_PRODUCTS = 15.0
_OUTPUT_PRODUCTS = 8.0


@dataclass
class FittedTable:
    """What came out.

    Attributes:
        model: `keras_swim.core.table_model.TableModel`.
        network: The same as a Keras model.
        outputs: `(n, c)` probabilities or predictions of the validation rows, or
            `None`.
        left_out: The same of the training rows, each by models without it.
        stages: Seconds by what they were spent on.
    """

    model: Any
    network: Any
    outputs: np.ndarray | None
    left_out: np.ndarray
    stages: dict = field(default_factory=dict)


def fit_rows(training, validation, *, method, class_weight=None, seed=0, stages=None):
    """Fits a model to rows.

    Args:
        training: `TableData`.
        validation: `TableData`, or `None`.
        method: `"layer"` or `"boost"`.
        class_weight: `None` or `"balanced"`.
        seed: Integer.
        stages: `None`, or a dict of seconds to add to.

    Returns:
        A `FittedTable`.
    """
    stages = {} if stages is None else stages
    classes = None if training.class_names is None else len(training.class_names)
    weights = None
    if class_weight is not None:
        weights = class_weights(training.targets, classes, class_weight)
    bags = default_bags(len(training))
    _announce(training, classes, method, bags)
    parts = len(GROUPS) + (bags if method == "boost" else 0)
    bar = keras.utils.Progbar(parts, unit_name="part")
    done: list = []

    def advance():
        done.append(1)
        bar.update(len(done))

    with timed(stages, "fitting"):
        model = fit_table(
            training.columns,
            training.targets,
            classes=classes,
            sample_weight=weights,
            method=method,
            bags=bags,
            seed=seed,
            report=advance,
        )
    if len(done) < parts:
        # Too few rows for boosting: the layer alone was fitted.
        bar.update(parts, finalize=True)
    outputs = None
    if validation is not None:
        with timed(stages, "validating"):
            outputs = finished(model, model.scores(validation.columns))
    with timed(stages, "building the Keras model"):
        network = table_model(
            model,
            training.kinds,
            class_names=training.class_names,
            target=training.target,
        )
    return FittedTable(model, network, outputs, finished(model, model.left_out), stages)


def finished(model, scores):
    """Probabilities, for a model of classes; predictions as they are."""
    if model.classes is None:
        return scores
    return softmax(scores, axis=1)


def _announce(training, classes, method, bags):
    """Says what will be done, and how long it takes where that is long."""
    units = default_units(len(training), classes, method == "boost")
    what = f"{len(GROUPS)} groups of {units} units"
    if method == "boost":
        what = f"{bags} bags of boosted units, and a layer of {what}"
    say(f"Fitting to {counted(len(training), 'row')}: {what}.")
    if len(training) < _LARGE:
        return
    products = _LAYER_PRODUCTS
    if method == "boost":
        outputs = 1 if classes in (None, 2) else classes
        products += _BOOST_PRODUCTS + _OUTPUT_PRODUCTS * outputs
    products *= len(training) / 1000
    # Features in single, and scaled copies of them in double precision.
    memory = len(training) * units * (4 + 2 * 8)
    advice = " --method layer is faster." if method == "boost" else ""
    say(
        f"That takes about {seconds(products * _product_seconds())} and "
        f"{size(memory)} of memory.{advice}"
    )


def _product_seconds():
    """Seconds of a product of `(2000, 600)` with itself on this machine, now."""
    x = np.ones((2000, 600), dtype="float32")
    best = np.inf
    for _ in range(4):
        start = time.perf_counter()
        x.T @ x
        best = min(best, time.perf_counter() - start)
    return best
