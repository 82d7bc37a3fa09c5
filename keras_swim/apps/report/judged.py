"""Rows with their targets and what a model makes of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from keras_swim.fit.dataset import check_inputs, forward, open_reader, prepare_targets
from keras_swim.fit.plan import make_plan
from keras_swim.fit.readouts import CLASSES, LABELS
from keras_swim.fit.segment import Segment

# Numbers that go through the model at a time: a few images, or many features.
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Judged:
    """Rows of one part of the data.

    Attributes:
        part: `"train"` or `"validation"`.
        targets: `(n,)` integer classes, or `(n, c)` real targets.
        outputs: `(n, c)` probabilities, or predicted values.
        names: `None`, or a name for each row.
        thumbnail: `None`, or a function of part and row: JPEG bytes or `None`.
        cells: `None`, or a function of the row: dict from names of columns of a table
            to what is in them.
    """

    part: str
    targets: np.ndarray
    outputs: np.ndarray
    names: Sequence | None = None
    thumbnail: Callable | None = None
    cells: Callable | None = None

    @property
    def is_classes(self) -> bool:
        return self.targets.dtype.kind == "i"

    @property
    def predicted(self) -> np.ndarray:
        """The class that is thought likeliest, of each row."""
        return self.outputs.argmax(axis=1)

    @property
    def own(self) -> np.ndarray:
        """The probability of each row's own class."""
        return self.outputs[np.arange(len(self.targets)), self.targets]

    def name(self, row) -> str:
        return f"row {row}" if self.names is None else str(self.names[row])

    def image(self, row) -> bytes | None:
        if self.thumbnail is None:
            return None
        return self.thumbnail(self.part, int(row))

    def looks(self, row) -> dict:
        """What there is to be seen of a row: its picture, or its cells."""
        found: dict = {"image": self.image(row)}
        if self.cells is not None:
            found["cells"] = self.cells(int(row))
        return found


def judge(model, x, y, part="train", names=None, thumbnail=None):
    """Runs a model on rows with known targets.

    Args:
        model: Keras model with one output: softmax, one sigmoid unit, or linear.
        x, y: Arrays, as `swim_fit` takes them.
        part, names, thumbnail: See `Judged`.

    Example:

    >>> x, y = np.arange(8.0)[:, None], np.arange(8) // 4
    >>> model = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
    >>> judge(model, x, y).outputs.shape  # One probability for each class.
    (8, 2)
    """
    reader = open_reader(model, x, y)
    if not reader.in_memory or not reader.first.y:
        raise ValueError(
            "A report needs arrays of inputs and of targets. Received: x of type "
            f"{type(x).__name__} and y of type {type(y).__name__}. Collect the rows "
            "of a data set first."
        )
    if names is not None and len(names) != reader.first.rows:
        raise ValueError(
            f"There must be one name for each row of the {part} data, "
            f"{reader.first.rows}. Received: {len(names)} names."
        )
    plan = make_plan(model, reader.specs(), readouts_only=True)
    check_inputs(plan.graph, reader.first)
    prepared = prepare_targets(plan.readouts, reader.first)
    readout = plan.readouts[0]
    several = readout.kind == LABELS and readout.units > 1
    if len(plan.readouts) > 1 or readout.positions or several:
        raise ValueError(
            "A report is for models with one output and, for classes, one label a "
            f"row. Received: {len(plan.readouts)} output(s), the first of them with "
            f"{readout.units} units of kind {readout.kind!r}. Report on a model that "
            "has a single output."
        )
    graph = plan.graph
    segment = Segment(graph.steps, graph.inputs, graph.outputs)
    size = sum(array[0].size for array in reader.first.x)
    (outputs,) = forward(
        segment, graph, graph.inputs, reader.first.x, max(_BLOCK // size, 8)
    )
    outputs = outputs.astype(np.float64)
    targets = readout.labels(prepared[0])
    if readout.kind == CLASSES and readout.activation == "linear":
        outputs = softmax(outputs, axis=1)
    elif readout.kind == LABELS:
        yes = expit(outputs) if readout.activation == "linear" else outputs
        outputs = np.concatenate([1 - yes, yes], axis=1)
    elif targets is None:
        targets = prepared[0]
    return Judged(part, targets, outputs, names, thumbnail)
