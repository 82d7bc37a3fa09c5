"""Reading the data once: rows behind the prefix, targets and weights."""

import itertools
from dataclasses import dataclass
from numbers import Real

import keras
import numpy as np

from keras_swim.core.targets import class_weights
from keras_swim.data.sources import ArraySource, Batch, Names, as_source
from keras_swim.fit.cache import CachedRows, check_probe, row_digests
from keras_swim.fit.rows import ArrayRows, Batches, SpooledRows


@dataclass
class Dataset:
    """All that later stages need to know of the data.

    Attributes:
        rows: `ArrayRows`, `SpooledRows` or `CachedRows`: the tensors at the plan's
            cut.
        y: One array of prepared targets an output.
        raw_y: The same as the user gave them (for compiled metrics).
        weights: One array or `None` an output.
    """

    rows: ArrayRows | Batches
    y: list[np.ndarray]
    raw_y: list[np.ndarray]
    weights: list[np.ndarray | None]

    @property
    def count(self):
        return self.rows.count

    def pool_weight(self, index):
        """Weights to draw pairs by: the mean over outputs."""
        given = [weight[index] for weight in self.weights if weight is not None]
        return np.mean(given, axis=0) if given else None


class Reader:
    """A source of data whose first batch can be looked at beforehand."""

    def __init__(self, source):
        self.source = source
        self.in_memory = isinstance(source, ArraySource)
        if self.in_memory:
            self.first = source.data
            self._batches = None
        else:
            batches = source.batches()
            self.first = next(batches)
            self._batches = itertools.chain([self.first], batches)

    def specs(self):
        """Shape and dtype of each input, as symbolic tensors."""
        return [
            keras.KerasTensor(
                (None, *array.shape[1:]),
                dtype=keras.config.floatx()
                if array.dtype.kind == "f"
                else array.dtype.name,
            )
            for array in self.first.x
        ]

    def batches(self, batch_size):
        if self.in_memory:
            return self.source.batches(batch_size)
        return self._batches


def open_reader(model, x, y=None, sample_weight=None):
    """Returns a `Reader` of whatever a model's inputs may come as."""
    names = Names(
        list(getattr(model, "input_names", None) or _names(model)) or None,
        list(getattr(model, "output_names", None) or []) or None,
    )
    return Reader(as_source(x, y, sample_weight, names))


def read(x, y, sample_weight, model, caller="swim_fit"):
    """Returns a `Reader`; raises if there are no targets."""
    reader = open_reader(model, x, y, sample_weight)
    if not reader.first.y:
        raise ValueError(
            f"`{caller}` needs targets. Received: x of type "
            f"{type(x).__name__} and y=None. Pass `y`, or a data set that "
            "yields (x, y)."
        )
    return reader


def split(reader, fraction):
    """Splits arrays into a reader of the first rows and one of the last."""
    if not (isinstance(fraction, Real) and 0 < fraction < 1):
        raise ValueError(
            "`validation_split` must lie between 0 and 1. Received: "
            f"validation_split={fraction!r}"
        )
    if not reader.in_memory:
        raise ValueError(
            "`validation_split` needs arrays in memory. Split the data set "
            "beforehand and pass `validation_data`."
        )
    data = reader.source.data
    at = round(data.rows * (1 - fraction))
    if not 0 < at < data.rows:
        raise ValueError(
            f"`validation_split={fraction}` of {data.rows} row(s) leaves no "
            "rows on one side."
        )
    parts = []
    for part in (slice(0, at), slice(at, None)):
        batch = Batch(*([array[part] for array in arrays] for arrays in data))
        parts.append(Reader(ArraySource(batch)))
    return parts


def feed(graph, keys, arrays):
    """Tensors for the given keys, in the dtype and rank that the graph has."""
    return [
        keras.ops.convert_to_tensor(
            ranked(array, graph.tensors[key]), dtype=graph.tensors[key].dtype
        )
        for key, array in zip(keys, arrays, strict=True)
    ]


def forward(segment, graph, keys, arrays, block_rows):
    """Arrays of a segment's outputs for all rows of the given arrays."""
    parts = []
    for start in range(0, len(arrays[0]), block_rows):
        block = [array[start : start + block_rows] for array in arrays]
        parts.append(segment.arrays(feed(graph, keys, block)))
    return joined(parts)


def check_inputs(graph, batch):
    """Raises unless the arrays fit the model's inputs."""
    if len(batch.x) != len(graph.inputs):
        raise ValueError(
            f"The model has {len(graph.inputs)} input(s). Received: "
            f"{len(batch.x)} array(s) in x."
        )
    for key, array in zip(graph.inputs, batch.x, strict=True):
        expected = graph.tensors[key].shape
        shape = ranked(array, graph.tensors[key]).shape
        if len(shape) != len(expected) or any(
            want is not None and got != want
            for got, want in zip(shape[1:], expected[1:], strict=True)
        ):
            raise ValueError(
                f"The model expects inputs of shape {tuple(expected)}. "
                f"Received: x.shape={array.shape}."
            )


