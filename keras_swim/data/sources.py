"""Any input -> batches of NumPy arrays.

`as_source` takes what `keras.Model.fit` takes (arrays, tensors, data frames,
lists and dicts of them, `tf.data.Dataset`, `keras.utils.PyDataset`, a torch
`DataLoader`, a generator) and a function that returns a fresh iterator. The
result yields `Batch`es whose arrays were checked: equal lengths, finite
numbers, weights that are not negative.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np


class Batch(NamedTuple):
    """Flat lists of arrays with the same number of rows.

    Attributes:
        x: Inputs.
        y: Targets; empty if there are none.
        weight: Sample weights: empty, one for all outputs, or one an output.
    """

    x: list[np.ndarray]
    y: list[np.ndarray]
    weight: list[np.ndarray]

    @property
    def rows(self) -> int:
        return len(self.x[0])


class Names(NamedTuple):
    """Names of a model's inputs and outputs, for data given as dicts."""

    inputs: list[str] | None = None
    outputs: list[str] | None = None


class ArraySource:
    """Arrays in memory: any row, any number of times."""

    def __init__(self, batch: Batch):
        self.data = batch
        self.rows = batch.rows
        for start in range(0, self.rows, 4096):
            check_values(_slice(batch, slice(start, start + 4096)), start)

    def batches(self, batch_size: int) -> Iterator[Batch]:
        for start in range(0, self.rows, batch_size):
            yield _slice(self.data, slice(start, start + batch_size))


class StreamSource:
    """Batches as they come, once per call of `batches`."""

    rows = None

    def __init__(self, start: Callable, names: Names, once: bool):
        self._start, self._names, self._once = start, names, once
        self._used = False

    def batches(self, batch_size: int | None = None) -> Iterator[Batch]:
        """Yields checked batches; `batch_size` is the stream's own affair."""
        if self._once and self._used:
            raise ValueError(
                "The generator has been read already, and a generator can be "
                "read only once. Pass a function that returns a new one "
                "(`lambda: make_batches()`), arrays, a `tf.data.Dataset` or a "
                "`keras.utils.PyDataset`."
            )
        self._used = True
        seen = 0
        first: tuple[int, ...] = ()
        for element in self._start():
            x, y, weight = keras.utils.unpack_x_y_sample_weight(element)
            batch = _flatten(x, y, weight, self._names)
            parts = tuple(map(len, batch))
            if seen and parts != first:
                raise ValueError(
                    "All batches must have the same parts. Received: "
                    f"{first} arrays in x, y and sample_weight at first, "
                    f"{parts} after row {seen}."
                )
            first = parts
            check_values(batch, seen)
            seen += batch.rows
            if batch.rows:
                yield batch
        if not seen:
            raise ValueError(
                "Expected at least one batch of data. Received: an empty "
                "stream. Check the files or the generator behind it."
            )


def as_source(x, y=None, sample_weight=None, names=None):
    """Returns an `ArraySource` or a `StreamSource`.

    Args:
        x: See the module's docstring.
        y: Targets, only with arrays: a stream yields `(x, y)` or
            `(x, y, sample_weight)`.
        sample_weight: Likewise.
        names: `Names` of a model, to sort dicts by.
    """
    names = names or Names()
    start, once = _stream(x)
    if start is None:
        batch = _flatten(x, y, sample_weight, names)
        if not batch.rows:
            raise ValueError("Expected one or more rows. Received: an empty array.")
        return ArraySource(batch)
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(
                f"`{name}` must not be given beside a data set: let the data "
                f"set yield (x, y) or (x, y, sample_weight). Received: "
                f"x of type {type(x).__name__} and {name} of type "
                f"{type(value).__name__}."
            )
    return StreamSource(start, names, once)


def check_values(batch: Batch, first_row: int = 0) -> None:
    """Raises where a number is not finite or a weight is negative."""
    for what, arrays in (
        ("x", batch.x),
        ("y", batch.y),
        ("sample_weight", batch.weight),
    ):
        for index, array in enumerate(arrays):
            name = what if len(arrays) == 1 else f"{what}[{index}]"
            _check_finite(name, array, first_row)
    for array in batch.weight:
        if array.size and array.min() < 0:
            at = first_row + int(np.argmin(array))
            raise ValueError(
                "`sample_weight` must not be negative. Received: "
                f"{array.min()} at row {at}."
            )


def _check_finite(name, array, first_row):
    if array.dtype.kind not in "fcV":
        return
    values = array if array.dtype.kind != "V" else array.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        # One sum tells for all: NaN and infinity stay in it.
        if np.isfinite(values.sum()):
            return
    bad = np.argwhere(~np.isfinite(values))
    if not len(bad):
        return
    at = bad[0]
    where = f"row {first_row + int(at[0])}"
    if len(at) > 1:
        where += f", position {tuple(int(i) for i in at[1:])}"
    raise ValueError(
        f"`{name}` must hold finite numbers. Received: "
        f"{values[tuple(at)]} at {where} ({len(bad)} such value(s) in this "
        "batch). Remove or fill in these rows first."
    )


