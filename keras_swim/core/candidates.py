"""Candidate pairs: which rows may form a unit, and what each pair weighs.

Pairs are drawn among rows of different targets, looked at once, and measured:
the weight is q of `keras_swim.core.sampling`. Candidates are many and rows may be
long, so nothing of size m * d is ever made.

Shapes: n rows, d inputs, m candidates.
"""

from typing import NamedTuple

import numpy as np

from keras_swim.core.targets import differences

# Elements of x handled at once.
_BLOCK_ELEMENTS = 1 << 19

# How often more candidates are drawn when too many of them were drawn before
# or join equal rows.
_MOST_ROUNDS = 8

TOO_FEW = (
    "Expected two or more rows (of positive weight) to form a pair. "
    "Received: {}. Pass more rows."
)


class Candidates(NamedTuple):
    """Distinct pairs `(m, 2)`, their weights, and the columns of each."""

    rows: np.ndarray
    weights: np.ndarray
    subsets: np.ndarray | None


class Draw:
    """Draws pairs of rows that belong to different sets.

    The rows are sorted by set. A pair `(i, j)` is drawn in proportion to
    `w_i w_j`: `i` by its weight times that of all other sets, `j` by a point on
    the line of weights from which the set of `i` is cut out.
    """

    def __init__(self, n, rng, mirrored, sample_weight, sets):
        self.n, self.rng, self.mirrored = n, rng, mirrored
        weight = np.ones(n) if sample_weight is None else sample_weight
        usable = np.flatnonzero(weight)
        if len(usable) < 2:
            raise ValueError(TOO_FEW.format(len(usable)))
        self.order = usable[np.argsort(sets[usable], kind="stable")]
        self.weight = np.asarray(weight, dtype=np.float64)[self.order]
        in_order = sets[self.order]
        self.start = np.searchsorted(in_order, in_order, side="left")
        self.stop = np.searchsorted(in_order, in_order, side="right")
        self.line = np.concatenate([[0.0], np.cumsum(self.weight)])

    @property
    def total(self):
        """How many pairs there are."""
        count = int((len(self.order) - (self.stop - self.start)).sum())
        return count // 2 if self.mirrored else count

    def all_pairs(self):
        """Every pair, and how often it counts."""
        later = len(self.order) - self.stop
        i = np.repeat(np.arange(len(self.order)), later)
        j = np.arange(len(i)) + np.repeat(self.stop - np.cumsum(later) + later, later)
        if self.mirrored:
            # A random direction each, so that the units' signs are no artefact.
            flip = self.rng.random(len(i)) < 0.5
            i, j = np.where(flip, j, i), np.where(flip, i, j)
        else:
            i, j = np.concatenate([i, j]), np.concatenate([j, i])
        often = self.weight[i] * self.weight[j]
        return np.stack([self.order[i], self.order[j]], axis=1), often

    def some_pairs(self, m):
        own = self.line[self.stop] - self.line[self.start]
        share = np.cumsum(self.weight * (self.line[-1] - own))
        i = self._at(share, self.rng.random(m) * share[-1])
        point = self.rng.random(m) * (self.line[-1] - own[i])
        point += np.where(point < self.line[self.start[i]], 0.0, own[i])
        j = self._at(self.line[1:], point)
        # Rounding may put a point on the wrong side of a set's end.
        good = (j < self.start[i]) | (j >= self.stop[i])
        return np.stack([self.order[i[good]], self.order[j[good]]], axis=1)

    @staticmethod
    def _at(line, points):
        return np.minimum(np.searchsorted(line, points, side="right"), len(line) - 1)


class Columns:
    """Which columns a candidate looks at: all, or a few random features."""

    def __init__(self, d, rng, subset_sizes, groups):
        self.rng = rng
        self.groups = np.arange(d) if groups is None else np.asarray(groups)
        self.names = np.unique(self.groups)
        self.sizes = None
        if subset_sizes is not None and any(subset_sizes):
            # A subset of all features is no restriction: 0 says the same.
            sizes = np.asarray(subset_sizes, dtype=int)
            self.sizes = np.where(sizes >= len(self.names), 0, sizes)

    def draw(self, m):
        """(m, largest size) sorted feature numbers, -1 where unused."""
        if self.sizes is None:
            return None
        sizes = self.rng.choice(self.sizes, size=m)
        chosen = np.full((m, max(self.sizes.max(), 1)), -1, dtype=np.int64)
        for size in np.unique(sizes[sizes > 0]):
            at = np.flatnonzero(sizes == size)
            for part in blocks(len(at), len(self.names)):
                order = self.rng.random((len(at[part]), len(self.names)))
                first = np.argpartition(order, size - 1, axis=1)[:, :size]
                chosen[at[part], :size] = np.sort(self.names[first], axis=1)
        return chosen

    def masks(self, subsets):
        masks = (subsets[:, :, None] == self.groups).any(axis=1)
        masks[(subsets < 0).all(axis=1)] = True
        return masks


