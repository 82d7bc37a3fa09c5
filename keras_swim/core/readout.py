"""The readout's state: everything that a linear readout needs to know.

A pass over the data keeps only sums over rows: of weights, features, targets
and their products. Sums add, so batches, shards and folds merge exactly, in
any order. While there are fewer rows than units the rows themselves are the
smaller description, and the state keeps those instead.

Sums are taken relative to an offset (the first batch's means): features whose
mean is far larger than their spread would otherwise cancel away.

Shapes: n rows, k units, c outputs.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas

# Elements of a block while summing: bounds the float64 copy.
_BLOCK_ELEMENTS = 1 << 21


# Rows that are summed up in float32 before they are added in float64.
_SINGLE_ROWS = 8192


class System(NamedTuple):
    """Centred normal equations: what is left when the bias is solved for.

    Attributes:
        gram: `(k, k)`, sum of w (f - mean)(f - mean)'.
        cross: `(k, c)`, sum of w (f - mean)(y - mean)'.
        feature_mean, target_mean: Weighted means.
        target_square: `(c,)`, sum of w (y - mean)^2.
        weight: Sum of the weights.
    """

    gram: np.ndarray
    cross: np.ndarray
    feature_mean: np.ndarray
    target_mean: np.ndarray
    target_square: np.ndarray
    weight: float


class Rows(NamedTuple):
    """Rows kept as they came: features `(n, k)`, targets `(n, c)`, weights."""

    features: np.ndarray
    targets: np.ndarray
    weight: np.ndarray


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

    Example:

    >>> rng = np.random.default_rng(0)
    >>> features, targets = rng.normal(size=(100, 5)), rng.normal(size=(100, 2))
    >>> whole = ReadoutState(5, 2).update(features, targets)
    >>> first = ReadoutState(5, 2).update(features[:30], targets[:30])
    >>> rest = ReadoutState(5, 2).update(features[30:], targets[30:])
    >>> bool(np.allclose(first.merge(rest).system().gram, whole.system().gram))
    True
    """

    def __init__(self, units, outputs, form="auto", dtype="float64"):
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
        self._rows: list[Rows] = []
        self._sums: _Sums | None = None
        if form == "sums":
            self._sums = _Sums(self.units, self.outputs)

    @property
    def keeps_rows(self):
        """Whether the state holds rows rather than sums."""
        return self._sums is None

    def update(self, features, targets, sample_weight=None):
        """Adds a batch of rows; those of weight 0 do not count.

        Returns:
            The state.
        """
        features = np.asarray(features)
        targets = np.asarray(targets, dtype=np.float64)
        self._check(features, targets, sample_weight)
        weight = (
            np.ones(len(features))
            if sample_weight is None
            else np.asarray(sample_weight, dtype=np.float64)
        )
        here = weight > 0
        self.count += int(np.count_nonzero(here))
        if self._sums is not None:
            self._sums.add_rows(Rows(features, targets, weight), self.dtype)
            return self
        # Copies, no views: batches are often slices of one buffer.
        self._rows.append(Rows(features[here], targets[here], weight[here]))
        if self.form == "auto" and self.count > self.units:
            self._to_sums()
        return self

    def merge(self, other):
        """Adds the rows of another state. Returns the state."""
        if (other.units, other.outputs) != (self.units, self.outputs):
            raise ValueError(
                "`merge()` adds states over the same features and outputs. "
                f"Received: {self.units} units and {self.outputs} outputs "
                f"here, {other.units} and {other.outputs} in `other`. Build "
                "both states with the same layers."
            )
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

    def add_sums(self, count, offsets, sums):
        """Adds sums made elsewhere, for example on an accelerator.

        Args:
            count: Number of rows behind the sums.
            offsets: Feature and target offset that the sums are relative to.
            sums: Dict with `w`, `f`, `y`, `ff`, `fy`, `yy`.
        """
        other = ReadoutState(self.units, self.outputs, form="sums")
        other._sums = _Sums.from_parts(offsets, sums)
        other.count = count
        return self.merge(other)

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
        sums = self._sums
        if sums is None:
            sums = _Sums(self.units, self.outputs)
            for rows in self._rows:
                sums.add_rows(rows, self.dtype)
        return sums.system(keep)

    def _to_sums(self):
        self._sums = _Sums(self.units, self.outputs)
        for rows in self._rows:
            self._sums.add_rows(rows, self.dtype)
        self._rows = []

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


