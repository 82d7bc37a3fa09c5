"""Weighted sums over rows, and the normal equations that they make.

Sums are taken relative to an offset (the first batch's means): features whose
mean is far larger than their spread would otherwise cancel away.

Shapes: n rows, k units, c outputs.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas

# Elements of a block while summing: bounds the float64 copy.
_BLOCK_ELEMENTS = 1 << 21


_PRODUCTS = ("ff", "fy", "yy")

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


class Sums:
    """The sums themselves. `ff` holds its lower triangle only."""

    def __init__(self, units, outputs, offsets=None):
        self.offsets = offsets
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
        if offsets is not None:
            made.offsets = tuple(np.asarray(part, dtype=np.float64) for part in offsets)
        made.w = float(sums["w"])
        for name in ("f", "y", "fy", "yy"):
            setattr(made, name, np.array(sums[name], dtype=np.float64))
        made.ff = np.array(sums["ff"], dtype=np.float64, order="F")
        return made

    def parts(self):
        """Everything as a dict of arrays; `from_parts` takes it back."""
        self._flush()
        parts = {name: getattr(self, name) for name in ("w", "f", "y", *_PRODUCTS)}
        if self.offsets is not None:
            parts["feature_offset"], parts["target_offset"] = self.offsets
        return parts

    def subtract_rows(self, rows, dtype):
        other = Sums(len(self.f), len(self.y))
        other.offsets = self.offsets
        other.add_rows(rows, dtype)
        other._flush()
        self._flush()
        self.w -= other.w
        for name in ("f", "y", *_PRODUCTS):
            getattr(self, name).__isub__(getattr(other, name))

    def add_outputs(self, count):
        self.y = np.pad(self.y, (0, count))
        self.fy = np.pad(self.fy, ((0, 0), (0, count)))
        self.yy = np.pad(self.yy, (0, count))
        if self.offsets is not None:
            # Sums of zeros relative to zero are zero.
            self.offsets = self.offsets[0], np.pad(self.offsets[1], (0, count))

    def keep_units(self, keep):
        self._flush()
        smaller = Sums(0, 0)
        smaller.w, smaller.y, smaller.yy = self.w, self.y.copy(), self.yy.copy()
        smaller.f, smaller.fy = self.f[keep], self.fy[keep]
        smaller.ff = self.ff.T[np.ix_(keep, keep)].T
        if self.offsets is not None:
            smaller.offsets = self.offsets[0][keep], self.offsets[1]
        return smaller

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
        gemm = blas.dgemm if dtype == "float64" else blas.sgemm
        # Targets and weights side by side: one pass over the block for both.
        sides = np.column_stack([y, root]).astype(dtype, copy=False)
        products = gemm(1.0, f.T, sides.T, trans_b=1)
        self.fy += products[:, :-1]
        self.f += products[:, -1]
        if dtype == "float64":
            self.ff = blas.dsyrk(1.0, f.T, 1.0, self.ff, lower=1, overwrite_c=1)
            return
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

    def add_sums(self, other, sign=1):
        other._flush()
        self._flush()
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
        add = np.add if sign > 0 else np.subtract
        add(self.ff, ff, out=self.ff)
        add(self.fy, fy, out=self.fy)
        add(self.yy, yy, out=self.yy)
        add(self.f, other.f + other.w * s, out=self.f)
        add(self.y, other.y + other.w * t, out=self.y)
        self.w += sign * other.w

    def mean_square(self):
        """Mean diagonal element of the centred Gram matrix."""
        self._flush()
        check_weight(self.w)
        trace = np.trace(self.ff) - self.f @ self.f / self.w
        return max(trace / len(self.f), 0.0)

    def system(self, keep):
        self._flush()
        check_weight(self.w)
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


def check_weight(total):
    """Raises unless there is something to fit to."""
    if not total > 0:
        raise ValueError(
            "The readout needs rows of positive weight. Received: total weight "
            f"{total}. Check `sample_weight` and the data."
        )


def mirror(gram, size=512):
    """Copies the lower triangle to the upper one, block by block, in place."""
    k = len(gram)
    for i in range(0, k, size):
        block = gram[i : i + size, i : i + size]
        block[:] = np.tril(block) + np.tril(block, -1).T
        for j in range(0, i, size):
            gram[j : j + size, i : i + size] = gram[i : i + size, j : j + size].T
