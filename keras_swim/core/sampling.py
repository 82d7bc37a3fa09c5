"""Pairs of rows -> the kernel and bias of a layer.

A unit is made from two rows `a != b` of the layer's input:

    w = s1 (b - a) / |b - a|^2        bias = -<w, a> - s2

Which pairs? Candidates are drawn uniformly; a candidate `(i, j)` weighs

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
_BLOCK_ELEMENTS = 1 << 21

# How many times more candidates may be looked at when few of them have
# different targets (one rare class among many rows).
_MOST_ROUNDS = 64


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
    """`(m, 2)` rows, the gap between their targets, the subset of each."""

    rows: np.ndarray
    gaps: np.ndarray
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
            `n * ceil(k / n)`.
        x_norm, y_norm: Norms in q: 1, 2 or `numpy.inf`.
        mirrored: Whether `(a, b)` and `(b, a)` count as one pair.
        replace: Whether a pair may be drawn more than once.
        epsilon: Smallest distance in q, as a multiple of the median distance.
        sample_weight: `None` or `(n,)`; a row of weight 2 counts as two rows.
        subset_sizes: `None` or a list of integers. Every candidate takes one
            of them; 0 keeps all columns, s > 0 keeps s random ones.
        groups: `None` or `(d,)` integers; columns with the same number are
            kept or dropped together.

    Returns:
        A `Sample`.
    """
    n = x.shape[0]
    m = int(np.ceil(candidates * n * np.ceil(units / n)))
    draw = _Draw(n, rng, mirrored, sample_weight, subset_sizes, groups, x.shape[1])
    if sampler == "uniform":
        codes = None
    pool = _collect(draw, codes, m, units, y_norm)
    weights = _pair_weights(x, pool, draw, x_norm, epsilon)
    if not weights.any():
        # Constant targets, or pairs of different targets only at distance 0.
        pool = _collect(draw, None, m, units, y_norm)
        weights = _pair_weights(x, pool, draw, x_norm, epsilon)
    if not weights.any():
        raise ValueError(
            "Expected at least two distinct rows to form a pair. Received: "
            f"{n} row(s) of {x.shape[1]} columns, all equal. Constant "
            "features cannot be sampled: check the data and the layers before "
            "this one."
        )
    chosen = _choose(weights, units, replace, rng)
    columns = None
    if pool.subsets is not None:
        columns = draw.column_masks(pool.subsets[chosen])
    return Sample(pool.rows[chosen], columns)


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
    kernel = np.empty((d, units), dtype=dtype)
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
        w = w.astype(dtype)
        kernel[:, part] = w.T
        middle = 0.5 * (a + b)
        bias[part] = s1 / 2 - s2 - np.einsum("kd,kd->k", w.astype(np.float64), middle)
    return kernel, bias


def random_parameters(d, units, rng, scale=1.0, dtype="float32"):
    """Data-agnostic baseline: normal kernel times `scale`, bias in [-pi, pi]."""
    kernel = scale * rng.standard_normal((d, units))
    bias = rng.uniform(-np.pi, np.pi, units)
    return kernel.astype(dtype), bias.astype(dtype)


class _Draw:
    """Draws candidate pairs, and knows how many there are."""

    def __init__(self, n, rng, mirrored, sample_weight, subset_sizes, groups, d):
        self.n, self.rng, self.mirrored = n, rng, mirrored
        self.weight = sample_weight
        self.usable = np.arange(n)
        if sample_weight is not None:
            self.usable = np.flatnonzero(sample_weight)
        if len(self.usable) < 2:
            raise ValueError(
                "Expected two or more rows (of positive weight) to form a "
                f"pair. Received: {len(self.usable)}. Pass more rows."
            )
        self.groups = np.arange(d) if groups is None else np.asarray(groups)
        self.names = np.unique(self.groups)
        self.sizes = None
        if subset_sizes is not None and any(subset_sizes):
            # A subset of all features is no restriction: 0 says the same.
            sizes = np.asarray(subset_sizes, dtype=int)
            self.sizes = np.where(sizes >= len(self.names), 0, sizes)

    @property
    def total(self):
        """How many pairs of rows there are, or None where that is no bound."""
        if self.sizes is not None:
            return None
        count = len(self.usable) * (len(self.usable) - 1)
        return count // 2 if self.mirrored else count

    def all_pairs(self):
        low, high = np.triu_indices(len(self.usable), k=1)
        if self.mirrored:
            # A random direction each, so that the units' signs are no artefact.
            flip = self.rng.random(len(low)) < 0.5
            low, high = np.where(flip, high, low), np.where(flip, low, high)
        else:
            low, high = np.concatenate([low, high]), np.concatenate([high, low])
        return self.usable[np.stack([low, high], axis=1)]

    def some_pairs(self, m):
        count = len(self.usable)
        i = self.rng.integers(count, size=m)
        j = (i + 1 + self.rng.integers(count - 1, size=m)) % count
        return self.usable[np.stack([i, j], axis=1)]

    def multiplicity(self, rows):
        """How often a pair counts: a row of weight 2 stands for two rows."""
        if self.weight is None:
            return 1.0
        return self.weight[rows[:, 0]] * self.weight[rows[:, 1]]

    def subsets(self, m):
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

    def column_masks(self, subsets):
        masks = (subsets[:, :, None] == self.groups).any(axis=1)
        masks[(subsets < 0).all(axis=1)] = True
        return masks


