"""Ridge regression with its penalty chosen by leave-one-out, rows in memory.

One eigendecomposition, of the smaller of the two Gram matrices, gives every
penalty: with centred rows F (each times the root of its weight) and
`F'F = V diag(s) V'`, Z = F V,

    fitted = Z diag(1 / (s + lambda)) Z'Y,
    h = w / sum w + (Z * Z) (1 / (s + lambda)),

and the residual of row i without row i is its residual divided by `1 - h_i`. With
fewer rows than columns the same from `F F' = U diag(s) U'`:

    residual = U diag(lambda / (s + lambda)) U'Y,
    1 - h = (U * U) (lambda / (s + lambda)) - w / sum w,

which does not subtract nearly equal numbers.

Shapes: n rows, k columns, c outputs.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.linalg import blas

from keras_swim.core.folds import untouched_units

# Relative to the mean square of the features.
PENALTIES = 10.0 ** np.arange(-7, 2.1, 0.5)
# A row that only its own column explains has h = 1; its residual is unknown.
_SMALLEST_REST = 1e-6
_COLUMNS_AT_ONCE = 32
_ROWS_AT_ONCE = 512


class LeftOut(NamedTuple):
    """A solved readout, and what it says of rows that it has not seen.

    Attributes:
        kernel: `(k, c)` float64.
        bias: `(c,)` float64.
        l2: The chosen penalty, relative to the mean square of the features.
        scores: `(n, c)` leave-one-out scores.
    """

    kernel: np.ndarray
    bias: np.ndarray
    l2: float
    scores: np.ndarray


def ridge_left_out(features, targets, weight=None, penalties=PENALTIES):
    """Solves a readout with the penalty of the smallest leave-one-out error.

    Args:
        features: `(n, k)` float32 or float64.
        targets: `(n, c)`.
        weight: `None` or `(n,)`, not all zero.
        penalties: Values of `l2` to try.

    Returns:
        A `LeftOut`.

    Example:

    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> found = ridge_left_out(x, 2 * x + 1)
    >>> np.round(found.kernel[0, 0], 3), np.round(found.bias[0], 3)
    (np.float64(2.0), np.float64(1.0))
    """
    n, k = features.shape
    if k == 0:
        # A bias alone: a column of zeros beside it changes nothing.
        features = np.zeros((n, 1))
        found = ridge_left_out(features, targets, weight, penalties)
        return found._replace(kernel=found.kernel[:0])
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
    problem, mean, target_mean, root = _problem(features, targets, weight)
    return _chosen(problem, penalties, mean, target_mean, targets, root)


def ridge_honest(features, targets, weight, pairs, folds, penalties=PENALTIES):
    """Solves a readout with the penalty of the smallest error on honest folds.

    Leave-one-out flatters where rows are few: a row's own units judge it. Here each
    fold is scored by the rows outside it and by the units that these have made.

    Args:
        features: `(n, k)`.
        targets: `(n, c)`.
        weight: `None` or `(n,)`.
        pairs: `(k, 2)` rows behind each column, -1 for none.
        folds: Arrays of row numbers that share all rows among them.
        penalties: Values of `l2` to try.

    Returns:
        A `LeftOut`, with the scores of each fold by the others.
    """
    n, k = features.shape
    if k == 0:
        column, nobody = np.zeros((n, 1)), np.full((1, 2), -1)
        found = ridge_honest(column, targets, weight, nobody, folds, penalties)
        return found._replace(kernel=found.kernel[:0])
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
    scores = np.empty((len(penalties), *targets.shape))
    for fold in folds:
        rest = np.setdiff1d(np.arange(n), fold)
        keep = untouched_units(pairs, fold, n)
        part = features[:, keep] if keep.any() else np.zeros((n, 1))
        problem, mean, centre, _ = _problem(part[rest], targets[rest], weight[rest])
        for number, l2 in enumerate(penalties):
            kernel = problem.kernel(l2)
            scores[number, fold] = (part[fold] - mean) @ kernel + centre
    errors = np.einsum("n,pnc->p", weight, (scores - targets) ** 2)
    best = int(np.argmin(errors))
    problem, mean, centre, _ = _problem(features, targets, weight)
    kernel = problem.kernel(penalties[best])
    bias = centre - mean @ kernel
    return LeftOut(kernel, bias, float(penalties[best]), scores[best])


def honest_scores(features, targets, weight, pairs, folds, l2):
    """`(n, c)` scores of each fold by the rows outside it and the units they made.

    Args:
        features, targets, weight, pairs, folds: See `ridge_honest`.
        l2: Penalty.
    """
    n = len(features)
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
    scores = np.empty(targets.shape)
    for fold in folds:
        rest = np.setdiff1d(np.arange(n), fold)
        keep = untouched_units(pairs, fold, n)
        part = features[:, keep]
        mean, centre, root = _means(part[rest], targets[rest], weight[rest])
        rows, wanted = _centred(part[rest], targets[rest], mean, centre, root)
        scores[fold] = (part[fold] - mean) @ _solved(rows, wanted, l2) + centre
    return scores


def _solved(rows, wanted, l2):
    """Kernel of centred rows, by a Cholesky factorisation."""
    if rows.shape[1] == 0:
        return np.zeros((0, wanted.shape[1]))
    few = len(rows) <= rows.shape[1]
    # Both with the rows along the last axis, as BLAS wants them.
    gram = blas.dsyrk(1.0, rows.astype(float).T, trans=1) if few else _gram(rows)
    penalty = l2 * _positive(np.trace(gram) / rows.shape[1])
    gram[np.diag_indices_from(gram)] += penalty
    side = wanted if few else rows.T @ wanted.astype(rows.dtype)
    factor = linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
    found = linalg.cho_solve(factor, side, check_finite=False)
    return rows.T.astype(float) @ found if few else found


def sums_left_out(system, features, targets, weight, penalties=PENALTIES):
    """The same from sums over many rows, of which some are at hand.

    Args:
        system: `System` of a `ReadoutState`.
        features, targets, weight: Rows that are among those of the sums: the
            penalty is chosen by their leave-one-out error.
        penalties: Values of `l2` to try.

    Returns:
        A `LeftOut`, with the scores of the rows at hand.
    """
    root = np.sqrt(weight)
    mean, target_mean = system.feature_mean, system.target_mean
    rows, wanted = _centred(features, targets, mean, target_mean, root)
    problem = _ManyRows(
        system.gram.copy(order="F"), system.cross, rows, wanted, weight / system.weight
    )
    return _chosen(problem, penalties, mean, target_mean, targets, root)


def _problem(features, targets, weight):
    """The factored problem, the means, and the roots of the weights."""
    total = weight.sum()
    mean, target_mean, root = _means(features, targets, weight)
    rows, wanted = _centred(features, targets, mean, target_mean, root)
    if len(rows) <= rows.shape[1]:
        few = _FewRows(rows, wanted, weight / total)
        return few, mean, target_mean, root
    cross = rows.T @ wanted.astype(rows.dtype)
    many = _ManyRows(_gram(rows), cross, rows, wanted, weight / total)
    return many, mean, target_mean, root


def _means(features, targets, weight):
    """Weighted means of features and targets, and the roots of the weights."""
    total = weight.sum()
    mean = sum(
        weight[part] @ features[part].astype(float) for part in _parts(len(weight))
    )
    return mean / total, weight @ targets / total, np.sqrt(weight)


def _gram(rows):
    """Upper triangle of `rows.T @ rows`, in float64."""
    gram = np.zeros((rows.shape[1], rows.shape[1]), order="F")
    for part in _parts(len(rows)):
        # Transposed, rows are in the order that BLAS wants: no copy.
        block = rows[part].astype(float).T
        gram = blas.dsyrk(1.0, block, beta=1.0, c=gram, overwrite_c=True)
    return gram


def _parts(n):
    """Slices of some rows each: float64 copies of them stay in the cache."""
    return [slice(start, start + _ROWS_AT_ONCE) for start in range(0, n, _ROWS_AT_ONCE)]


def _centred(features, targets, mean, target_mean, root):
    """Centred rows, times the roots of their weights."""
    rows = features - mean.astype(features.dtype)
    wanted = targets - target_mean
    if (root != 1).any():
        rows *= root.astype(features.dtype)[:, None]
        wanted *= root[:, None]
    return rows, wanted


def _chosen(problem, penalties, mean, target_mean, targets, root):
    best = None
    # Some penalties at a time: products of matrices are faster than of vectors.
    count = max(1, _COLUMNS_AT_ONCE // targets.shape[1])
    for start in range(0, len(penalties), count):
        some = np.asarray(penalties[start : start + count])
        gaps = problem.left_out(some)
        errors = np.einsum("npc,npc->p", gaps, gaps)
        at = int(np.argmin(errors))
        if best is None or errors[at] < best[0]:
            best = errors[at], float(some[at]), gaps[:, at]
    _, l2, gaps = best
    kernel = problem.kernel(l2)
    gaps = gaps / np.where(root > 0, root, 1.0)[:, None]
    return LeftOut(kernel, target_mean - mean @ kernel, l2, targets - gaps)


class _ManyRows:
    """From the k x k Gram matrix."""

    def __init__(self, gram, cross, rows, targets, share):
        self.targets, self.share = targets, share
        values, self.vectors = linalg.eigh(
            gram, lower=False, overwrite_a=True, check_finite=False, driver="evd"
        )
        self.values = np.maximum(values, 0.0)
        self.mean_square = _positive(self.values.sum() / len(self.values))
        self.basis = rows @ self.vectors.astype(rows.dtype)
        self.squares = self.basis**2
        self.cross = self.vectors.T @ cross

    def left_out(self, penalties):
        """`(n, p, c)` residuals of each row without it, for each penalty."""
        inverse = self._inverse(penalties)
        dtype = self.basis.dtype
        rest = 1.0 - self.share[:, None] - self.squares @ inverse.astype(dtype)
        coefficients = inverse[:, :, None] * self.cross[:, None]
        fitted = self.basis @ coefficients.reshape(len(inverse), -1).astype(dtype)
        gaps = self.targets[:, None] - fitted.reshape(*rest.shape, -1)
        gaps /= np.maximum(rest, _SMALLEST_REST)[:, :, None]
        return gaps

    def kernel(self, l2):
        return self.vectors @ (self._inverse(l2) * self.cross)

    def _inverse(self, penalties):
        return 1.0 / (self.values[:, None] + penalties * self.mean_square)


class _FewRows:
    """From the n x n Gram matrix."""

    def __init__(self, rows, targets, share):
        self.rows, self.share = rows, share
        gram = blas.dsyrk(1.0, rows.astype(float).T, trans=1)
        values, self.vectors = linalg.eigh(
            gram, lower=False, overwrite_a=True, check_finite=False, driver="evd"
        )
        self.values = np.maximum(values, 0.0)
        self.mean_square = _positive(self.values.sum() / rows.shape[1])
        self.squares = self.vectors**2
        self.cross = self.vectors.T @ targets

    def left_out(self, penalties):
        """`(n, p, c)` residuals of each row without it, for each penalty."""
        penalty = penalties * self.mean_square
        shrink = penalty / (self.values[:, None] + penalty)
        rest = self.squares @ shrink - self.share[:, None]
        coefficients = shrink[:, :, None] * self.cross[:, None]
        gaps = self.vectors @ coefficients.reshape(len(shrink), -1)
        gaps = gaps.reshape(*rest.shape, -1)
        gaps /= np.maximum(rest, _SMALLEST_REST)[:, :, None]
        return gaps

    def kernel(self, l2):
        inverse = 1.0 / (self.values + l2 * self.mean_square)
        return self.rows.T.astype(float) @ (
            self.vectors @ (inverse[:, None] * self.cross)
        )


def _positive(value):
    # Constant features: any positive number gives a kernel of zero.
    return value if value > 0 else 1.0