def _stream(x):
    """A function that starts the stream and whether it starts only once."""
    if isinstance(x, keras.utils.PyDataset):

        def batches():
            for index in range(_finite_length(x)):
                yield x[index]
            x.on_epoch_end()

        return batches, False
    if hasattr(x, "element_spec") and hasattr(x, "cardinality"):
        if int(x.cardinality()) == -1:  # tf.data.INFINITE_CARDINALITY
            raise ValueError(
                "The `tf.data.Dataset` repeats for ever. Remove `.repeat()`, "
                "or end it with `.take(batches)`: a fit is one pass."
            )
        return lambda: iter(x), False
    if _is_data_loader(x):
        return lambda: iter(x), False
    if isinstance(x, Iterator):
        return lambda: x, True
    if callable(x) and not hasattr(x, "shape"):
        return lambda: iter(x()), False
    return None, False


def _finite_length(data):
    length = data.num_batches
    if length is None:
        raise ValueError("The `PyDataset` must have a length: `num_batches` is None.")
    return length


def _is_data_loader(x):
    return any(
        base.__module__.startswith("torch.utils.data") and base.__name__ == "DataLoader"
        for base in type(x).__mro__
    )


def _flatten(x, y, weight, names):
    if x is None:
        raise ValueError("Expected data, received: x=None.")
    xs = [_array(part) for part in _parts(x, names.inputs)]
    ys = []
    if y is not None:
        ys = [_array(part, text=True) for part in _parts(y, names.outputs)]
    weights = []
    if weight is not None:
        weights = [_array(part) for part in _parts(weight, names.outputs)]
        weights = [np.asarray(part, dtype=np.float64) for part in weights]
    lengths = {}
    for what, arrays in (("x", xs), ("y", ys), ("sample_weight", weights)):
        for array in arrays:
            if array.ndim == 0:
                raise ValueError(
                    f"`{what}` must have rows: an array of one or more "
                    "dimensions. Batches of a data set have them too: call "
                    f"`.batch(n)`. Received: {what}={array!r}"
                )
            lengths.setdefault(len(array), what)
    if len(lengths) > 1:
        received = ", ".join(f"{rows} in {what}" for rows, what in lengths.items())
        raise ValueError(
            f"All arrays must have the same number of rows. Received: {received}."
        )
    for array in weights:
        if array.ndim != 1:
            raise ValueError(
                "`sample_weight` must have one weight a row. Received: "
                f"sample_weight.shape={array.shape}"
            )
    return Batch(xs, ys, weights)


def _parts(data, names):
    if isinstance(data, dict):
        if names and set(names) == set(data):
            return [data[name] for name in names]
        missing = [name for name in names or () if name not in data]
        if missing and set(data) < set(names):
            raise ValueError(
                f"The data has no entry for {missing}. Received: keys {sorted(data)}."
            )
        if names and not len(names) == len(data) == 1:
            raise ValueError(
                f"Expected a dict with the keys {names}. Received: keys "
                f"{sorted(map(str, data))}."
            )
        return [data[key] for key in sorted(data)]
    if isinstance(data, (list, tuple)):
        if data and not any(len(getattr(part, "shape", ())) for part in data):
            # A plain list of numbers or of rows is one array.
            return [np.asarray(data)]
        return list(data)
    return [data]


def _array(data: Any, text: bool = False) -> np.ndarray:
    if isinstance(data, np.ndarray):
        array = data
    elif hasattr(data, "to_numpy"):  # pandas, polars
        array = _frame_array(data)
    elif keras.ops.is_tensor(data) or not hasattr(data, "__array__"):
        array = np.asarray(keras.ops.convert_to_numpy(data))
    else:
        array = np.asarray(data)
    if array.dtype.kind == "O" and array.size and isinstance(array.flat[0], str):
        array = array.astype(str)
    if array.dtype.kind in "SU":
        if text:
            return array
        raise TypeError(
            "Expected numbers, received text. Turn categories into integers or "
            "one-hot columns first."
        )
    if array.dtype.kind not in "biufcV":
        raise TypeError(
            "Expected numbers, received an array of Python objects (dtype "
            f"{array.dtype}). Convert it to a numeric dtype first."
        )
    if array.dtype.kind == "c":
        raise TypeError(
            "Expected real numbers, received complex ones. Pass real and "
            "imaginary parts as separate columns."
        )
    return array


def _frame_array(data):
    array = data.to_numpy()
    if array.dtype.kind != "O" or not hasattr(data, "columns"):
        return array
    # Columns of several kinds, booleans and nullable numbers among them.
    try:
        return data.to_numpy(dtype="float64")
    except (TypeError, ValueError):
        kinds = {str(name): str(kind) for name, kind in dict(data.dtypes).items()}
        raise TypeError(
            f"Expected a data frame of numbers. Received: columns {kinds}. "
            "Encode or drop the others first."
        ) from None


def _slice(batch, part):
    return Batch(*([array[part] for array in arrays] for arrays in batch))
