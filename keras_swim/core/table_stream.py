"""A sampled layer for a table that goes on learning from new rows.

The columns are learned and the units sampled from the first rows. After that only the
readouts' sums are kept: new rows are added to them, and the readouts solved again, with
ridge and temperature chosen by the leave-one-out scores of the newest rows among all
rows so far.

Shapes: n rows, c outputs.
"""

from dataclasses import replace

import numpy as np

from keras_swim.core.calibrate import softmax_temperature
from keras_swim.core.left_out import sums_left_out
from keras_swim.core.readout import ReadoutState
from keras_swim.core.targets import one_hot


class TableStream:
    """The sums behind each member of a `TableModel`.

    Args:
        model: `TableModel` with sampled layers only, fitted to the first rows.

    Example:

    >>> from keras_swim.core.table_model import fit_table
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 2))
    >>> y = (x[:, 0] * x[:, 1] > 0).astype(int)
    >>> def some(rows):
    ...     return {"a": x[rows, 0], "b": x[rows, 1]}
    >>> model = fit_table(some(slice(100)), y[:100], classes=2, seed=0, units=50)
    >>> stream = TableStream(model)
    >>> stream.update(some(slice(100)), y[:100])
    >>> stream.update(some(slice(100, 300)), y[100:])
    >>> stream.rows
    300
    """

    def __init__(self, model):
        self.model = model
        self.states = [
            ReadoutState(len(member.kernel), len(member.bias), form="sums")
            for member in model.members
        ]

    @property
    def rows(self):
        """Number of rows so far."""
        return self.states[0].count

    def update(self, table, target, sample_weight=None):
        """Adds rows and solves the readouts again.

        Args:
            table: Dict from name to `(n,)` array.
            target: `(n,)` class codes or `(n, c)` real numbers.
            sample_weight: `None` or `(n,)`.
        """
        model = self.model
        weight = np.ones(len(target)) if sample_weight is None else sample_weight
        if model.classes is None:
            targets = (target - model.target_mean) / model.target_spread
        else:
            targets = one_hot(target, model.classes)
        views = model.views(table)
        members, scores = [], []
        for member, state in zip(model.members, self.states, strict=True):
            features = member.features(views)
            state.update(features, targets, weight)
            found = sums_left_out(state.system(), features, targets, weight)
            member = replace(member, kernel=found.kernel, bias=found.bias)
            factor = 1.0 / len(self.states)
            if model.classes is not None:
                factor *= softmax_temperature(found.scores, targets, weight)
            members.append(member.times(factor))
            scores.append(factor * found.scores)
        if model.classes is not None:
            factor = softmax_temperature(np.sum(scores, axis=0), targets, weight)
            members = [member.times(factor) for member in members]
        model.members = members
