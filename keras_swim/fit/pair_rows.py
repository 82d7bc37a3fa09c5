"""What a fitted model makes of the two rows behind each unit.

One pass over the data keeps the little that is needed of the rows in pairs, and
one number of every other row.
"""

import warnings

import keras
import numpy as np
from scipy.special import expit, softmax

from keras_swim.core.activations import constants_for
from keras_swim.core.candidates import blocks
from keras_swim.fit.columns import units_in
from keras_swim.fit.dataset import check_inputs, feed, joined, prepare_targets
from keras_swim.fit.readouts import CLASSES, REGRESSION
from keras_swim.fit.segment import Segment, as_array
from keras_swim.layers.activations import activation_name

_SAME_ROWS = "Pass the same rows, in the same order, as to the fit."


class PairRows:
    """Values at both rows of every unit: arrays that begin with `(units, 2)`.

    Args:
        plan: `Plan` of the fitted model.
        step: Step of the sampled layer.
        readout: `ReadoutLayer` to report on.
        reader: `Reader` of the training data.
        all_rows: Whether to run all rows, or only those in pairs.

    Attributes:
        own_columns: `(units, p)` columns of each unit in the readout's features,
            -1 for none; `None` if the readout does not see the units.
        rows: Row numbers.
        inputs: The layer's inputs.
        features: `(units, 2, p)`: the unit's own features.
        labels: Integer classes, or real targets with a last axis.
        suspicion: See `PairReport`.
        suspects, suspect_scores: Numbers of all rows that ran, the most
            suspicious one first, and their suspicion.
    """

    def __init__(self, plan, step, readout, reader, all_rows):
        self._plan, self._readout, self._reader = plan, readout, reader
        self._name, self._pairs = step.path, step.operation.pairs
        (key,) = step.inputs
        output = plan.graph.outputs[plan.readouts.index(readout)]
        self._segment = Segment(
            plan.graph.steps, plan.graph.inputs, [key, readout.features, output]
        )
        self._axes = self._position_axes(key)
        self._positions = int(np.prod(self._axes))
        self.rows = self._pairs // self._positions
        self._wanted = None if all_rows else np.unique(self.rows)
        self.own_columns = None
        if (
            plan.graph.tensors[readout.features].shape[1:-1]
            == (plan.graph.tensors[key].shape[1:-1])
        ):
            units = units_in(plan, readout.features, step.operation)
            self.own_columns = _columns_of(units, step.operation.units)
        self.inputs = self.features = self.labels = None
        if reader.in_memory:
            self._check_count(reader.first.rows)

    def read(self, size):
        """Runs the model on `size` rows at a time."""
        numbers, gaps = [], []
        for block, arrays, y in self._blocks(size):
            tensors = feed(self._plan.graph, self._plan.graph.inputs, arrays)
            inputs, features, outputs = self._segment.arrays(tensors)
            self._keep(block, inputs, features, self._labels(y))
            numbers.append(block)
            gaps.append(_gaps(self._readout, y, outputs))
        number, gap = np.concatenate(numbers), np.concatenate(gaps)
        if self._readout.kind == REGRESSION:
            # Targets may have any units: compare with the usual residual.
            usual = np.sqrt(np.mean(gap**2, axis=0))
            gap = gap / np.where(usual > 0, usual, 1.0)
        suspicion = gap.max(axis=1)
        order = np.argsort(-suspicion, kind="stable")
        self.suspects, self.suspect_scores = number[order], suspicion[order]
        self.suspicion = suspicion[np.searchsorted(number, self.rows)]

    def _position_axes(self, key):
        axes = tuple(self._plan.graph.tensors[key].shape[1:-1])
        if None not in axes:
            return axes
        one = [array[:1] for array in self._reader.first.x]
        tensors = feed(self._plan.graph, self._plan.graph.inputs, one)
        return self._segment.arrays(tensors)[0].shape[1:-1]

    def _blocks(self, size):
        """Numbers, inputs and targets of the wanted rows, `size` at a time."""
        # Equal blocks, however the wanted rows lie: JAX compiles for each size.
        waiting, count, seen = [], 0, 0
        index = self._plan.readouts.index(self._readout)
        for batch in self._reader.batches(size):
            check_inputs(self._plan.graph, batch)
            y = prepare_targets(self._plan.readouts, batch, seen)[index]
            numbers = np.arange(seen, seen + batch.rows)
            if self._wanted is not None:
                low, high = np.searchsorted(self._wanted, (seen, seen + batch.rows))
                numbers = self._wanted[low:high]
            inside = numbers - seen
            waiting.append([numbers, y[inside], *(part[inside] for part in batch.x)])
            count += len(numbers)
            seen += batch.rows
            if count >= size:
                whole = joined(waiting)
                for start in range(0, count - size + 1, size):
                    block = [part[start : start + size] for part in whole]
                    yield block[0], block[2:], block[1]
                rest = count % size
                waiting = [[part[count - rest :] for part in whole]]
                count = rest
            if self._wanted is not None and seen > self._wanted[-1]:
                break
        self._check_count(seen)
        if count:
            block = joined(waiting)
            yield block[0], block[2:], block[1]

    def _check_count(self, count):
        last = int(self.rows.max())
        if count <= last:
            raise ValueError(
                f"The pairs of the layer {self._name!r} name rows up to number "
                f"{last}. Received: {count} row(s). {_SAME_ROWS}"
            )

    def _labels(self, y):
        """Classes or targets: one a row, or one a position if they have such."""
        codes = self._readout.codes(y, self._axes)
        axes = y.shape[1:] if y.dtype.kind == "i" else y.shape[1:-1]
        labels = None
        if axes in ((), self._axes):
            labels = self._readout.labels(codes)
        return codes if labels is None else labels

    def _keep(self, block, inputs, features, labels):
        place = np.minimum(np.searchsorted(block, self.rows), len(block) - 1)
        unit, side = np.nonzero(block[place] == self.rows)
        row = place[unit, side]
        spot = row * self._positions + (self._pairs % self._positions)[unit, side]
        inputs = inputs.reshape(-1, inputs.shape[-1])
        labels = labels[row if len(labels) == len(block) else spot]
        self.inputs = self._put(self.inputs, unit, side, inputs[spot])
        self.labels = self._put(self.labels, unit, side, labels)
        if self.own_columns is not None:
            features = features.reshape(-1, features.shape[-1])
            own = features[spot[:, None], self.own_columns[unit]]
            self.features = self._put(self.features, unit, side, own)

    def _put(self, store, unit, side, values):
        if store is None:
            store = np.zeros((*self.rows.shape, *values.shape[1:]), values.dtype)
        store[unit, side] = values
        return store