class Measure:
    """Distances of pairs, and from them the weights."""

    def __init__(self, x, x_norm, y_norm, epsilon, columns):
        self.x, self.x_norm, self.y_norm = x, x_norm, y_norm
        self.epsilon, self.columns = epsilon, columns

    def distances(self, rows, subsets):
        distance = np.empty(len(rows))
        for part in blocks(len(rows), self.x.shape[1]):
            step = self.x[rows[part, 1]].astype(np.float64)
            step -= self.x[rows[part, 0]]
            if subsets is not None:
                step *= self.columns.masks(subsets[part])
            distance[part] = _norm(step, self.x_norm)
        return distance

    def weights(self, codes, rows, distance):
        """q, or 1 if there are no codes."""
        if codes is None:
            return np.ones(len(rows))
        gaps = differences(codes, rows[:, 0], rows[:, 1], self.y_norm)
        floor = self.epsilon * np.median(distance)
        with np.errstate(over="ignore"):
            q = gaps / np.maximum(distance, floor)
        return np.minimum(q, np.finfo(np.float64).max / (1 + len(q)))


def equal_targets(codes):
    """Numbers the sets of rows with equal targets, by their first row.

    The draw depends on these numbers, so they must not depend on how classes
    are called: labels and one-hot codes give the same pairs.
    """
    axis = None if codes.ndim == 1 else 0
    _, first, sets = np.unique(codes, axis=axis, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[sets.ravel()]


def collect(draw, measure, codes, m, units):
    """Distinct candidates at a distance, enough for `units`; None if none."""
    if not draw.total:
        return None
    if measure.columns.sizes is None and draw.total <= m:
        rows, often = draw.all_pairs()
        distance = measure.distances(rows, None)
        rows, often, distance = (part[distance > 0] for part in (rows, often, distance))
        if not len(rows):
            return None
        return Candidates(rows, often * measure.weights(codes, rows, distance), None)
    rows, distance, subsets = None, None, None
    for _ in range(_MOST_ROUNDS):
        new = draw.some_pairs(m)
        chosen = measure.columns.draw(len(new))
        rows = new if rows is None else np.concatenate([rows, new])
        if chosen is not None:
            chosen = chosen if subsets is None else np.concatenate([subsets, chosen])
        first = _first_of_each(rows, chosen, draw)
        known = 0 if distance is None else len(distance)
        rows, subsets = rows[first], None if chosen is None else chosen[first]
        fresh = measure.distances(
            rows[known:], None if subsets is None else subsets[known:]
        )
        distance = fresh if distance is None else np.concatenate([distance, fresh])
        if (distance > 0).sum() >= units:
            break
        m *= 2
    apart = distance > 0
    if not apart.any():
        return None
    rows, distance = rows[apart], distance[apart]
    return Candidates(
        rows,
        measure.weights(codes, rows, distance),
        None if subsets is None else subsets[apart],
    )


def _first_of_each(rows, subsets, draw):
    """Where each distinct candidate occurs first, in the order of drawing."""
    rows = np.sort(rows, axis=1) if draw.mirrored else rows
    key = rows[:, 0] * np.int64(draw.n) + rows[:, 1]
    if subsets is None:
        return np.sort(np.unique(key, return_index=True)[1])
    key = np.column_stack([key, subsets])
    return np.sort(np.unique(key, axis=0, return_index=True)[1])


def _norm(step, order):
    if order == 2:
        largest = np.abs(step).max(axis=1)
        # Rows of tiny or huge numbers: their squares would not fit.
        if np.any((largest > 0) & ((largest < 1e-140) | (largest > 1e140))):
            scaled = step / np.where(largest > 0, largest, 1.0)[:, None]
            return largest * np.sqrt(np.einsum("md,md->m", scaled, scaled))
        return np.sqrt(np.einsum("md,md->m", step, step))
    return np.linalg.norm(step, ord=order, axis=1)


def blocks(count, width):
    size = max(1, _BLOCK_ELEMENTS // max(1, width))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
