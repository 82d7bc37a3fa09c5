"""The data: opened, checked, and fed to parts of the model."""

import itertools
from dataclasses import dataclass
from numbers import Real

import keras
import numpy as np

from keras_swim.core.folds import held_out_folds
from keras_swim.core.targets import class_weights
from keras_swim.data.sources import ArraySource, Batch, Names, as_source
from keras_swim.fit.rows import ArrayRows, Batches


@dataclass
class Dataset:
    """All that later stages need to know of the data.

    Attributes:
        rows: `ArrayRows`, `SpooledRows` or `CachedRows`: the tensors at the plan's
            cut.
        y: One array of prepared targets an output.
        raw_y: The same as the user gave them (for compiled metrics).
        weights: One array or `None` an output.
        origin: `None`, or `(count,)`: the number of the row that each was made
            from, where there are augmented copies.
    """

    rows: ArrayRows | Batches
    y: list[np.ndarray]
    raw_y: list[np.ndarray]
    weights: list[np.ndarray | None]
    origin: np.ndarray | None = None

    @property
    def count(self):
        return self.rows.count

    @property
    def origins(self):
        """Number of the row that each was made from: mostly its own."""
        return np.arange(self.count) if self.origin is None else self.origin

    def held_out(self, rng, labels, **options):
        """Folds as arrays of row numbers; copies of a row stay together.

        Args:
            rng, labels, options: See `held_out_folds`.
        """
        if self.origin is None:
            return held_out_folds(self.count, rng, labels, **options)
        _, first = np.unique(self.origin, return_index=True)
        labels = None if labels is None else labels[first]
        folds = held_out_folds(len(first), rng, labels, **options)
        return [np.flatnonzero(np.isin(self.origin, fold)) for fold in folds]

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
