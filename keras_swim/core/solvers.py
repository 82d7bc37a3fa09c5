"""From a readout state to a kernel and a bias.

The ridge problem, with an unpenalised bias:

    minimise  sum w |y - f W - b|^2 + lambda |W|^2,
    lambda = l2 * trace(G) / k,   G = sum w (f - mean)(f - mean)'

`l2` is relative to the mean eigenvalue of `G`, so it has no unit and means the
same for 100 rows and for 100,000.

`Primal` (k x k, from sums) and `Dual` (n x n, from rows; cheaper when units
outnumber rows) factor once and give the coefficients of any `l2`. `solve`
picks one, and goes back to the rows for an orthogonal factorisation
(`Triangle`) where a Gram matrix would lose too many digits.
"""

import numbers
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg

from keras_swim.core.moments import check_weight, mirror
from keras_swim.core.triangle import Triangle

SOLVERS = ("auto", "cholesky", "dual", "qr", "svd")

# The relative cut-off of the paper's experiments.
SVD_CUTOFF = 1e-10

# A Gram solution's relative error is about eps * k / l2; beyond this share of
# the solution it is worth another pass over the rows.
_TOLERATED_ERROR = 1e-3

# Up to this size one eigendecomposition is cheaper than a Cholesky
# factorisation for each of about ten values of l2.
_EIGEN_SIZE = 1024


class Readout(NamedTuple):
    """A solved readout: `scores = features @ kernel + bias`.

    Attributes:
        kernel: `(k, c)` float64.
        bias: `(c,)` float64.
        l2: The relative penalty (or, for `"svd"`, the cut-off).
        solver: The solver that was used.
    """

    kernel: np.ndarray
    bias: np.ndarray
    l2: float
    solver: str


class Primal:
    """Ridge from the k x k Gram matrix.

    Args:
        state: `ReadoutState`.
        keep: `None`, or a boolean mask of the units to use; the others get
            coefficients of zero.
        many: Whether many values of `l2` will be asked for.
    """

    def __init__(self, state, keep=None, many=False):
        self.keep = keep
        self.known = {}
        self.system = state.system(keep)
        self.diagonal: np.ndarray | None = None
        gram = self.system.gram
        self.mean_square = _mean_square(np.trace(gram), len(gram))
        self.many = many and len(gram) <= _EIGEN_SIZE

    def penalty(self, l2):
        return l2 * self.mean_square

    @cached_property
    def eigen(self):
        return linalg.eigh(self._whole_gram(), driver="evd", check_finite=False)

    @cached_property
    def turned(self):
        """The targets' products, in the basis of the eigenvectors."""
        return self.eigen[1].T @ self.system.cross

    def coefficients(self, l2):
        """Kernel and bias for one value of `l2`."""
        if l2 not in self.known:
            kernel = self._kernel(self.penalty(l2))
            self.known[l2] = _with_bias(kernel, self.system, self.keep)
        return self.known[l2]

    def _kernel(self, penalty):
        if not self.many and penalty > 0:
            try:
                return self._cholesky(penalty)
            except linalg.LinAlgError:
                pass  # Too close to singular: the eigenvalues tell how close.
        values, vectors = self.eigen
        return vectors @ (_inverse(values, penalty)[:, None] * self.turned)

    def _cholesky(self, penalty):
        # In place, in the lower triangle: a copy of a wide layer's Gram matrix
        # is memory that can be spared.
        gram = self._whole_gram()
        self.diagonal = gram.diagonal().copy()
        gram[np.diag_indices_from(gram)] += penalty
        factor = linalg.cho_factor(
            gram, lower=True, overwrite_a=True, check_finite=False
        )
        return linalg.cho_solve(factor, self.system.cross, check_finite=False)

    def _whole_gram(self):
        """The Gram matrix; if a factor is in its place, brought back."""
        gram = self.system.gram
        if self.diagonal is not None:
            mirror(gram.T)
            gram[np.diag_indices_from(gram)] = self.diagonal
            self.diagonal = None
        return gram


class Dual:
    """Ridge from the n x n matrix of inner products of rows."""

    def __init__(self, state, keep=None, many=False):
        features, targets, weight = state.rows()
        total = weight.sum()
        check_weight(total)
        self.keep, self.many = keep, many
        features = features if keep is None else features[:, keep]
        root = np.sqrt(weight)[:, None]
        self.feature_mean = weight @ features / total
        self.target_mean = weight @ targets / total
        self.features = np.subtract(features, self.feature_mean, dtype=np.float64)
        # What centring leaves of constant features is rounding, not signal.
        size = max(self.features.shape) * np.finfo(np.float64).eps
        if np.abs(self.features).max(initial=0) <= size * np.abs(features).max(
            initial=0
        ):
            self.features[:] = 0.0
        self.features *= root
        self.targets = (targets - self.target_mean) * root
        self.gram = self.features @ self.features.T

    def penalty(self, l2):
        return l2 * _mean_square(np.trace(self.gram), self.features.shape[1])

    @cached_property
    def eigen(self):
        return linalg.eigh(self.gram, driver="evd", check_finite=False)

    @cached_property
    def turned(self):
        """The targets, in the basis of the eigenvectors."""
        return self.eigen[1].T @ self.targets

    @cached_property
    def svd(self):
        return linalg.svd(self.features, full_matrices=False, check_finite=False)

    def coefficients(self, l2):
        return _with_bias(self._kernel(l2), self, self.keep)

    def _kernel(self, l2):
        penalty = self.penalty(l2)
        k = self.features.shape[1]
        if not self.many and gram_error(k, l2) > _TOLERATED_ERROR:
            # Singular values of the rows themselves: no squared condition.
            u, s, vt = self.svd
            cut = s > np.finfo(np.float64).eps * max(self.features.shape) * s.max()
            filtered = np.where(cut, s, 0.0) / np.where(cut, s**2 + penalty, 1.0)
            return vt.T @ (filtered[:, None] * (u.T @ self.targets))
        if self.many:
            values, vectors = self.eigen
            dual = vectors @ (_inverse(values, penalty)[:, None] * self.turned)
        else:
            gram = self.gram + penalty * np.eye(len(self.gram))
            dual = linalg.solve(gram, self.targets, assume_a="pos")
        return self.features.T @ dual


