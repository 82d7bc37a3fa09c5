"""Pairs of rows -> the kernel and bias of a layer.

A unit is made from two rows `a != b` of the layer's input:

    w = s1 (b - a) / |b - a|^2        bias = -<w, a> - s2

Which pairs? Candidates are drawn uniformly among the pairs whose targets differ
(the others weigh nothing); a candidate `(i, j)` weighs

    q = |y_j - y_i| / max(|x_j - x_i|, eps)      q = 0 where x_i == x_j

so units gather where the target changes over a short distance. Units are then
drawn in proportion to `q`: with replacement, as in the paper, or (the default)
without. For the latter every distinct candidate gets the key `E / q`,
`E ~ Exp(1)`, and the smallest keys win. That is weighted sampling without
replacement; it needs no loop, and the first `k' < k` units are themselves a
sample of size `k'`.

Shapes: n rows, d inputs, k units, m candidates.

Reference: Bolager et al., 2023, arXiv:2306.16830.
"""

from typing import NamedTuple

import numpy as np

from keras_swim.core.targets import differences

SAMPLERS = ("gradient", "uniform", "random")

# Elements of x handled at once: candidates are many and rows may be long, so
# nothing of size m * d is ever made.
_BLOCK_ELEMENTS = 1 << 19

_CANDIDATES_A_UNIT = 4

# How often more candidates are drawn when too many of them were drawn before
# or join equal rows.
_MOST_ROUNDS = 8


_TOO_FEW = (
    "Expected two or more rows (of positive weight) to form a pair. "
    "Received: {}. Pass more rows."
)


class Sample(NamedTuple):
    """What `sample_pairs` returns.

    Attributes:
        pairs: `(k, 2)` row numbers.
        columns: `None`, or a `(k, d)` boolean array: the columns that each
            unit looks at.
    """

    pairs: np.ndarray
    columns: np.ndarray | None


class _Candidates(NamedTuple):
    """Distinct pairs `(m, 2)`, their weights, and the columns of each."""

    rows: np.ndarray
    weights: np.ndarray
    subsets: np.ndarray | None


def sample_pairs(
    x,
    codes,
    units,
    rng,
    *,
    sampler="gradient",
    candidates=1,
    x_norm=2,
    y_norm=np.inf,
    mirrored=False,
    replace=False,
    epsilon=0.0,
    sample_weight=None,
    subset_sizes=None,
    groups=None,
):
    """Draws the pair of rows behind each unit.

    Args:
        x: `(n, d)` array, the layer's input.
        codes: `(n,)` integer class codes or `(n, c)` real targets
            (see `keras_swim.core.targets.encode`).
        units: Integer k, how many pairs.
        rng: `numpy.random.Generator`.
        sampler: `"gradient"` (in proportion to q) or `"uniform"`.
        candidates: Number of candidate pairs as a multiple of
            `n * ceil(k / n)`; without replacement at least four a unit.
        x_norm, y_norm: Norms in q: 1, 2 or `numpy.inf`.
        mirrored: Whether `(a, b)` and `(b, a)` count as one pair.
        replace: Whether a pair may be drawn more than once.
        epsilon: Smallest distance in q, as a multiple of the median distance.
        sample_weight: `None` or `(n,)`; a row of weight 2 counts as two rows.
        subset_sizes: `None` or a list of integers. Every unit takes one of
            them; 0 keeps all columns, s > 0 keeps s random ones.
        groups: `None` or `(d,)` integers; columns with the same number are
            kept or dropped together.

    Returns:
        A `Sample`.
    """
    n = x.shape[0]
    if n < 2:
        raise ValueError(_TOO_FEW.format(n))
    m = int(np.ceil(candidates * n * np.ceil(units / n)))
    if not replace:
        # With as many candidates as units, all would be taken, good or bad.
        m = max(m, _CANDIDATES_A_UNIT * units)
    columns = _Columns(x.shape[1], rng, subset_sizes, groups)
    measure = _Measure(x, x_norm, y_norm, epsilon, columns)
    pool = None
    if sampler == "gradient":
        draw = _Draw(n, rng, mirrored, sample_weight, _same(codes))
        pool = _collect(draw, measure, codes, m, units)
    if pool is None:
        # Asked for, or constant targets (also: targets differ only where rows
        # are equal).
        draw = _Draw(n, rng, mirrored, sample_weight, np.arange(n))
        pool = _collect(draw, measure, None, m, units)
    if pool is None:
        raise ValueError(
            "Expected at least two distinct rows to form a pair. Received: "
            f"{n} row(s) of {x.shape[1]} columns, all equal. Constant "
            "features cannot be sampled: check the data and the layers before "
            "this one."
        )
    chosen = _choose(pool, columns, units, replace, rng)
    masks = None if pool.subsets is None else columns.masks(pool.subsets[chosen])
    return Sample(pool.rows[chosen], masks)


