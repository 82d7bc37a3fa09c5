"""Adding up features, on the host or on the accelerator.

`HostSums` and `DeviceSums` keep one state for every held-out fold and one for all
other rows, and the features of the held-out rows, so that these can be scored. On
an accelerator the features never leave it: only the sums do, and the scores of
held-out rows. `TriangleSums` is for fits that neither hold out rows nor keep a state.
"""

import contextlib

import keras
import numpy as np

from keras_swim.core.readout import ReadoutState
from keras_swim.core.solvers import solve, solve_triangle
from keras_swim.core.triangle import Triangle
from keras_swim.fit.segment import as_array

# Up to this width a few more square matrices are no burden.
_FEW_UNITS = 2048
# Share of rows to which it is better to copy them than to multiply all.
_FEW_ROWS = 0.75


class _Sums:
    """What can be made one state of all rows, and solved from that."""

    def whole_state(self):
        """State of all rows. No fold can be asked for afterwards."""
        raise NotImplementedError

    def solved(self, l2, solver, blocks):
        """The `Readout` of all rows, and their state (`None` if there is none).

        Args:
            l2, solver, blocks: See `keras_swim.core.solvers.solve`.
        """
        state = self.whole_state()
        return solve(state, l2, solver, blocks), state


class HostSums(_Sums):
    """Sums in NumPy.

    Args:
        units, outputs: Shape of the readout.
        folds: Number of held-out folds.
        form: See `ReadoutState`.
        dtype: See `ReadoutState`.
    """

    def __init__(self, units, outputs, folds=0, form="auto", dtype="float64"):
        self.rest = ReadoutState(units, outputs, form, dtype)
        # Held-out rows are scored later, so they are kept.
        self.folds = [ReadoutState(units, outputs, "rows", dtype) for _ in range(folds)]
        self._summed: dict[int, ReadoutState] = {}

    def update(self, features, targets, weight, group):
        """Adds rows.

        Args:
            features: Tensor of shape `(n, ..., units)`.
            targets: `(n, outputs)`.
            weight: `(n,)`.
            group: `(n,)`: the fold that each row is held out with, or -1.
        """
        features = _flat(features)
        for fold, state in enumerate(self.folds):
            here = np.flatnonzero(group == fold)
            if len(here):
                state.update(features[here], targets[here], weight[here])
        here = np.flatnonzero(group < 0)
        if self.rest.keeps_rows or len(here) < _FEW_ROWS * len(group):
            self.rest.update(features[here], targets[here], weight[here])
        else:
            # Few held-out rows get weight 0: cheaper than copying the others.
            self.rest.update(features, targets, np.where(group < 0, weight, 0.0))

    @property
    def states(self):
        """Everything that was added up, for a file."""
        return [self.rest, *self.folds]

    @states.setter
    def states(self, states):
        self.rest, *self.folds = states

    def scorer(self, fold):
        """Function from kernel and bias to the scores of a fold's rows."""
        features = self.folds[fold].rows().features
        # In the dtype of the features, as the model will compute them.
        return lambda kernel, bias: features @ kernel.astype(features.dtype) + bias

    def held_out(self, fold):
        """Targets and weights of a fold's rows."""
        rows = self.folds[fold].rows()
        return rows.targets, rows.weight

    def state_without(self, fold):
        """State of all rows but those of one fold."""
        others = [self._fold(number) for number in range(len(self.folds))]
        del others[fold]
        if not others:
            return self.rest
        rest = self.rest
        merged = ReadoutState(rest.units, rest.outputs, rest.form, rest.dtype)
        for state in [rest, *others]:
            merged.merge(state)
        return merged

    def whole_state(self):
        for number in range(len(self.folds)):
            self.rest.merge(self._fold(number))
        return self.rest

    def _fold(self, number):
        """What is added for a fold: its sums, computed once, where these are small."""
        state = self.folds[number]
        if not self._sums_are_small():
            return state
        if number not in self._summed:
            # Sums relative to the same offsets are added faster.
            others = [self.rest, *self._summed.values()]
            offsets = next((one.offsets for one in others if one.offsets), None)
            summed = ReadoutState(
                state.units, state.outputs, "sums", state.dtype, offsets
            )
            self._summed[number] = summed.merge(state)
        return self._summed[number]

    def _sums_are_small(self):
        counts = [state.count for state in self.folds]
        fewest = self.rest.count + sum(counts) - max(counts)
        units = self.rest.units
        return (
            self.rest.form != "rows"
            and len(counts) > 1
            and units <= min(fewest - 1, _FEW_UNITS)
        )