class MeanOnly:
    """No unit is left: the readout is the mean of the targets."""

    many = True

    def __init__(self, state):
        self.shape = (state.units, state.outputs)
        # Any one unit will do: only the targets' mean is looked at.
        self.mean = state.system(np.arange(1)).target_mean

    def coefficients(self, l2):
        return np.zeros(self.shape), self.mean


def factor(state, keep=None, many=False):
    """`Dual` or `Primal`, whichever is smaller."""
    if keep is not None and not keep.any():
        return MeanOnly(state)
    units = state.units if keep is None else np.count_nonzero(keep)
    if state.keeps_rows and state.count <= units:
        return Dual(state, keep, many)
    return Primal(state, keep, many)


def solve(state, l2, solver="auto", blocks=None):
    """Solves the readout.

    Args:
        state: `ReadoutState`.
        l2: Relative penalty, 0 or more. With `solver="svd"`: the singular
            values below `l2` times the largest are dropped.
        solver: `"auto"`, `"cholesky"` (Gram matrix of units), `"dual"` (of
            rows), `"qr"` (orthogonal factorisation of the rows: the accurate
            way for a condition number above 1e8) or `"svd"` (minimum-norm
            least squares with a cut-off, as in the paper).
        blocks: `None`, or a function returning an iterator over the rows as
            `(features, targets, weight)`: `"qr"` and `"svd"` go back to the
            rows, unless the state keeps them. So does `"auto"` where the Gram
            matrix would lose too many digits.

    Returns:
        A `Readout`.
    """
    check_solver(solver)
    check_l2(l2)
    if state.keeps_rows and blocks is None:
        rows = state.rows()
        blocks = lambda: iter([rows])  # noqa: E731
    few = state.keeps_rows and state.count <= state.units
    if solver == "dual" or (solver == "auto" and few):
        return Readout(*Dual(state).coefficients(l2), l2, "dual")
    if solver == "auto":
        inaccurate = gram_error(state.units, l2) > _TOLERATED_ERROR
        solver = "qr" if inaccurate and blocks is not None else "cholesky"
    if solver == "cholesky":
        return Readout(*Primal(state).coefficients(l2), l2, "cholesky")
    if blocks is None:
        raise ValueError(
            f"`solver={solver!r}` goes back to the rows: pass `blocks`, or use "
            'a state of form "rows".'
        )
    triangle = Triangle(state.units, state.outputs)
    for block in blocks():
        triangle.update(*block)
    return solve_triangle(triangle, l2, solver)


def solve_triangle(triangle, l2, solver):
    """The `Readout` of the rows in a `Triangle`; `solver` is `"qr"` or `"svd"`."""
    solved = triangle.cut_off(l2) if solver == "svd" else triangle.coefficients(l2)
    return Readout(*solved, l2, solver)


def check_solver(solver):
    if solver not in SOLVERS:
        raise ValueError(
            f"`solver` must be one of {', '.join(map(repr, SOLVERS))}. "
            f"Received: solver={solver!r}"
        )


def check_l2(l2):
    number = isinstance(l2, numbers.Real) and not isinstance(l2, bool)
    if not (number and np.isfinite(l2) and l2 >= 0):
        raise ValueError(
            "`l2` must be a finite number, 0 or more (relative to the mean "
            f'square of the features), or "auto". Received: l2={l2!r}'
        )


def gram_error(size, l2):
    """Relative error to expect of a solution from a Gram matrix."""
    if l2 == 0:
        return np.inf
    return np.finfo(np.float64).eps * size / l2


def _inverse(values, penalty):
    """1 / (value + penalty), 0 for eigenvalues that are rounding errors."""
    floor = len(values) * np.finfo(np.float64).eps * max(values[-1], 0.0)
    real = values > floor
    if penalty > floor:
        return 1.0 / (np.maximum(values, 0.0) + penalty)
    return np.where(real, 1.0 / np.where(real, values + penalty, 1.0), 0.0)


def _mean_square(trace, units):
    # Constant features leave nothing to fit: any penalty gives zeros.
    return trace / units if trace > 0 else 1.0


def _with_bias(kernel, means, keep):
    bias = means.target_mean - means.feature_mean @ kernel
    if keep is not None:
        whole = np.zeros((len(keep), kernel.shape[1]))
        whole[keep] = kernel
        kernel = whole
    return kernel, bias