def _collect(draw, codes, m, units, y_norm):
    """Distinct candidates with different targets, enough for `units` of them.

    `codes=None` accepts every pair. Candidates with equal targets weigh
    nothing, so they are dropped before any distance is computed.
    """
    if draw.total is not None and draw.total <= m:
        rows = draw.all_pairs()
        gaps = _gaps(codes, rows, y_norm)
        return _Candidates(rows[gaps > 0], gaps[gaps > 0], None)
    pool = None
    looked_at = 0
    while pool is None or (len(pool.rows) < units and looked_at < _MOST_ROUNDS * m):
        # Each round looks at as many as all rounds before it together.
        count = max(m, looked_at)
        rows = draw.some_pairs(count)
        gaps = _gaps(codes, rows, y_norm)
        subsets = draw.subsets(len(rows))
        keep = gaps > 0
        new = _Candidates(
            rows[keep], gaps[keep], None if subsets is None else subsets[keep]
        )
        pool = _distinct(new if pool is None else _joined(pool, new), draw)
        looked_at += count
        if draw.total is not None and len(pool.rows) == draw.total:
            break
    return pool


def _gaps(codes, rows, y_norm):
    if codes is None:
        return np.ones(len(rows))
    return differences(codes, rows[:, 0], rows[:, 1], y_norm)


def _joined(first, second):
    subsets = None
    if first.subsets is not None:
        subsets = np.concatenate([first.subsets, second.subsets])
    return _Candidates(
        np.concatenate([first.rows, second.rows]),
        np.concatenate([first.gaps, second.gaps]),
        subsets,
    )


def _distinct(pool, draw):
    rows = np.sort(pool.rows, axis=1) if draw.mirrored else pool.rows
    key = rows[:, 0] * np.int64(draw.n) + rows[:, 1]
    if pool.subsets is None:
        first = np.unique(key, return_index=True)[1]
    else:
        key = np.column_stack([key, pool.subsets])
        first = np.unique(key, axis=0, return_index=True)[1]
    first.sort()
    subsets = None if pool.subsets is None else pool.subsets[first]
    return _Candidates(pool.rows[first], pool.gaps[first], subsets)


def _pair_weights(x, pool, draw, x_norm, epsilon):
    """q of every candidate."""
    distance = np.empty(len(pool.rows))
    for part in _blocks(len(pool.rows), x.shape[1]):
        rows = pool.rows[part]
        step = x[rows[:, 1]].astype(np.float64)
        step -= x[rows[:, 0]]
        if pool.subsets is not None:
            step *= draw.column_masks(pool.subsets[part])
        distance[part] = _norm(step, x_norm)
    apart = distance > 0
    if not apart.any():
        return np.zeros(len(distance))
    floor = epsilon * np.median(distance[apart])
    with np.errstate(divide="ignore", over="ignore"):
        weights = np.where(apart, pool.gaps / np.maximum(distance, floor), 0.0)
    weights *= draw.multiplicity(pool.rows)
    weights = np.minimum(weights, np.finfo(np.float64).max / (1 + len(weights)))
    if pool.subsets is not None:
        # Short differences weigh more; without this the smallest subsets
        # would win every unit.
        sizes = (pool.subsets >= 0).sum(axis=1)
        for size in np.unique(sizes):
            here = sizes == size
            weights[here] /= weights[here].mean() or 1.0
    return weights


def _norm(step, order):
    if order == 2:
        largest = np.abs(step).max(axis=1)
        # Rows of tiny or huge numbers: their squares would not fit.
        if np.any((largest > 0) & ((largest < 1e-140) | (largest > 1e140))):
            scaled = step / np.where(largest > 0, largest, 1.0)[:, None]
            return largest * np.sqrt(np.einsum("md,md->m", scaled, scaled))
        return np.sqrt(np.einsum("md,md->m", step, step))
    return np.linalg.norm(step, ord=order, axis=1)


def _choose(weights, units, replace, rng):
    possible = np.flatnonzero(weights)
    share = weights[possible] / weights[possible].max()
    if replace:
        return possible[rng.choice(len(possible), units, p=share / share.sum())]
    with np.errstate(over="ignore"):
        keys = rng.standard_exponential(len(possible)) / share
    if len(possible) > units:
        first = np.argpartition(keys, units - 1)[:units]
        return possible[first[np.argsort(keys[first], kind="stable")]]
    taken = possible[np.argsort(keys, kind="stable")]
    # Fewer distinct pairs than units: the rest must repeat some of them.
    again = rng.choice(len(possible), units - len(taken), p=share / share.sum())
    return np.concatenate([taken, possible[again]])


def _blocks(count, width):
    size = max(1, _BLOCK_ELEMENTS // max(1, width))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
