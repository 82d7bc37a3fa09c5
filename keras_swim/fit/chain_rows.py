"""The rows of a model with layers behind its readouts: read, checked, announced."""

import warnings
from typing import NamedTuple

import numpy as np

from keras_swim.fit.dataset import check_inputs, joined, output_weights
from keras_swim.layers.canonical import Canonicalize
from keras_swim.layers.spectral import Modes

# Ends of a periodic function differ like neighbours; so much more is a jump.
_JUMP = 5.0
_PERIODIC = (Modes, Canonicalize)


class FunctionRows(NamedTuple):
    """Inputs, targets and weights of some rows."""

    x: list[np.ndarray]
    y: np.ndarray
    weight: np.ndarray

    def take(self, index):
        return FunctionRows(
            [one[index] for one in self.x], self.y[index], self.weight[index]
        )


def check_batch(graph, batch):
    """Raises for data that does not fit the model."""
    for name, arrays in (("x", batch.x), ("y", batch.y)):
        for array in arrays:
            if array.dtype.kind not in "biuf":
                raise TypeError(
                    f"Expected real numbers in {name}. Received: dtype {array.dtype}."
                    + (
                        " Pass real and imaginary parts as functions of their own."
                        if array.dtype.kind == "c"
                        else ""
                    )
                )
    try:
        check_inputs(graph, batch)
    except ValueError as error:
        raise ValueError(
            f"{error} A fitted operator goes to another grid with "
            "`keras_swim.build.operators.on_grid`."
        ) from error
    if len(batch.y) != 1:
        raise ValueError(
            f"The model has one output. Received: {len(batch.y)} array(s) in y."
        )
    expected = graph.tensors[graph.outputs[0]].shape[1:]
    if batch.y[0].shape[1:] != tuple(expected):
        raise ValueError(
            f"The model's outputs have shape {(None, *expected)}. Received: "
            f"y.shape={batch.y[0].shape}."
        )


def announce(graph, stages, count, progress):
    """Says what will be solved, and its memory if that is much."""
    solved = [readout for stage in stages for readout in stage.readouts]
    names = ", ".join(
        f"{readout.layer.name} ({graph.tensors[readout.step.inputs[0]].shape[-1]} "
        f"units -> {readout.layer.units})"
        for readout in solved
    )
    progress.say(f"{count} rows; solved: {names}")
    # A triangle for each readout of a stage, and copies while one is solved.
    needed = max(
        8 * (len(stage.readouts) + 2) * _size(graph, readout) ** 2
        for stage in stages
        for readout in stage.readouts
    )
    progress.say_memory(needed)


def _size(graph, readout):
    return graph.tensors[readout.step.inputs[0]].shape[-1] + readout.layer.units


def warn(graph, stages, rows):
    """Says what will work, but hardly as the user expects."""
    widths = [
        graph.tensors[readout.step.inputs[0]].shape[-1]
        for stage in stages
        for readout in stage.readouts
    ]
    if len(rows.y) < max(widths):
        warnings.warn(
            f"{len(rows.y)} functions for {max(widths)} units: the fit rests on its "
            "penalty alone. Pass more functions, or use fewer units.",
            stacklevel=4,
        )
    spectral = any(isinstance(step.operation, _PERIODIC) for step in graph.steps)
    for array in rows.x if spectral else []:
        for axis in range(1, array.ndim):
            array = array.astype(np.float64)
            jump = np.abs(np.take(array, 0, axis) - np.take(array, -1, axis)).mean()
            usual = np.abs(np.diff(array, axis=axis)).mean()
            if jump > _JUMP * usual:
                warnings.warn(
                    "The functions in x do not look periodic: their ends differ "
                    f"{jump / max(usual, 1e-300):.0f} times as much as neighbouring "
                    "points. Fourier modes and shifts are for periodic "
                    "functions, without the last point of the period. The architecture "
                    '"signal" without symmetries takes any.',
                    stacklevel=4,
                )
                return


def read_functions(graph, reader, options, progress=None):
    """All rows of some data, checked, as `FunctionRows`."""
    parts = []
    for batch in reader.batches(options.block_rows):
        check_batch(graph, batch)
        for name, arrays in (("x", batch.x), ("y", batch.y)):
            if not all(np.isfinite(array).all() for array in arrays):
                raise ValueError(
                    f"Expected finite numbers in {name}. Received: NaN or infinity. "
                    "Remove these rows."
                )
        (weight,) = output_weights(batch, [None])
        weight = np.ones(batch.rows) if weight is None else weight
        parts.append([*batch.x, batch.y[0], weight.astype(np.float64)])
        if progress is not None:
            progress.advance(batch.rows)
    *x, y, weight = joined(parts)
    return FunctionRows(x, y.astype(np.float64), weight)
