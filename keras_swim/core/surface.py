"""Scores of every width and penalty, and the choice among them.

Every held-out row is scored by every width and every penalty. Only sums over
rows are kept, so any number of rows can be scored in blocks.

Shapes: m rows, c outputs, W widths, L penalties.
"""

from dataclasses import dataclass

import numpy as np

RULES = ("best", "one_standard_error")


@dataclass(frozen=True)
class Surface:
    """Held-out scores over widths and penalties, with standard errors.

    Attributes:
        widths: `(W,)` number of units, ascending.
        l2: `(L,)` penalties, ascending, relative to the mean square of the
            features at the largest width.
        loss: `(W, L)` mean over rows of the squared error, summed over outputs.
        loss_error: `(W, L)` standard errors of `loss`.
        accuracy: `(W, L)` share of right answers; `None` for regression.
        accuracy_error: `(W, L)` standard errors of `accuracy`, or `None`.
        rows: Number of rows that were scored.
        limit: Units that rows were judged with at most: scores of larger widths
            are those of this many.
    """

    widths: np.ndarray
    l2: np.ndarray
    loss: np.ndarray
    loss_error: np.ndarray
    accuracy: np.ndarray | None
    accuracy_error: np.ndarray | None
    rows: int
    limit: int | None = None

    def metric(self, name):
        """Values to minimise and their standard errors."""
        if name == "loss":
            return self.loss, self.loss_error
        if name != "accuracy":
            raise ValueError(
                f'`metric` must be "loss" or "accuracy". Received: {name!r}'
            )
        if self.accuracy is None or self.accuracy_error is None:
            raise ValueError(
                '`metric="accuracy"` is for classes. The targets are real numbers: '
                'use `metric="loss"`.'
            )
        return 1.0 - self.accuracy, self.accuracy_error

    def choose(self, metric="loss", rule="best"):
        """Indices of the chosen width and penalty.

        Args:
            metric: `"loss"` or `"accuracy"`.
            rule: `"best"`, or `"one_standard_error"`: the smallest width whose
                best penalty comes within one standard error of the best of
                all.

        Example:

        >>> surface = Surface(
        ...     widths=np.array([10, 20]), l2=np.array([0.1]),
        ...     loss=np.array([[0.32], [0.3]]), loss_error=np.full((2, 1), 0.05),
        ...     accuracy=None, accuracy_error=None, rows=100,
        ... )
        >>> surface.choose(), surface.choose(rule="one_standard_error")
        ((1, 0), (0, 0))
        """
        if rule not in RULES:
            raise ValueError(
                f"`rule` must be one of {', '.join(map(repr, RULES))}. "
                f"Received: rule={rule!r}"
            )
        values, errors = self.metric(metric)
        values = np.where(np.isfinite(values), values, np.inf)
        # Among equals the smallest width, and of its penalties the largest.
        width, back = np.unravel_index(np.argmin(values[:, ::-1]), values.shape)
        l2 = values.shape[1] - 1 - back
        if rule == "one_standard_error":
            close = values[width, l2] + errors[width, l2]
            width = int(np.argmax(values.min(axis=1) <= close))
            l2 = values.shape[1] - 1 - np.argmin(values[width, ::-1])
        elif self.limit is not None and self.widths[width] >= self.limit:
            # As good as could be told, and more units seldom hurt.
            width = len(values) - 1
        return int(width), int(l2)

    def joined(self, other):
        """This surface and one of the same widths at other penalties."""
        order = np.argsort(np.concatenate([self.l2, other.l2]))

        def both(name):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is None:
                return None
            return np.concatenate([mine, theirs], axis=-1)[..., order]

        names = ("l2", "loss", "loss_error", "accuracy", "accuracy_error")
        return Surface(
            widths=self.widths,
            rows=self.rows,
            limit=self.limit,
            **{name: both(name) for name in names},
        )


