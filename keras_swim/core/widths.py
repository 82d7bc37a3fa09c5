"""Every width of a layer from one factorisation.

Units are nested: a narrower layer has the first units of a wider one. With
`L L' = G + lambda I` the factor of a leading block of G is the leading block
of L, so that one Cholesky factorisation serves all widths:

    z = L^-1 F'Y,   W of the first p columns solves L[:p, :p]' W = z[:p],
    V = F_new L^-T,   scores of the first p columns are V[:, :p] z[:p],

the latter a running sum over columns. Where there are far fewer rows than units,
one eigendecomposition of the rows' Gram matrix for each width gives every
penalty instead.

A penalty is relative to the mean square of the features at full width, so that
it is the same number lambda for all widths.

Shapes: n rows, k columns, c outputs, W widths.
"""

import numpy as np
from scipy import linalg
from scipy.linalg import blas

from keras_swim.core.solvers import Dual, MeanOnly

# Widths that are scored together: one product of matrices for all of them.
_WIDTHS_AT_A_TIME = 32
# Smallest penalty at which scores may be computed in float32.
_SINGLE_L2 = 1e-7


def nested(state, numbers, keep=None, widths=12):
    """`NestedPrimal` or `NestedDual`, whichever is cheaper.

    Args:
        state: `ReadoutState`.
        numbers: `(k,)` integers, the unit that each column comes from: a column
            belongs to all widths above its number, and to every width if the
            number is -1.
        keep: `None`, or `(k,)` mask of the columns to use; the others get
            coefficients of zero.
        widths: Number of widths that will be asked for.
    """
    if keep is None:
        keep = np.ones(state.units, dtype=bool)
    if not keep.any():
        return _NestedMean(state)
    # An eigendecomposition costs about thirty Cholesky factorisations, and there
    # is one of them for each width against one of the latter for each of about
    # ten penalties.
    if state.keeps_rows and 3 * widths * state.count**3 < state.units**3:
        return NestedDual(state, numbers, keep)
    return NestedPrimal(state, numbers, keep)


def renumbered(numbers, keep):
    """Units counted anew among those whose columns are kept.

    Args:
        numbers: `(k,)` unit of each column, -1 for none.
        keep: `(k,)` mask of the columns that are kept.

    Example:

    >>> renumbered(np.array([0, 1, 2, -1]), np.array([True, False, True, True]))
    array([ 0, -1,  1, -1])
    """
    new = np.full(len(numbers), -1)
    counted = keep & (numbers >= 0)
    new[counted] = np.unique(numbers[counted], return_inverse=True)[1]
    return new


class NestedPrimal:
    """From the k x k Gram matrix: one factorisation a penalty."""

    def __init__(self, state, numbers, keep):
        self.units = state.units
        columns = np.flatnonzero(keep)
        order = np.argsort(numbers[columns], kind="stable")
        system = state.system(None if len(columns) == state.units else columns)
        self.columns = columns[order]
        self.numbers = numbers[self.columns]
        self.gram, self.cross = system.gram, system.cross
        self.feature_mean = system.feature_mean[order]
        self.target_mean, self.weight = system.target_mean, system.weight
        if np.any(np.diff(order) < 0):
            self.gram = self.gram[np.ix_(order, order)]
            self.cross = self.cross[order]
        trace = np.trace(self.gram)
        self.mean_square = trace / len(self.gram) if trace > 0 else 1.0
        self._known = {}
        self._last = None

    def counts(self, widths):
        """Number of columns that belong to each width."""
        return np.searchsorted(self.numbers, widths, side="left")

    def _factor(self, l2):
        """L and z for a penalty; `None` where rounding leaves no factor."""
        if l2 not in self._known:
            gram = self.gram.copy(order="F")
            gram[np.diag_indices_from(gram)] += l2 * self.mean_square
            try:
                lower = linalg.cholesky(
                    gram, lower=True, overwrite_a=True, check_finite=False
                )
                z = linalg.solve_triangular(
                    lower, self.cross, lower=True, check_finite=False
                )
                # One at a time: a factor is as large as the Gram matrix.
                self._known = {l2: (lower, z)}
            except linalg.LinAlgError:
                self._known = {l2: None}
        return self._known[l2]

    def coefficients(self, l2, widths):
        """Kernels `(k, W, c)` and biases `(W, c)`; NaN where none is found."""
        widths = np.asarray(widths)
        c = self.cross.shape[1]
        kernels = np.zeros((self.units, len(widths), c))
        found = self._factor(l2)
        if found is None:
            return np.full_like(kernels, np.nan), np.full((len(widths), c), np.nan)
        lower, z = found
        # One triangular solve for all widths: zeros below a width stay zeros.
        sides = np.zeros((len(z), len(widths), c))
        for i, count in enumerate(self.counts(widths)):
            sides[:count, i] = z[:count]
        solved = linalg.solve_triangular(
            lower,
            sides.reshape(len(z), -1),
            lower=True,
            trans=1,
            overwrite_b=True,
            check_finite=False,
        ).reshape(sides.shape)
        kernels[self.columns] = solved
        biases = self.target_mean - np.einsum("k,kwc->wc", self.feature_mean, solved)
        return kernels, biases

    def running_scores(self, l2, features, widths, weight=None):
        """Yields the scores of all widths, some at a time.

        Args:
            l2: Relative penalty.
            features: `(m, k)`.
            widths: Ascending.
            weight: `None`, or `(m,)`: also yield the leverage, for rows that
                are among those of the state.

        Yields:
            A slice of the widths, their `(c, widths, m)` scores, and their
            `1 - h` `(widths, m)` or `None`.
        """
        c, m = self.cross.shape[1], len(features)
        counts = self.counts(widths)
        found = self._factor(l2)
        # The model itself computes in the dtype of its features: nothing is lost
        # by it here while the condition stays well below its digits.
        dtype = np.dtype(np.float64)
        if features.dtype == np.float32 and l2 >= _SINGLE_L2:
            dtype = features.dtype
        rest = None if weight is None else 1.0 - weight / self.weight
        if found is None:
            for where in _some_at_a_time(counts):
                bad = np.full((c, where.stop - where.start, m), np.nan)
                yield where, bad, None if rest is None else bad[0]
            return
        v, z = self._projected(found[0], features, dtype), found[1]
        gemm = blas.sgemm if dtype == np.float32 else blas.dgemm
        base = np.repeat(self.target_mean[:, None], m, axis=1).astype(dtype)
        at = 0
        for where in _some_at_a_time(counts):
            columns = slice(at, counts[where][-1])
            at = columns.stop
            # Which of the new columns belong to which width.
            inside = np.arange(columns.start, at) < counts[where][:, None]
            parts = inside * z[columns].T[:, None]
            parts = parts.reshape(-1, inside.shape[1]).astype(dtype)
            scores = np.repeat(base, len(inside), axis=0)
            if len(v[columns]):
                # Into `scores`, where the widths before are already.
                gemm(1.0, v[columns].T, parts.T, 1.0, scores.T, overwrite_c=1)
            scores = scores.reshape(c, -1, m)
            base = scores[:, -1].copy()
            left = None
            if rest is not None:
                left = rest - weight * (inside.astype(dtype) @ v[columns] ** 2)
                rest = left[-1]
            yield where, scores, left

    def _projected(self, lower, features, dtype):
        """`V'`: the centred features in the basis of the factor."""
        centred = self._centred(features, dtype).copy(order="F")
        trsm = blas.strsm if dtype == np.float32 else blas.dtrsm
        # V L' = F: then the columns of V are the contiguous rows of V'.
        return trsm(
            1.0,
            lower.astype(dtype, copy=False),
            centred,
            side=1,
            lower=1,
            trans_a=1,
            overwrite_b=1,
        ).T

    def _centred(self, features, dtype):
        """Centred features column by column; those of the last rows are kept."""
        last = self._last
        if last is None or last[0] is not features or last[1].dtype != dtype:
            shape = len(features), len(self.columns)
            centred = np.empty(shape, dtype, order="F")
            ordered = features
            if shape[1] < features.shape[1] or np.any(np.diff(self.columns) < 0):
                ordered = features[:, self.columns]
            np.subtract(ordered, self.feature_mean, out=centred, casting="same_kind")
            self._last = features, centred
        return self._last[1]


