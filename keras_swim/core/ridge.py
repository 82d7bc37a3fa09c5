"""Choosing the penalty of the readout from held-out rows.

Every fold brings the factored problem of the other rows and the means to
score its own. Candidates are compared by squared error, which is smoother than
accuracy and chooses as well. A penalty far too small is a cliff (units about as
many as rows, noisy labels), so the default is never a fixed tiny number.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

SMALLEST, LARGEST = 1e-12, 1e4
_START = 1e-3


class Path(Protocol):
    """A factored problem: kernel and bias of any `l2`."""

    many: bool

    def coefficients(self, l2: float) -> tuple[np.ndarray, np.ndarray]: ...


class Fold(NamedTuple):
    """One held-out fold.

    Attributes:
        path: Factored problem of the rows outside the fold.
        scores: Function from kernel and bias to the `(m, c)` scores of the
            fold's rows.
        targets: `(m, c)`.
        weight: `(m,)`.
    """

    path: Path
    scores: Callable
    targets: np.ndarray
    weight: np.ndarray


class Choice(NamedTuple):
    """The chosen `l2`, and what was tried: `l2 -> mean squared error`."""

    l2: float
    errors: dict[float, float]


def choose_l2(folds):
    """Returns the `Choice` with the smallest held-out squared error.

    Small problems have their eigenvalues, so the whole range is looked at in
    steps of a factor of ten. For large ones every candidate costs a
    factorisation: walk downhill from 1e-3. Both then try the half steps.
    """
    errors: dict[float, float] = {}

    def error(exponent):
        l2 = float(10.0**exponent)
        if l2 not in errors:
            errors[l2] = held_out_error(folds, l2)
        return errors[l2]

    low, high = round(np.log10(SMALLEST)), round(np.log10(LARGEST))
    if all(fold.path.many for fold in folds):
        best = min(range(low, high + 1), key=error)
    else:
        best = round(np.log10(_START))
        # Both ways, and over one bump: the error is nearly but not always
        # unimodal.
        for step in (1, -1):
            at = best
            worse = 0
            while low <= at + step <= high and worse < 2:
                at += step
                if error(at) < error(best):
                    best, worse = at, 0
                else:
                    worse += 1
    for exponent in (best - 0.5, best + 0.5):
        if low <= exponent <= high and error(exponent) < error(best):
            best = exponent
    return Choice(float(10.0**best), dict(sorted(errors.items())))


def held_out_error(folds, l2):
    """Weighted mean squared error over all folds."""
    total = weight = 0.0
    for fold in folds:
        gaps = fold.scores(*fold.path.coefficients(l2)) - fold.targets
        total += float(fold.weight @ np.einsum("mc,mc->m", gaps, gaps))
        weight += float(fold.weight.sum())
    error = total / weight if weight > 0 else np.inf
    return error if np.isfinite(error) else np.inf


def held_out_scores(folds, l2):
    """Scores, targets and weights of all held-out rows, one below another."""
    scores = [fold.scores(*fold.path.coefficients(l2)) for fold in folds]
    return (
        np.concatenate(scores),
        np.concatenate([fold.targets for fold in folds]),
        np.concatenate([fold.weight for fold in folds]),
    )
