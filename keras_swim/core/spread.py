"""How sure a readout can be: from the same state, without another pass.

Ridge regression with noise of variance sigma^2 gives at the features f

    var = sigma^2 (1/n + q),   q = fc' (G + lambda I)^-1 fc,   fc = f - mean
    sigma^2 = residual / (n - df),   df = 1 + trace(G (G + lambda I)^-1)

The quadratic form q, the leverage, does not look at the targets: it is small
where training rows are and grows with the distance from them, measured in the
spread that the training rows have in each direction.

With units about as many as rows, df is nearly n, and n - df must not be taken as
a difference: with the m <= n - 1 squared singular values s^2 of the centred rows,
n - df = n - 1 - m + sum of lambda / (s^2 + lambda).

Shapes: n rows, k units, c outputs, m new rows.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from keras_swim.core.solvers import Dual, Primal, check_l2

# Elements of a block of new rows: bounds the float64 copy.
_BLOCK_ELEMENTS = 1 << 21

_EPS = np.finfo(np.float64).eps


class Spread:
    """The spread of the training rows, and of the noise around the readout.

    A state that keeps fewer rows than units is factored by its rows (n x k), any
    other by its Gram matrix (k x k).

    Args:
        state: `ReadoutState`.
        l2: Penalty, relative as in `swim_fit`. One below what float64 sums can
            resolve is raised to that.

    Attributes:
        rows: n, the number of rows. Weights count rows; where they add up to
            less than there are rows, they are scaled up to that.
        degrees_of_freedom: df, with the bias.
        noise: `(c,)`, sigma^2 of each output.
        typical_leverage: What to expect of new rows from where the training rows
            came from. Theirs is h = df / n on average, but they have pulled the
            readout towards themselves; a row left out has h / (1 - h).

    Example:

    >>> from keras_swim.core.readout import ReadoutState
    >>> rng = np.random.default_rng(0)
    >>> features = rng.normal(size=(1000, 5))
    >>> targets = features[:, :1] + 0.5 * rng.normal(size=(1000, 1))
    >>> spread = Spread(ReadoutState(5, 1).update(features, targets), l2=1e-6)
    >>> round(float(np.sqrt(spread.noise[0])), 1)
    0.5
    >>> near, far = spread.leverage(np.array([[0.1] * 5, [9.0] * 5]))
    >>> bool(far > 1000 * near)
    True
    """

    def __init__(self, state, l2):
        check_l2(l2)
        few = state.keeps_rows and state.count <= state.units
        self._factored = _from_rows(state, l2) if few else _from_sums(state, l2)
        _, _, _, _, residual, unfitted, weight = self._factored
        self.units = state.units
        self.rows = max(weight, float(state.count))
        # With weights that add up to n, a weight is a number of rows.
        self._scale = self.rows / weight
        # Centring leaves the rows n - 1 directions, and no more than `span` of
        # these have features: the targets' part in the others is all noise.
        span = min(state.units, max(state.count - 1, 0))
        left = self.rows - 1 - span + unfitted
        if not left > _EPS * self.rows:
            raise ValueError(
                f"The readout can fit all of its {state.count} row(s), so they "
                f"say nothing of the noise. Received: l2={l2!r}, {state.units} "
                "units. Pass a larger `l2`, or add rows."
            )
        self.degrees_of_freedom = 1 + span - unfitted
        self.noise = self._scale * residual / left
        self.typical_leverage = self.degrees_of_freedom / left

    def leverage(self, features):
        """`(m,)`: fc' (G + lambda I)^-1 fc of each row of `(m, k)` features."""
        features = np.asarray(features)
        if features.ndim != 2 or features.shape[1] != self.units:
            raise ValueError(
                f"`features` must have shape (rows, {self.units}), as those in the "
                f"state. Received: features.shape={features.shape}"
            )
        found = np.empty(len(features))
        size = max(256, _BLOCK_ELEMENTS // self.units)
        for start in range(0, len(features), size):
            part = slice(start, start + size)
            found[part] = self._quadratic(features[part] - self._factored.mean)
        return found / self._scale

    def variance(self, features, new_rows=False):
        """`(m, c)` variance of the readout's scores.

        Args:
            features: `(m, k)`.
            new_rows: `False` for the variance of the fitted mean, `True` for that
                of new targets: the noise comes on top.
        """
        share = self.leverage(features) + (1 / self.rows + bool(new_rows))
        return share[:, None] * self.noise

    def _quadratic(self, centred):
        _, whiten, basis, penalty, *_ = self._factored
        if basis is None:
            return _squares(centred @ whiten)
        inside = centred @ basis
        # What lies outside the span of the training rows. As a difference of
        # squares it would be rounding, divided by a small penalty.
        outside = centred - inside @ basis.T
        return _squares(inside * whiten) + _squares(outside) / penalty


class _Factored(NamedTuple):
    """What is needed of `G + lambda I`.

    Attributes:
        mean: `(k,)` mean of the features.
        whiten: `T` with `T T' = (G + lambda I)^-1`; with a `basis` the
            `(r,)` factors of its columns.
        basis: `None`, or `(k, r)`: the directions in which training rows differ.
        penalty: lambda.
        residual: `(c,)`, sum of w (y - scores)^2.
        unfitted: Sum of lambda / (s^2 + lambda).
        weight: Sum of the weights.
    """

    mean: np.ndarray
    whiten: np.ndarray
    basis: np.ndarray | None
    penalty: float
    residual: np.ndarray
    unfitted: float
    weight: float


def _from_rows(state, l2):
    """Fewer rows than units: singular values of the rows."""
    dual = Dual(state)
    # Any positive number will do for l2 = 0, which `Spread` refuses.
    penalty = dual.penalty(l2) or np.finfo(np.float64).tiny
    u, s, vt = dual.svd
    # Centring has taken one direction: the last singular value is rounding.
    span = state.count - 1
    u, s, basis = u[:, :span], s[:span], vt[:span].T
    shares = penalty / (s**2 + penalty)
    inside = u.T @ dual.targets
    outside = dual.targets - u @ inside
    return _Factored(
        mean=dual.feature_mean,
        whiten=1 / np.sqrt(s**2 + penalty),
        basis=basis,
        penalty=penalty,
        residual=_squares(inside.T * shares) + _squares(outside.T),
        unfitted=shares.sum(),
        weight=state.rows().weight.sum(),
    )


def _from_sums(state, l2):
    """At least as many rows as units: Cholesky, or eigenvalues."""
    primal = Primal(state)
    system, k = primal.system, state.units
    # Less than this on the diagonal would be lost in rounding.
    penalty = max(primal.penalty(l2), k * _EPS * np.trace(system.gram))
    whiten = _inverse_factor(system.gram, penalty) if state.count > k else None
    if whiten is not None:
        unfitted = penalty * np.einsum("ij,ij->", whiten, whiten)
    else:
        values, vectors = primal.eigen
        values = np.maximum(values, 0.0)
        # The smallest are 0 if there are fewer rows than units: see `span`.
        span = values[max(k - state.count + 1, 0) :]
        unfitted = np.sum(penalty / (span + penalty))
        whiten = vectors / np.sqrt(values + penalty)
    fitted = whiten.T @ system.cross
    residual = system.target_square - _squares(fitted.T)
    residual -= penalty * _squares((whiten @ fitted).T)
    return _Factored(
        mean=system.feature_mean,
        whiten=whiten,
        basis=None,
        penalty=penalty,
        # Where only rounding is left: as much as it may be, never less than 0.
        residual=np.maximum(residual, k * _EPS * system.target_square),
        unfitted=unfitted,
        weight=system.weight,
    )


def _inverse_factor(gram, penalty):
    """`L^-T` of `L L' = G + lambda I`; None if that is too close to singular."""
    lower = gram.copy(order="F")
    lower[np.diag_indices_from(lower)] += penalty
    try:
        lower = linalg.cholesky(lower, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    inverse, info = lapack.dtrtri(lower, lower=1, overwrite_c=1)
    return inverse.T if info == 0 else None


def _squares(rows):
    return np.einsum("ij,ij->i", rows, rows)
