"""Solving the readouts again, with everything before them as it is.

After gradient steps the features have changed, and the readout that fits them
best is known in closed form. Penalty and temperature are chosen on validation
rows: training rows no longer say anything honest about a network that was trained
on them.
"""

from typing import NamedTuple

import numpy as np

from keras_swim.core.readout import ReadoutState
from keras_swim.core.ridge import Fold, choose_l2
from keras_swim.core.solvers import factor
from keras_swim.fit.dataset import joined
from keras_swim.fit.metrics import held_out_metrics
from keras_swim.fit.passes import feature_blocks
from keras_swim.fit.plan import make_plan
from keras_swim.fit.prepare import load_rows, load_validation
from keras_swim.fit.readouts import REGRESSION


class Judged(NamedTuple):
    """How good a model is on validation rows.

    Attributes:
        metrics: Loss, and accuracy or r2, of each output and of all together.
        score: What to compare by: the larger the better. Mean accuracy (r2 for
            regression), and the loss among equals.
    """

    metrics: dict[str, float]
    score: tuple[float, float]


class Resolver:
    """Judges a model on validation rows, and solves its readouts again.

    Args:
        model: Built Keras model with readouts.
        reader: Function that opens the training data: a new `Reader` each time.
        validation: The same for the validation data.
        options: `Options`.
        progress: `Progress`.
    """

    def __init__(self, model, reader, validation, options, progress):
        self._open, self._open_validation = reader, validation
        self.options, self.progress = options, progress
        self.plan = make_plan(model, validation().specs(), readouts_only=True)
        self._held = None

    def look(self):
        """Runs the validation rows through the model as it is.

        Returns:
            The `Judged` model.
        """
        held = load_validation(
            self.plan, self._open_validation(), self.options, self.progress
        )
        try:
            self._held = [
                self._validation_rows(held, i) for i in range(len(self.plan.readouts))
            ]
        finally:
            held.rows.close()
        return self._judged()

    def solve(self):
        """Solves the readouts for the features that training rows have now.

        Call `look` first.

        Returns:
            The `Judged` model.
        """
        data = load_rows(self.plan, self._open(), self.options, None, self.progress)
        try:
            for i, readout in enumerate(self.plan.readouts):
                self._solve_one(data, i, readout)
        finally:
            data.rows.close()
        return self._judged()

    def _solve_one(self, data, number, readout):
        state = None
        for _, *rows in feature_blocks(self.plan, data, number, self.options):
            if state is None:
                state = ReadoutState(rows[0].shape[1], readout.units)
            state.update(*rows)
        features, targets, weight = self._held[number]

        def scores(kernel, bias):
            return features @ kernel.astype(features.dtype) + bias

        path = factor(state, many=True)
        l2 = choose_l2([Fold(path, scores, targets, weight)]).l2
        kernel, bias = path.coefficients(l2)
        if readout.calibrated:
            temperature = readout.temperature(scores(kernel, bias), targets, weight)
            kernel, bias = readout.calibrate(kernel, bias, temperature)
        readout.layer._kernel.assign(kernel)
        readout.layer.bias.assign(bias)

    def _validation_rows(self, held, number):
        blocks = feature_blocks(self.plan, held, number, self.options)
        return joined([rows for _, *rows in blocks])

    def _judged(self):
        metrics, losses, shares = {}, [], []
        for readout, rows in zip(self.plan.readouts, self._held, strict=True):
            features, targets, weight = rows
            kernel, bias = (np.asarray(w) for w in readout.layer.get_weights())
            found = held_out_metrics(
                readout, features @ kernel + bias, targets, weight, None
            )
            prefix = self.plan.log_prefix(readout)
            metrics.update({f"{prefix}{name}": v for name, v in found.items()})
            losses.append(found["loss"])
            shares.append(found["r2" if readout.kind == REGRESSION else "accuracy"])
        metrics["loss"] = float(np.sum(losses))
        score = float(np.mean(shares)), -metrics["loss"]
        return Judged(metrics, tuple(v if np.isfinite(v) else -np.inf for v in score))