def _some_at_a_time(counts):
    for start in range(0, len(counts), _WIDTHS_AT_A_TIME):
        yield slice(start, min(start + _WIDTHS_AT_A_TIME, len(counts)))


class NestedDual:
    """From the rows: one eigendecomposition a width."""

    def __init__(self, state, numbers, keep):
        self.state, self.numbers, self.keep = state, numbers, keep
        self._paths = {}
        whole = Dual(state, keep, many=True)
        self.mean_square = whole.penalty(1.0)

    def _path(self, width):
        if width not in self._paths:
            keep = self.keep & (self.numbers < width)
            if keep.any():
                self._paths[width] = Dual(self.state, keep, many=True)
            else:
                self._paths[width] = MeanOnly(self.state)
        return self._paths[width]

    def coefficients(self, l2, widths):
        """Kernels `(k, W, c)` and biases `(W, c)`."""
        found = []
        for width in widths:
            path = self._path(int(width))
            if not isinstance(path, MeanOnly):
                # The same lambda for all widths.
                found.append(
                    path.coefficients(l2 * self.mean_square / path.penalty(1.0))
                )
            else:
                found.append(path.coefficients(l2))
        kernels, biases = zip(*found, strict=True)
        return np.stack(kernels, axis=1), np.stack(biases)

    def left_out(self, l2, width):
        """`(n, c)` leave-one-out residuals of the state's own rows."""
        _, targets, weight = self.state.rows()
        root = np.sqrt(weight)
        path = self._path(int(width))
        penalty = l2 * self.mean_square
        if isinstance(path, MeanOnly):
            gram, y = np.zeros((len(weight),) * 2), targets - path.mean
            y = y * root[:, None]
        else:
            gram, y = path.gram, path.targets
        # The bias is the direction of the roots of the weights. A large
        # eigenvalue there takes it out of the inverse, where it would cancel.
        large = 1e6 * (penalty + np.trace(gram))
        system = gram + large * np.outer(root, root) / weight.sum()
        system[np.diag_indices_from(system)] += penalty
        inverse = linalg.inv(system, check_finite=False)
        with np.errstate(divide="ignore", invalid="ignore"):
            gaps = (inverse @ y) / np.diag(inverse)[:, None] / root[:, None]
        return np.where(weight[:, None] > 0, gaps, 0.0)


class _NestedMean:
    """No column is left: every width gives the mean of the targets."""

    def __init__(self, state):
        self.mean = MeanOnly(state)

    def coefficients(self, l2, widths):
        kernel, bias = self.mean.coefficients(l2)
        return (
            np.repeat(kernel[:, None], len(widths), axis=1),
            np.repeat(bias[None], len(widths), axis=0),
        )