class _Sums:
    """The sums themselves. `ff` holds its lower triangle only."""

    def __init__(self, units, outputs):
        self.offsets = None
        self._buffer = None
        self._single: np.ndarray | None = None
        self._single_rows = 0
        self.w = 0.0
        self.f, self.y = np.zeros(units), np.zeros(outputs)
        # BLAS adds into a Fortran-ordered triangle without a temporary.
        self.ff = np.zeros((units, units), order="F")
        self.fy = np.zeros((units, outputs))
        self.yy = np.zeros((outputs, outputs))

    @classmethod
    def from_parts(cls, offsets, sums):
        made = cls(0, 0)
        made.offsets = tuple(np.asarray(part, dtype=np.float64) for part in offsets)
        made.w = float(sums["w"])
        for name in ("f", "y", "fy", "yy"):
            setattr(made, name, np.array(sums[name], dtype=np.float64))
        made.ff = np.array(sums["ff"], dtype=np.float64, order="F")
        return made

    def add_rows(self, rows, dtype):
        if not rows.weight.any():
            return
        if self.offsets is None:
            self.offsets = (
                rows.features.mean(axis=0, dtype=np.float64),
                rows.targets.mean(axis=0),
            )
        size = max(256, _BLOCK_ELEMENTS // max(1, rows.features.shape[1]))
        for start in range(0, len(rows.features), size):
            self._add_block(*(part[start : start + size] for part in rows), dtype=dtype)

    def _add_block(self, features, targets, weight, dtype):
        # One buffer for all blocks: fresh memory costs more than the cast.
        if self._buffer is None or len(self._buffer) < len(features):
            self._buffer = np.empty(features.shape, dtype)
        f = self._buffer[: len(features)]
        np.subtract(features, self.offsets[0], out=f, casting="same_kind")
        y = targets - self.offsets[1]
        root = np.sqrt(weight)
        # Weights are mostly 1, and 0 for rows that are held out: spare the
        # multiplication.
        absent = np.flatnonzero(weight == 0)
        f[absent], y[absent] = 0.0, 0.0
        if np.any((weight != 0.0) & (weight != 1.0)):
            f *= root[:, None].astype(dtype)
            y *= root[:, None]
        self.w += weight.sum()
        self.y += np.einsum("n,nc->c", root, y)
        self.yy += np.einsum("nc,ne->ce", y, y)
        # SciPy's BLAS for every product: NumPy brings another one, whose
        # threads would wait busily on the cores that this one needs.
        if dtype == "float64":
            self.f += blas.dgemv(1.0, f.T, root)
            self.fy += blas.dgemm(1.0, f.T, y.T, trans_b=1)
            self.ff = blas.dsyrk(1.0, f.T, 1.0, self.ff, lower=1, overwrite_c=1)
            return
        self.f += blas.sgemv(1.0, f.T, root.astype(dtype))
        self.fy += blas.sgemm(1.0, f.T, y.T.astype(dtype), trans_b=1)
        if self._single is None:
            self._single = np.zeros(self.ff.shape, dtype, order="F")
        self._single = blas.ssyrk(1.0, f.T, 1.0, self._single, lower=1, overwrite_c=1)
        self._single_rows += len(f)
        if self._single_rows >= _SINGLE_ROWS:
            self._flush()

    def _flush(self):
        """Adds what was summed up in float32."""
        if self._single is not None:
            self.ff += self._single
            self._single, self._single_rows = None, 0

    def add_sums(self, other):
        other._flush()
        if other.offsets is None:
            return
        if self.offsets is None:
            self.offsets = other.offsets
        # sum w (f - a)(f - a)' from sums relative to b, with s = b - a.
        s = other.offsets[0] - self.offsets[0]
        t = other.offsets[1] - self.offsets[1]
        ff, fy, yy = other.ff, other.fy, other.yy
        if s.any() or t.any():
            shift = np.outer(other.f, s)
            ff = ff + shift + shift.T + other.w * np.outer(s, s)
            fy = fy + np.outer(s, other.y) + np.outer(other.f, t)
            fy += other.w * np.outer(s, t)
            shift = np.outer(other.y, t)
            yy = yy + shift + shift.T + other.w * np.outer(t, t)
        self.ff += ff
        self.fy += fy
        self.yy += yy
        self.f += other.f + other.w * s
        self.y += other.y + other.w * t
        self.w += other.w

    def system(self, keep):
        self._flush()
        if self.w <= 0:
            raise ValueError(
                "The readout needs rows of positive weight. Received: "
                f"total weight {self.w}. Check `sample_weight` and the data."
            )
        f, fy, offset = self.f, self.fy, self.offsets[0]
        if keep is None:
            gram = self.ff.copy(order="F")
        else:
            f, fy, offset = f[keep], fy[keep], offset[keep]
            # Transposed twice: the copy then is Fortran-ordered at once.
            gram = self.ff.T[np.ix_(keep, keep)].T
        blas.dsyr(-1.0 / self.w, f, lower=1, a=gram, overwrite_a=1)
        self._buffer = None
        mirror(gram)
        return System(
            gram,
            fy - np.outer(f, self.y) / self.w,
            offset + f / self.w,
            self.offsets[1] + self.y / self.w,
            np.diag(self.yy) - self.y**2 / self.w,
            self.w,
        )


def mirror(gram, size=512):
    """Copies the lower triangle to the upper one, block by block, in place."""
    k = len(gram)
    for i in range(0, k, size):
        block = gram[i : i + size, i : i + size]
        block[:] = np.tril(block) + np.tril(block, -1).T
        for j in range(0, i, size):
            gram[j : j + size, i : i + size] = gram[i : i + size, j : j + size].T