def prepare_targets(readouts, batch, first_row=0):
    """Prepared targets of each readout."""
    if len(batch.y) != len(readouts):
        raise ValueError(
            f"The model has {len(readouts)} output(s). Received: "
            f"{len(batch.y)} array(s) in y."
        )
    return [
        readout.prepare(y, first_row)
        for readout, y in zip(readouts, batch.y, strict=True)
    ]


def output_weights(batch, readouts):
    """One array of weights or `None` for each readout."""
    if not batch.weight:
        return [None] * len(readouts)
    if len(batch.weight) not in (1, len(readouts)):
        raise ValueError(
            f"The model has {len(readouts)} output(s). Received: "
            f"{len(batch.weight)} arrays in sample_weight."
        )
    return (batch.weight * len(readouts))[: len(readouts)]


def load(
    reader,
    plan,
    segment,
    batch_size,
    class_weight,
    advance,
    training=True,
    cached=None,
):
    """Reads all data, running the prefix once per row.

    Args:
        reader: `Reader`.
        plan: `Plan`.
        segment: `Segment` of the prefix, or `None` if there is none.
        batch_size: Rows per call of the prefix.
        class_weight: See `swim_fit`.
        advance: Called with the number of rows that were read.
        training: Whether the rows must be enough to train on: two classes.
        cached: `None`, or `CachedRows` to read from and to add to.
    """
    readouts = plan.readouts
    if reader.in_memory and segment is None:
        data = reader.source.data
        check_inputs(plan.graph, data)
        index = [plan.graph.inputs.index(key) for key in plan.cut]
        rows = ArrayRows([data.x[number] for number in index])
        y, raw_y = prepare_targets(readouts, data), data.y
        weights = output_weights(data, readouts)
        advance(data.rows)
    else:
        rows = SpooledRows() if cached is None else cached
        made = _features(reader, plan, segment, batch_size, rows)
        parts = []
        try:
            seen = 0
            for batch in made:
                prepared = prepare_targets(readouts, batch, seen)
                parts.append((prepared, batch.y, output_weights(batch, readouts)))
                seen += batch.rows
                advance(batch.rows)
        except BaseException:
            # A cache writes what it has: the next fit goes on from there.
            rows.close()
            raise
        y, raw_y, weights = (joined(column) for column in zip(*parts, strict=True))
    if training:
        for readout, targets in zip(readouts, y, strict=True):
            readout.check_whole(targets)
    if class_weight is not None:
        weights = weighted_by_class(readouts, y, weights, class_weight)
    for weight in weights:
        if weight is not None and not weight.any():
            rows.close()
            raise ValueError(
                "Expected rows of positive weight. Received: all weights are 0."
            )
    return Dataset(rows, y, raw_y, weights)


def _features(reader, plan, segment, batch_size, rows):
    """Reads all batches and adds what the prefix makes of them to `rows`.

    Yields:
        Each batch, when it has been added.
    """
    index = [plan.graph.inputs.index(key) for key in plan.cut if segment is None]

    def make(arrays):
        if segment is None:
            return [arrays[number] for number in index]
        return segment.arrays(feed(plan.graph, plan.graph.inputs, arrays))

    cached = isinstance(rows, CachedRows)
    known = rows.count
    seen = 0
    for batch in reader.batches(batch_size):
        check_inputs(plan.graph, batch)
        if not cached:
            rows.append(make(batch.x))
        else:
            if known and not seen:
                check_probe(rows, make, batch.x)
            digests = row_digests(batch.x)
            rows.check(seen, digests)
            new = max(0, known - seen)
            if new < batch.rows:
                rows.append(make([array[new:] for array in batch.x]), digests[new:])
        seen += batch.rows
        yield batch
    if cached:
        rows.flush()
        if seen < known:
            raise ValueError(
                f"The cache holds features of {known} rows. Received: {seen} rows. It "
                "was made from other data: delete its folder, or name another "
                "`cache_dir`."
            )


def weighted_by_class(readouts, y, weights, class_weight):
    """Sample weights multiplied by the weights of the rows' classes."""
    if len(readouts) > 1:
        raise ValueError(
            "`class_weight` is for models with one output. Received: a model "
            f"with {len(readouts)}. Pass `sample_weight` for each output."
        )
    labels = readouts[0].labels(y[0])
    if labels is None:
        raise ValueError(
            "`class_weight` needs one class label a row; the targets are "
            f"{readouts[0].kind}. Pass `sample_weight`."
        )
    by_class = class_weights(labels, max(readouts[0].units, 2), class_weight)
    return [by_class if weights[0] is None else weights[0] * by_class]


def joined(parts):
    """Lists of arrays (or `None`), one a batch, as one list."""
    return [
        None if any(part is None for part in column) else np.concatenate(column)
        for column in zip(*parts, strict=True)
    ]


def ranked(array, tensor):
    """The array with a last axis of 1 where Keras lets (n,) stand for (n, 1)."""
    if array.ndim == len(tensor.shape) - 1 and tensor.shape[-1] == 1:
        return array[..., None]
    return array


def _names(model):
    try:
        return [tensor.name for tensor in model.inputs]
    except (AttributeError, ValueError, TypeError):
        return []
