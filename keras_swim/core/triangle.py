"""The readout from an orthogonal factorisation of the rows, block by block.

Smooth units reach condition numbers above 1e12. Squaring that in a Gram matrix
leaves no correct digit in the directions that matter, and every method that
starts from it (jitter, iterative refinement, preconditioned conjugate
gradients) ends above the residual of a singular value decomposition. The
triangle `R` of `Q R = sqrt(w) [1, F, Y]` keeps the condition as it is. It needs
one more pass over the rows, in memory that does not grow with them: each block
is folded into `R`, which costs about five times as much as adding it to a Gram
matrix.

With the column of ones in front, the rest of `R` belongs to the centred
problem, so the bias is unpenalised. Penalty rows `sqrt(lambda) [0, I, 0]` are
folded in at the end.
"""

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from keras_swim.core.moments import check_weight

# Columns that LAPACK handles at once, and rows folded in at once.
_PANEL = 64
_BLOCK_ELEMENTS = 1 << 22


class Triangle:
    """`R` of the rows seen so far.

    Args:
        units: Number of features k.
        outputs: Number of outputs c.
        bias: Whether the readout has a bias; without it nothing is centred.
    """

    def __init__(self, units, outputs, bias=True):
        self.units, self.outputs = units, outputs
        self.first = int(bias)
        size = self.first + units + outputs
        self.r = np.zeros((size, size), order="F")
        self.count = 0

    def update(self, features, targets, sample_weight):
        """Folds a block of rows in. Returns the triangle."""
        size = max(256, _BLOCK_ELEMENTS // len(self.r))
        for start in range(0, len(features), size):
            part = slice(start, start + size)
            root = np.sqrt(np.asarray(sample_weight[part], dtype=np.float64))
            block = np.empty((len(root), len(self.r)), order="F")
            block[:, : self.first] = 1.0
            block[:, self.columns] = features[part]
            block[:, self.first + self.units :] = targets[part]
            block *= root[:, None]
            self.r = _fold(self.r, block)
            self.count += len(root)
        return self

    @property
    def columns(self):
        """Where the features are."""
        return slice(self.first, self.first + self.units)

    def coefficients(self, l2):
        """Ridge: kernel and bias. `l2 = 0` is minimum-norm least squares."""
        if l2 == 0:
            # NumPy's own cut-off for rank-deficient problems.
            eps = np.finfo(np.float64).eps
            return self.cut_off(eps * max(self.count, self.units))
        self._clean()
        k = self.units
        inner = self.r[self.columns, self.columns]
        penalty = l2 * (np.einsum("ij,ij->", inner, inner) / k or 1.0)
        # The ones column must not see the penalty: its row and column are left out.
        r = self.r[self.first :, self.first :].copy(order="F")
        rows = np.zeros((k, len(r)), order="F")
        rows[np.diag_indices(k)] = np.sqrt(penalty)
        r = _fold(r, rows, triangular=True)
        kernel = linalg.solve_triangular(r[:k, :k], r[:k, k:], check_finite=False)
        return self._with_bias(kernel)

    def cut_off(self, relative):
        """Least squares without singular values below `relative * largest`."""
        self._clean()
        inner = self.r[self.columns, self.columns]
        u, s, vt = linalg.svd(inner, check_finite=False)
        kept = s > relative * s[0]
        inverse = np.where(kept, 1.0 / np.where(kept, s, 1.0), 0.0)
        rotated = u.T @ self.r[self.columns, self.first + self.units :]
        return self._with_bias(vt.T @ (inverse[:, None] * rotated))

    def _clean(self):
        """Refuses empty triangles; zeroes what is only rounding."""
        if not self.first:
            return
        check_weight(self.r[0, 0] ** 2)
        inner = self.r[self.columns, self.columns]
        size = max(self.count, self.units) * np.finfo(np.float64).eps
        # What centring leaves of constant features.
        if linalg.norm(inner) <= size * linalg.norm(self.r[0, self.columns]):
            inner[:] = 0.0

    def _with_bias(self, kernel):
        if not self.first:
            return kernel, np.zeros(self.outputs)
        means = self.r[0, 1:] / self.r[0, 0]
        return kernel, means[self.units :] - means[: self.units] @ kernel


def _fold(r, block, triangular=False):
    # A triangular block stays triangular: a third of the work.
    height = len(block) if triangular else 0
    r, _, _, info = lapack.dtpqrt(
        height, min(_PANEL, len(r)), r, block, overwrite_a=1, overwrite_b=1
    )
    if info != 0:
        raise linalg.LinAlgError(f"LAPACK's dtpqrt failed with info={info}.")
    return r
