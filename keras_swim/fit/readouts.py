"""What each final Dense layer is solved for: kinds of targets."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_swim.core.calibrate import (
    fold_sigmoid,
    fold_softmax,
    sigmoid_temperatures,
    softmax_temperature,
)
from keras_swim.core.targets import one_hot

REGRESSION, CLASSES, LABELS = "regression", "classes", "labels"


@dataclass(eq=False)
class ReadoutLayer:
    """A final Dense layer and what it is fitted to.

    Attributes:
        layer: The `keras.layers.Dense`.
        name: Name of the model's output.
        features: Key of its input in the graph.
        activation: `"linear"`, `"softmax"` or `"sigmoid"`: the layer's own, or
            that of the activation layer behind it.
        kind: `"regression"`, `"classes"` (one of several) or `"labels"` (yes
            or no for each output); `None` until the targets are seen.
        logits: `"classes"` or `"binary"` if a linear readout feeds a loss that
            takes logits.
        positions: Axes of its input between rows and features.
    """

    layer: Any
    name: str
    features: int
    activation: str
    kind: str | None = None
    logits: str | bool = False
    positions: tuple[int | None, ...] = ()

    @property
    def units(self) -> int:
        return self.layer.units

    @property
    def calibrated(self) -> bool:
        return self.kind != REGRESSION

    def prepare(self, y: np.ndarray, first_row: int = 0) -> np.ndarray:
        """Checks a batch of targets and brings it into its standard form.

        Integer class labels of shape `(n, ...)`, or float targets of shape
        `(n, ..., units)`.
        """
        if y.dtype.kind not in "biuf":
            raise TypeError(
                f"Expected numbers in {self._name}. Received: dtype {y.dtype}. "
                "Turn text labels into integers, for example with "
                "`numpy.unique(y, return_inverse=True)`."
            )
        if self.kind is None:
            self.kind = self.kind_of(y)
        if self.kind == CLASSES:
            labels = self._class_labels(y, first_row)
            self._check_axes(y, labels.shape[1:], labels.dtype.kind == "f")
            return labels
        if y.ndim == 1 + len(self.positions) and self.units == 1:
            y = y[..., None]
        self._check_axes(y, y.shape[1:], with_units=True)
        if self.kind == LABELS:
            self._check_range(y, first_row)
        return y.astype(np.float64)

    def _check_axes(self, y, axes, with_units):
        expected = (*self.positions, self.units) if with_units else self.positions
        if len(axes) != len(expected) or any(
            want is not None and got != want
            for got, want in zip(axes, expected, strict=True)
        ):
            raise ValueError(
                f"The readout {self.layer.name!r} gives outputs of shape (rows"
                + "".join(f", {size}" for size in (*self.positions, self.units))
                + f"), so {self._name} must have {self.units} column(s), or be "
                f"integer labels. Received: y.shape={y.shape}."
            )

    def check_whole(self, y: np.ndarray) -> None:
        """Checks that need all targets."""
        if self.kind == REGRESSION:
            return
        if self.kind == CLASSES:
            seen = y if y.dtype.kind == "i" else y.argmax(axis=-1)
        else:
            seen = y
        if np.ptp(seen) == 0:
            raise ValueError(
                f"{self._name} must hold two or more classes. Received: only "
                f"class {seen.flat[0]:g}."
            )

    def labels(self, y: np.ndarray) -> np.ndarray | None:
        """One class a row, to deal rows to folds by; None if there is none."""
        if self.kind == CLASSES and y.ndim == 1:
            return y
        if self.kind == CLASSES and y.ndim == 2 and y.dtype.kind == "f":
            return y.argmax(axis=1)
        if self.kind == LABELS and y.ndim == 2 and self.units == 1:
            return (y[:, 0] > 0.5).astype(np.int64)
        return None

    def codes(self, y: np.ndarray, positions: tuple[int, ...] = ()) -> np.ndarray:
        """What pairs are compared by.

        Args:
            y: Prepared targets.
            positions: Axes of a layer's input between rows and columns. If the
                targets have the same ones, every position has its own code.
        """
        axes = y.shape[1:] if y.dtype.kind == "i" else y.shape[1:-1]
        if positions and axes == tuple(positions):
            return y.ravel() if y.dtype.kind == "i" else y.reshape(-1, self.units)
        return y if y.ndim == 1 else y.reshape(len(y), -1).astype(np.float64)

    def targets(self, y: np.ndarray) -> np.ndarray:
        """`(n * positions, units)` least-squares targets."""
        if y.dtype.kind == "i":
            return one_hot(y.ravel(), self.units)
        return y.reshape(-1, self.units)

    def temperature(self, scores, targets, weight):
        if self.kind == CLASSES:
            return softmax_temperature(scores, targets, weight)
        return sigmoid_temperatures(scores, targets, weight)

    def calibrate(self, kernel, bias, temperature):
        """Kernel and bias with the temperature folded in."""
        fold = fold_softmax if self.kind == CLASSES else fold_sigmoid
        return fold(kernel, bias, temperature)

    @property
    def _name(self):
        return f"the targets of output {self.name!r}"

    def kind_of(self, y: np.ndarray) -> str:
        """`"regression"`, `"classes"` or `"labels"`, by activation and targets."""
        if self.activation == "softmax":
            if self.units < 2:
                raise ValueError(
                    f"The readout {self.layer.name!r} is a softmax of one "
                    "unit, which is always 1. Use two or more units, or "
                    'activation="sigmoid".'
                )
            return CLASSES
        if self.activation == "sigmoid":
            return LABELS
        if self.logits:
            return LABELS if self.logits == "binary" else CLASSES
        # Whole-number labels for several units can only be classes.
        flat = y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1)
        if self.units > 1 and flat and y.dtype.kind in "biu":
            return CLASSES
        return REGRESSION

    def _class_labels(self, y, first_row):
        if y.ndim >= 2 and y.shape[-1] == self.units and self.units > 1:
            return self._distributions(y, first_row)
        if y.ndim >= 2 and y.shape[-1] == 1:
            y = y[..., 0]
        rank = 1 if y.ndim == 1 or y.dtype.kind in "biu" else y.ndim
        if rank > 1 or not np.array_equal(y, np.round(y)):
            raise ValueError(
                f"The readout {self.layer.name!r} has {self.units} units, so "
                f"{self._name} must be integer labels or have {self.units} "
                f"columns. Received: y.shape={y.shape}, dtype {y.dtype}."
            )
        labels = y.astype(np.int64)
        if labels.size and (labels.min() < 0 or labels.max() >= self.units):
            wrong = (labels < 0) | (labels >= self.units)
            at = int(np.argwhere(wrong)[0][0])
            raise ValueError(
                f"{self._name} must be labels from 0 to {self.units - 1} (the "
                f"readout {self.layer.name!r} has {self.units} units). "
                f"Received: {labels[wrong][0]} at row {first_row + at}."
            )
        return labels

    def _distributions(self, y, first_row):
        y = y.astype(np.float64)
        wrong = (y < 0).any(axis=-1) | (np.abs(y.sum(axis=-1) - 1) > 1e-3)
        if wrong.any():
            at = first_row + int(np.argwhere(wrong)[0][0])
            raise ValueError(
                f"{self._name} must be one-hot, or probabilities that add up "
                f"to 1. Received: {y[wrong][0]} at row {at}."
            )
        return y

    def _check_range(self, y, first_row):
        wrong = (y < 0) | (y > 1)
        if wrong.any():
            at = first_row + int(np.argwhere(wrong)[0][0])
            raise ValueError(
                f"{self._name} must lie between 0 and 1 (its readout is a "
                f"sigmoid). Received: {y[wrong][0]} at row {at}."
            )