def distances(pair_rows, layer):
    """Distance of the two rows of each unit, over the columns it looks at."""
    kernel = _array(layer.kernel)
    distance, rise = np.empty(layer.units), np.empty(layer.units)
    for part in blocks(layer.units, kernel.shape[0]):
        ends = pair_rows.inputs[part].astype(np.float64)
        step = ends[:, 1] - ends[:, 0]
        weights = kernel[:, part].T.astype(np.float64)
        if layer.subset_sizes is not None:
            step *= weights != 0
        distance[part] = np.linalg.norm(step, axis=1)
        rise[part] = np.einsum("kd,kd->k", step, weights)
    s1 = constants_for(activation_name(layer.activation), layer.constants)[0]
    # A unit rises by s1 from its first row to its second (core/sampling.py);
    # wrong rows would give a report that looks right.
    if np.median(np.abs(rise / (layer.scale * s1) - 1)) > 0.1:
        warnings.warn(
            f"The rows do not belong to the kernel of {layer.name!r}: they are not "
            f"those that it was sampled from, or it was trained since. {_SAME_ROWS}",
            stacklevel=4,
        )
    return distance


def strengths(pair_rows, readout):
    """How far the scores move through each unit, between its two rows."""
    own = pair_rows.own_columns
    if own is None:
        return np.full(len(pair_rows.rows), np.nan)
    # Where a unit has no column, -1 leads to a kernel row of zeros.
    kernel = np.pad(_array(readout.layer.kernel).astype(np.float64), ((0, 1), (0, 0)))
    change = pair_rows.features[:, 1] - pair_rows.features[:, 0]
    return np.linalg.norm(np.einsum("kp,kpc->kc", change, kernel[own]), axis=1)


def _gaps(readout, y, outputs):
    """Distance of the model's outputs from the targets: `(n, 1)` or `(n, c)`."""
    targets = readout.targets(y)
    outputs = outputs.reshape(targets.shape).astype(np.float64)
    if readout.activation == "linear" and readout.kind != REGRESSION:
        # Calibrated scores are logits.
        is_classes = readout.kind == CLASSES
        outputs = softmax(outputs, axis=1) if is_classes else expit(outputs)
    gaps = np.abs(targets - outputs).reshape(len(y), -1, readout.units).max(axis=1)
    # Of one-hot targets the largest gap is 1 minus the own class's probability.
    return gaps if readout.kind == REGRESSION else gaps.max(axis=1, keepdims=True)


def _columns_of(units, count):
    """`(count, p)` columns of each unit, from the `(columns, p)` units of each."""
    if units is None or (units < 0).all():
        return None
    column, part = np.nonzero(units >= 0)
    number = units[column, part]
    order = np.argsort(number, kind="stable")
    each = np.bincount(number, minlength=count)
    place = np.arange(len(number)) - np.repeat(np.cumsum(each) - each, each)
    columns = np.full((count, each.max()), -1)
    columns[number[order], place] = column[order]
    return columns


def _array(weight):
    return as_array(keras.ops.convert_to_tensor(weight))