class Tally:
    """Sums over rows of what a `Surface` shows.

    Args:
        widths, l2: The surface's axes.
        right: `None`, or a function from scores and targets to the share of
            right answers in each row: `same_class` or `same_sides`.
    """

    def __init__(self, widths, l2, right=None):
        self.widths, self.l2 = np.asarray(widths), np.asarray(l2)
        self.right = right
        shape = (len(self.widths), len(self.l2))
        self._losses, self._hits = _Mean(shape), _Mean(shape)
        self.rows = 0
        self._known = None

    def count_rows(self, weight):
        """Adds to the number of rows; once for all widths and penalties."""
        self.rows += int(np.count_nonzero(weight))

    def add(self, scores, targets, weight, where=(slice(None), slice(None)), axis=-1):
        """Adds rows.

        Args:
            scores: `(m, ..., c)`, the middle axes those of `where`. Not needed
                any more afterwards.
            targets: `(m, c)`.
            weight: `(m,)`.
            where: Index of the widths and penalties that were scored.
            axis: 0 if scores come as `(c, ..., m)`.
        """
        targets, one_hot = self._prepared(targets, scores, axis)
        letters = "c...,c...->..." if axis == 0 else "...c,...c->..."
        if self.right is same_class and one_hot:
            # |s - y|^2 = |s|^2 - 2 s'y + 1, and s'y is the score of the row's own
            # class: fewer walks through the scores.
            own = _own_score(scores, targets, axis)
            hits = (own >= scores.max(axis=axis)).astype(own.dtype)
            losses = np.multiply(scores, scores, out=scores).sum(axis=axis)
            losses -= 2 * own
            losses += 1
        else:
            hits = None if self.right is None else self.right(scores, targets, axis)
            gaps = np.subtract(scores, targets, out=scores)
            losses = np.einsum(letters, gaps, gaps)
        self._losses.add(losses, weight, where, axis)
        if hits is not None:
            self._hits.add(hits, weight, where, axis, binary=self.right is same_class)

    def _prepared(self, targets, scores, axis):
        """Targets in the shape and dtype of scores, and whether they are one-hot.

        The same rows come again for other widths: what was found is kept.
        """
        form = scores.dtype, scores.ndim, axis
        known = self._known
        if known is None or known[0] is not targets or known[1] != form:
            middle = (1,) * (scores.ndim - 2)
            shaped = targets.astype(scores.dtype, copy=False)
            if axis == 0:
                shaped = shaped.T.reshape(-1, *middle, len(targets))
            else:
                shaped = shaped.reshape(len(targets), *middle, -1)
            known = targets, form, (shaped, _is_one_hot(shaped, axis))
            self._known = known
        return known[2]

    def surface(self, limit=None):
        accuracy = accuracy_error = None
        if self.right is not None:
            accuracy, accuracy_error = self._hits.result()
        return Surface(
            self.widths,
            self.l2,
            *self._losses.result(),
            accuracy,
            accuracy_error,
            self.rows,
            limit,
        )


class _Mean:
    """Weighted means over rows and their standard errors."""

    def __init__(self, shape):
        self.weight, self.squared = np.zeros(shape), np.zeros(shape)
        self.first, self.cross, self.second = (np.zeros(shape) for _ in range(3))

    def add(self, values, weight, where, axis, binary=False):
        """Adds rows; `binary` says that all values are 0 or 1."""
        squared = weight**2
        self.weight[where] += weight.sum()
        self.squared[where] += squared.sum()
        rows = values.ndim - 1 if axis == 0 else 0
        # Weights in the values' dtype: a mixed product would copy the values.
        weight, squared = weight.astype(values.dtype), squared.astype(values.dtype)
        first = np.tensordot(values, weight, (rows, 0))
        cross = weight[0] * first
        if np.any(weight != weight[0]):
            cross = np.tensordot(values, squared, (rows, 0))
        self.first[where] += first
        self.cross[where] += cross
        self.second[where] += (
            cross if binary else np.tensordot(values * values, squared, (rows, 0))
        )

    def result(self):
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = self.first / self.weight
            # Sum of w^2 (value - mean)^2.
            spread = self.second - 2 * mean * self.cross + mean**2 * self.squared
            return mean, np.sqrt(np.maximum(spread, 0.0)) / self.weight


def _is_one_hot(targets, axis):
    return bool(np.all((targets == 0) | (targets == 1))) and bool(
        np.all(targets.sum(axis=axis) == 1)
    )


def _own_score(scores, targets, axis):
    """The score of each row's own class."""
    labels = targets.argmax(axis=axis)
    if axis == 0:
        # Numbers in the flat array: several times as fast as an index of tuples.
        inner = scores[0].size
        return scores.ravel().take(
            labels * inner + np.arange(inner).reshape(scores[0].shape)
        )
    return np.take_along_axis(scores, labels[..., None], axis=-1)[..., 0]


def same_class(scores, targets, axis=-1):
    """Whether the largest score is that of the row's class."""
    own = _own_score(scores, targets, axis)
    return (own >= scores.max(axis=axis)).astype(float)


def same_sides(scores, targets, axis=-1):
    """Share of outputs whose score is on the target's side of 1/2."""
    return ((scores > 0.5) == (targets > 0.5)).mean(axis=axis)
