"""The readout's state: everything that a linear readout needs to know.

A pass over the data keeps only sums over rows: of weights, features, targets
and their products. Sums add, so batches, shards and folds merge exactly, in
any order. While there are fewer rows than units the rows themselves are the
smaller description, and the state keeps those instead.

Shapes: n rows, k units, c outputs.
"""

import numpy as np

from keras_swim.core.moments import Rows, Sums
from keras_swim.core.solvers import solve
from keras_swim.core.state_file import read_arrays, write_arrays

FORMAT = "keras-swim readout state"


class ReadoutState:
    """Weighted sums over rows, or the rows while they are fewer than units.

    Args:
        units: Number of features k.
        outputs: Number of outputs c.
        form: `"auto"` keeps rows until there are more rows than units, then
            sums. `"rows"` always keeps rows (singular values need them),
            `"sums"` never does.
        dtype: `"float64"`, or `"float32"`: each block is multiplied in
            float32 and added in float64. About twice as fast, relative error
            about 1e-6: enough for `l2` of 1e-5 and more.
        offsets: `None`, or rough means of the features `(k,)` and the targets
            `(c,)`, which sums are then taken relative to. States with the same
            offsets merge faster.

    Attributes:
        count: Number of rows of positive weight.
        l2: The relative penalty that a model's readout was last solved with,
            or `None`.
        temperature: The factor(s) that its scores were calibrated with, or
            `None`.
        class_weighted: Whether the rows of a fit were weighted by their class.
            All three are saved, so that `swim_update` and `swim_forget` can go on.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> features, targets = rng.normal(size=(100, 5)), rng.normal(size=(100, 2))
    >>> whole = ReadoutState(5, 2).update(features, targets)
    >>> first = ReadoutState(5, 2).update(features[:30], targets[:30])
    >>> rest = ReadoutState(5, 2).update(features[30:], targets[30:])
    >>> merged = first.merge(rest).solve(l2=1e-3)
    >>> bool(np.allclose(merged.kernel, whole.solve(l2=1e-3).kernel))
    True
    """

    def __init__(self, units, outputs, form="auto", dtype="float64", offsets=None):
        if form not in ("auto", "rows", "sums"):
            raise ValueError(
                f'`form` must be "auto", "rows" or "sums". Received: form={form!r}'
            )
        if dtype not in ("float64", "float32"):
            raise ValueError(
                f'`dtype` must be "float64" or "float32". Received: dtype={dtype!r}'
            )
        self.units, self.outputs = int(units), int(outputs)
        self.form, self.dtype = form, dtype
        self.count = 0
        self.l2: float | None = None
        self.temperature: np.ndarray | None = None
        self.class_weighted = False
        self._rows: list[Rows] = []
        self._sums: Sums | None = None
        self._offsets = offsets
        if form == "sums":
            self._sums = Sums(self.units, self.outputs, offsets)

    @property
    def keeps_rows(self):
        """Whether the state holds rows rather than sums."""
        return self._sums is None

    @property
    def offsets(self):
        """What the sums are relative to, or `None` if nothing was summed yet."""
        return self._offsets if self._sums is None else self._sums.offsets

    def update(self, features, targets, sample_weight=None):
        """Adds a batch of rows; those of weight 0 do not count.

        Returns:
            The state.
        """
        features = np.asarray(features)
        targets = np.asarray(targets, dtype=np.float64)
        self._check(features, targets, sample_weight)
        weight = _weights(features, sample_weight)
        self.count += int(np.count_nonzero(weight))
        if self._sums is not None:
            self._sums.add_rows(Rows(features, targets, weight), self.dtype)
            return self
        # Copies, no views: batches are often slices of one buffer.
        self._rows.append(Rows(features.copy(), targets.copy(), weight.copy()))
        if self.form == "auto" and self.count > self.units:
            self._to_sums()
        return self

    def merge(self, other):
        """Adds the rows of another state. Returns the state."""
        self._check_other(other, "merge")
        if other.keeps_rows:
            if other.count:
                self.update(*other.rows())
            return self
        if self._sums is None:
            if self.form == "rows":
                raise ValueError(
                    'A state of form "rows" cannot take in sums: the rows '
                    "behind them are gone. Merge the other way round."
                )
            self._to_sums()
        assert self._sums is not None
        self._sums.add_sums(other._sums)
        self.count += other.count
        return self

    def subtract(self, other):
        """Takes out the rows of another state: undoes `merge`.

        Returns:
            The state.
        """
        self._check_other(other, "subtract")
        if other.keeps_rows:
            return self.remove(*other.rows()) if other.count else self
        if self._sums is None:
            raise ValueError(
                "The state keeps rows, and of the other one only sums are left. "
                "Use `remove()` with the rows."
            )
        self._sums.add_sums(other._sums, sign=-1)
        self.count -= other.count
        return self

    def copy(self):
        """A state of the same rows."""
        return ReadoutState.from_arrays(self.to_arrays())

    def add_sums(self, count, offsets, sums):
        """Adds sums made elsewhere, for example on an accelerator.

        Args:
            count: Number of rows behind the sums.
            offsets: Feature and target offset that the sums are relative to.
            sums: Dict with `w`, `f`, `y`, `ff`, `fy`, `yy`.
        """
        other = ReadoutState(self.units, self.outputs, form="sums")
        other._sums = Sums.from_parts(offsets, sums)
        other.count = count
        return self.merge(other)

    def remove(self, features, targets, sample_weight=None):
        """Takes rows out again that were added before. Returns the state.

        From sums they are subtracted; a state that keeps rows must hold them, up
        to rounding.
        """
        features = np.asarray(features)
        targets = np.asarray(targets, dtype=np.float64)
        self._check(features, targets, sample_weight)
        weight = _weights(features, sample_weight)
        if self._sums is not None:
            self._sums.subtract_rows(Rows(features, targets, weight), self.dtype)
            self.count -= int(np.count_nonzero(weight))
            return self
        kept = self.rows()
        left = np.ones(len(kept.weight), dtype=bool)
        for row in zip(features, targets, weight, strict=True):
            if row[2] > 0:
                left[_place(kept, left, *row)] = False
        self._rows = [Rows(*(part[left] for part in kept))]
        self.count = int(np.count_nonzero(self._rows[0].weight))
        return self

    def add_classes(self, count=1):
        """Adds outputs, 0 for all rows so far: new classes. Returns the state.

        Old rows are none of the new classes, so nothing has to be read again.
        """
        if count < 1:
            raise ValueError(f"`count` must be 1 or more. Received: count={count!r}")
        self.outputs += count
        if self._offsets is not None:
            self._offsets = self._offsets[0], np.pad(self._offsets[1], (0, count))
        self._rows = [
            rows._replace(targets=np.pad(rows.targets, ((0, 0), (0, count))))
            for rows in self._rows
        ]
        if self._sums is not None:
            self._sums.add_outputs(count)
        return self

    def keep_units(self, keep):
        """A new state over some of the units.

        Args:
            keep: `(units,)` boolean mask.
        """
        keep = np.asarray(keep, dtype=bool)
        if keep.shape != (self.units,) or not keep.any():
            raise ValueError(
                f"`keep` must be a mask of {self.units} units, some of them "
                f"True. Received: shape {keep.shape}, {int(keep.sum())} True."
            )
        smaller = ReadoutState(int(keep.sum()), self.outputs, self.form, self.dtype)
        smaller.count = self.count
        smaller.l2, smaller.temperature = self.l2, self.temperature
        smaller.class_weighted = self.class_weighted
        if self._sums is not None:
            smaller._sums = self._sums.keep_units(keep)
            return smaller
        smaller._rows = [
            rows._replace(features=rows.features[:, keep]) for rows in self._rows
        ]
        if smaller.form == "auto" and smaller.count > smaller.units:
            smaller._to_sums()
        return smaller

    def solve(self, l2=None, solver="auto"):
        """Solves the readout of the rows so far.

        Args:
            l2: Relative penalty. `None` takes that of the last solution.
            solver: See `keras_swim.core.solvers.solve`.

        Returns:
            A `Readout`: `scores = features @ readout.kernel + readout.bias`.
        """
        if l2 is None and self.l2 is None:
            raise ValueError(
                "This state has not been solved before, so it has no penalty "
                "of its own. Pass `l2`, for example 1e-3."
            )
        return solve(self, self.l2 if l2 is None else l2, solver)

    def save(self, path):
        """Writes the state to a file: plain arrays, atomically."""
        write_arrays(path, FORMAT, self.to_arrays())

    @classmethod
    def load(cls, path):
        """Reads a state that `save` has written."""
        return cls.from_arrays(read_arrays(path, FORMAT))

    def to_arrays(self):
        """Everything as a dict of arrays; `from_arrays` takes it back."""
        arrays = {
            "units": self.units,
            "outputs": self.outputs,
            "form": self.form,
            "dtype": self.dtype,
            "count": self.count,
            "class_weighted": self.class_weighted,
        }
        for name in ("l2", "temperature"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        if self._sums is not None:
            arrays.update(self._sums.parts())
        elif self.count:
            arrays.update(zip(Rows._fields, self.rows(), strict=True))
        return arrays

    @classmethod
    def from_arrays(cls, arrays):
        """The state of a dict that `to_arrays` has made."""
        state = cls(
            int(arrays["units"]),
            int(arrays["outputs"]),
            str(arrays["form"]),
            str(arrays["dtype"]),
        )
        state.count = int(arrays["count"])
        if "l2" in arrays:
            state.l2 = float(arrays["l2"])
        state.temperature = arrays.get("temperature")
        state.class_weighted = bool(arrays.get("class_weighted", False))
        if "ff" in arrays:
            offsets = None
            if "feature_offset" in arrays:
                offsets = arrays["feature_offset"], arrays["target_offset"]
            state._sums = Sums.from_parts(offsets, arrays)
        elif "features" in arrays:
            state._rows = [Rows(*(arrays[name] for name in Rows._fields))]
        return state

    def rows(self):
        """All rows of a state that keeps rows, as one `Rows`."""
        if self._sums is not None:
            raise ValueError(
                'Only sums are left of the rows. Use `form="rows"` to keep them.'
            )
        if len(self._rows) > 1:
            self._rows = [
                Rows(
                    *(np.concatenate(parts) for parts in zip(*self._rows, strict=True))
                )
            ]
        if not self._rows:
            return Rows(
                np.zeros((0, self.units)), np.zeros((0, self.outputs)), np.zeros(0)
            )
        return self._rows[0]

    def system(self, keep=None):
        """The centred normal equations, of all units or of those in `keep`."""
        if self._sums is None and keep is not None:
            # Products of the other units need not be computed at all.
            return self._as_sums(keep).system(None)
        return self._as_sums().system(keep)

    def mean_square(self):
        """What `l2` is relative to: the mean square of the centred features."""
        return self._as_sums().mean_square()

    def _as_sums(self, keep=None):
        if self._sums is not None:
            return self._sums
        units = self.units if keep is None else len(np.arange(self.units)[keep])
        sums = Sums(units, self.outputs)
        for rows in self._rows:
            if keep is not None:
                rows = rows._replace(features=rows.features[:, keep])
            sums.add_rows(rows, self.dtype)
        return sums

    def _to_sums(self):
        self._sums = Sums(self.units, self.outputs, self._offsets)
        for rows in self._rows:
            self._sums.add_rows(rows, self.dtype)
        self._rows = []

    def _check_other(self, other, what):
        if (other.units, other.outputs) != (self.units, self.outputs):
            raise ValueError(
                f"`{what}()` takes a state over the same features and outputs. "
                f"Received: {self.units} units and {self.outputs} outputs "
                f"here, {other.units} and {other.outputs} in `other`. Build "
                "both states with the same layers."
            )

    def _check(self, features, targets, sample_weight):
        if features.ndim != 2 or features.shape[1] != self.units:
            raise ValueError(
                f"`features` must have shape (rows, {self.units}). "
                f"Received: features.shape={features.shape}"
            )
        if targets.shape != (len(features), self.outputs):
            raise ValueError(
                f"`targets` must have shape ({len(features)}, {self.outputs}). "
                f"Received: targets.shape={targets.shape}"
            )
        if sample_weight is not None and np.shape(sample_weight) != (len(features),):
            raise ValueError(
                f"`sample_weight` must have shape ({len(features)},). "
                f"Received: sample_weight.shape={np.shape(sample_weight)}"
            )
        if sample_weight is not None and not np.min(sample_weight, initial=0) >= 0:
            raise ValueError("`sample_weight` must hold numbers that are 0 or more.")


def _weights(features, sample_weight):
    if sample_weight is None:
        return np.ones(len(features))
    return np.asarray(sample_weight, dtype=np.float64)


def _place(rows, left, features, targets, weight):
    """Number of a row among those that are left."""
    same = left & (rows.weight == weight) & (rows.targets == targets).all(axis=1)
    candidates = np.flatnonzero(same)
    gaps = np.abs(rows.features[candidates] - features).max(axis=1, initial=0.0)
    # Features computed again, in another batch, differ in their last digits.
    limit = 1e-5 * max(np.abs(features).max(initial=0.0), 1e-30)
    if not len(gaps) or gaps.min() > limit:
        raise ValueError(
            "`remove()` takes out rows that were added before. Received a row that "
            "the state does not hold; nothing was removed."
        )
    return candidates[np.argmin(gaps)]