def pair_parameters(x, sample, constants, scale=1.0, dtype="float32"):
    """Computes kernel `(d, k)` and bias `(k,)` of the sampled pairs.

    The bias is computed in float64 for the kernel as it is after rounding to
    `dtype`, at the midpoint of the pair. That keeps the unit centred when rows
    are long and close together, where rounding the kernel alone would move it.

    Example:

    >>> x = np.array([[0.0], [2.0]])
    >>> sample = Sample(np.array([[0, 1]]), None)
    >>> kernel, bias = pair_parameters(x, sample, (1.0, 0.0, False))
    >>> float(kernel[0, 0]), float(bias[0])
    (0.5, 0.0)
    """
    s1, s2 = scale * constants[0], scale * constants[1]
    pairs, columns = sample
    units, d = pairs.shape[0], x.shape[1]
    rows = np.empty((units, d), dtype=dtype)
    bias = np.empty(units, dtype=dtype)
    for part in _blocks(units, d):
        a = x[pairs[part, 0]].astype(np.float64)
        b = x[pairs[part, 1]].astype(np.float64)
        step = b - a
        if columns is not None:
            step *= columns[part]
        # Dividing by the largest entry first keeps squares of tiny distances
        # from underflowing.
        largest = np.abs(step).max(axis=1, keepdims=True)
        unit = step / largest
        w = s1 * unit / (np.einsum("kd,kd->k", unit, unit)[:, None] * largest)
        with np.errstate(over="ignore"):  # The layer looks for infinities.
            w = w.astype(dtype)
        rows[part] = w
        middle = 0.5 * (a + b)
        bias[part] = s1 / 2 - s2 - np.einsum("kd,kd->k", w.astype(np.float64), middle)
    return rows.T, bias


def random_parameters(d, units, rng, scale=1.0, dtype="float32"):
    """Data-agnostic baseline: normal kernel times `scale`, bias in [-pi, pi]."""
    kernel = scale * rng.standard_normal((d, units))
    bias = rng.uniform(-np.pi, np.pi, units)
    return kernel.astype(dtype), bias.astype(dtype)


class _Draw:
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
            raise ValueError(_TOO_FEW.format(len(usable)))
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
        return np.stack([self.order[i], self.order[j]], 1), self.weight[
            i
        ] * self.weight[j]

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


class _Columns:
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
            for part in _blocks(len(at), len(self.names)):
                order = self.rng.random((len(at[part]), len(self.names)))
                first = np.argpartition(order, size - 1, axis=1)[:, :size]
                chosen[at[part], :size] = np.sort(self.names[first], axis=1)
        return chosen

    def masks(self, subsets):
        masks = (subsets[:, :, None] == self.groups).any(axis=1)
        masks[(subsets < 0).all(axis=1)] = True
        return masks


class _Measure:
    """Distances of pairs, and from them the weights."""

    def __init__(self, x, x_norm, y_norm, epsilon, columns):
        self.x, self.x_norm, self.y_norm = x, x_norm, y_norm
        self.epsilon, self.columns = epsilon, columns

    def distances(self, rows, subsets):
        distance = np.empty(len(rows))
        for part in _blocks(len(rows), self.x.shape[1]):
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


def _same(codes):
    """Numbers the sets of rows with equal targets, by their first row.

    The draw depends on these numbers, so they must not depend on how classes
    are called: labels and one-hot codes give the same pairs.
    """
    axis = None if codes.ndim == 1 else 0
    _, first, sets = np.unique(codes, axis=axis, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[sets.ravel()]


def _collect(draw, measure, codes, m, units):
    """Distinct candidates at a distance, enough for `units`; None if none."""
    if not draw.total:
        return None
    if measure.columns.sizes is None and draw.total <= m:
        rows, often = draw.all_pairs()
        distance = measure.distances(rows, None)
        rows, often, distance = (part[distance > 0] for part in (rows, often, distance))
        if not len(rows):
            return None
        return _Candidates(rows, often * measure.weights(codes, rows, distance), None)
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
    return _Candidates(
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


def _choose(pool, columns, units, replace, rng):
    """Numbers of the chosen candidates, one a unit."""
    if pool.subsets is None:
        return _ranked(pool.weights, units, replace, rng)
    # Short differences weigh more: each size of subset keeps its share only if
    # its units are chosen among its own candidates.
    wanted = rng.choice(columns.sizes, size=units)
    sizes = (pool.subsets >= 0).sum(axis=1)
    chosen = np.full(units, -1)
    for size in np.unique(wanted):
        here = np.flatnonzero(sizes == size)
        if len(here):
            mine = np.flatnonzero(wanted == size)
            chosen[mine] = here[_ranked(pool.weights[here], len(mine), replace, rng)]
    missing = np.flatnonzero(chosen < 0)
    if len(missing):
        chosen[missing] = _ranked(pool.weights, len(missing), replace, rng)
    return chosen


def _ranked(weights, units, replace, rng):
    share = weights / weights.max()
    if replace:
        return rng.choice(len(share), units, p=share / share.sum())
    with np.errstate(over="ignore"):
        keys = rng.standard_exponential(len(share)) / share
    if len(share) > units:
        first = np.argpartition(keys, units - 1)[:units]
        return first[np.argsort(keys[first], kind="stable")]
    taken = np.argsort(keys, kind="stable")
    # Fewer distinct pairs than units: the rest must repeat some of them.
    again = rng.choice(len(share), units - len(taken), p=share / share.sum())
    return np.concatenate([taken, again])


def _blocks(count, width):
    size = max(1, _BLOCK_ELEMENTS // max(1, width))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