class DeviceSums(_Sums):
    """Sums in tensors of the backend, wherever these live."""

    # They stay on the device until the end.
    states = None

    def __init__(self, units, outputs, folds=0, dtype="float64"):
        self.units, self.outputs, self.dtype = units, outputs, dtype
        self._rest = _DeviceState(units, outputs, dtype)
        self._folds = [_DeviceState(units, outputs, dtype) for _ in range(folds)]
        self._kept = [[] for _ in range(folds)]
        self._targets = [[] for _ in range(folds)]

    def update(self, features, targets, weight, group):
        features = keras.ops.reshape(features, (-1, self.units))
        for fold, state in enumerate([*self._folds, self._rest]):
            held = fold < len(self._folds)
            here = np.flatnonzero(group == (fold if held else -1))
            if not len(here):
                continue
            part = features
            if len(here) < len(group):
                part = keras.ops.take(features, here.astype("int32"), axis=0)
            state.add(part, targets[here], weight[here])
            if held:
                self._kept[fold].append(part)
                self._targets[fold].append((targets[here], weight[here]))

    def scorer(self, fold):
        features = self._kept[fold]

        def scores(kernel, bias):
            kernel = keras.ops.convert_to_tensor(kernel, dtype=features[0].dtype)
            return bias + np.concatenate(
                [as_array(keras.ops.matmul(part, kernel)) for part in features]
            )

        return scores

    def held_out(self, fold):
        targets, weights = zip(*self._targets[fold], strict=True)
        return np.concatenate(targets), np.concatenate(weights)

    def state_without(self, fold):
        others = [state for number, state in enumerate(self._folds) if number != fold]
        return self._merged([self._rest, *others])

    def whole_state(self):
        return self._merged([self._rest, *self._folds])

    def _merged(self, states):
        merged = ReadoutState(self.units, self.outputs, "sums", self.dtype)
        for state in states:
            state.add_to(merged)
        return merged


class TriangleSums:
    """No sums: rows are folded into the triangle that `"qr"` and `"svd"` need.

    So they are read once, and no Gram matrix is made of them.
    """

    # A triangle is not for a file.
    states = None

    def __init__(self, units, outputs):
        self.triangle = Triangle(units, outputs)

    def update(self, features, targets, weight, group):
        features = _flat(features)
        self.triangle.update(features, targets, weight)

    def solved(self, l2, solver, blocks):
        return solve_triangle(self.triangle, l2, solver), None


def _flat(features):
    """Array of one row a position."""
    features = as_array(features)
    return features.reshape(-1, features.shape[-1])


class _DeviceState:
    def __init__(self, units, outputs, dtype):
        self.dtype = dtype
        self.count = 0
        self.offsets = None
        self.sums = None

    def add(self, features, targets, weight):
        # Products with `@`: `keras.ops.matmul` computes in float32 on torch
        # and JAX whatever it is given.
        ops = keras.ops
        with double_precision():
            features = ops.cast(features, self.dtype)
            root = ops.convert_to_tensor(np.sqrt(weight)[:, None], dtype=self.dtype)
            if self.offsets is None:
                share = np.full((1, len(weight)), 1 / len(weight))
                share = ops.convert_to_tensor(share, dtype=self.dtype)
                self._offset = share @ features
                self.offsets = as_array(self._offset)[0], targets.mean(axis=0)
            y = ops.convert_to_tensor(targets - self.offsets[1], dtype=self.dtype)
            f, y = (features - self._offset) * root, y * root
            ft, yt = ops.transpose(f), ops.transpose(y)
            new = {
                "w": ops.transpose(root) @ root,
                "f": ft @ root,
                "y": yt @ root,
                "ff": ft @ f,
                "fy": ft @ y,
                "yy": yt @ y,
            }
            new = {name: ops.cast(value, "float64") for name, value in new.items()}
            if self.sums is not None:
                new = {name: self.sums[name] + value for name, value in new.items()}
            self.sums = new
            self.count += len(weight)

    def add_to(self, state):
        """Brings the sums to the host: the only thing that leaves the device."""
        if self.sums is None:
            return
        sums = {name: as_array(value) for name, value in self.sums.items()}
        sums.update(w=sums["w"].item(), f=sums["f"][:, 0], y=sums["y"][:, 0])
        state.add_sums(self.count, self.offsets, sums)


def double_precision():
    """JAX computes in float32 unless asked otherwise."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.enable_x64(True)
    return contextlib.nullcontext()


def has_accelerator():
    """Whether the backend computes on something other than the CPU."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return bool(
            tf.config.list_logical_devices("GPU")
            or tf.config.list_logical_devices("TPU")
        )
    if backend == "jax":
        import jax

        return jax.default_backend() != "cpu"
    if backend == "torch":
        import torch

        tensor = keras.ops.convert_to_tensor(np.zeros(1, "float32"))
        return isinstance(tensor, torch.Tensor) and tensor.device.type != "cpu"
    return False
