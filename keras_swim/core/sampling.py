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

from keras_swim.core.candidates import (
    TOO_FEW,
    Columns,
    Draw,
    Measure,
    blocks,
    collect,
    equal_targets,
)

SAMPLERS = ("gradient", "uniform", "random")

_CANDIDATES_A_UNIT = 4


class Sample(NamedTuple):
    """What `sample_pairs` returns.

    Attributes:
        pairs: `(k, 2)` row numbers.
        columns: `None`, or a `(k, d)` boolean array: the columns that each
            unit looks at.
    """

    pairs: np.ndarray
    columns: np.ndarray | None


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
        raise ValueError(TOO_FEW.format(n))
    m = int(np.ceil(candidates * n * np.ceil(units / n)))
    if not replace:
        # With as many candidates as units, all would be taken, good or bad.
        m = max(m, _CANDIDATES_A_UNIT * units)
    columns = Columns(x.shape[1], rng, subset_sizes, groups)
    measure = Measure(x, x_norm, y_norm, epsilon, columns)
    pool = None
    if sampler == "gradient":
        draw = Draw(n, rng, mirrored, sample_weight, equal_targets(codes))
        pool = collect(draw, measure, codes, m, units)
    if pool is None:
        # Asked for, or constant targets (also: targets differ only where rows
        # are equal).
        draw = Draw(n, rng, mirrored, sample_weight, np.arange(n))
        pool = collect(draw, measure, None, m, units)
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


def pair_parameters(x, sample, constants, scale=1.0, dtype="float32", offset=0.0):
    """Computes kernel `(d, k)` and bias `(k,)` of the sampled pairs.

    `scale` multiplies both constants; `offset` is added to the bias.

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
    for part in blocks(units, d):
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
        centre = s1 / 2 - s2 + offset
        bias[part] = centre - np.einsum("kd,kd->k", w.astype(np.float64), middle)
    return rows.T, bias


def random_parameters(d, units, rng, scale=1.0, dtype="float32"):
    """Data-agnostic baseline: normal kernel times `scale`, bias in [-pi, pi]."""
    kernel = scale * rng.standard_normal((d, units))
    bias = rng.uniform(-np.pi, np.pi, units)
    return kernel.astype(dtype), bias.astype(dtype)


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
    share /= share.sum()
    if replace:
        return rng.choice(len(share), units, p=share)
    # Logarithms of E / q: weights may differ by any factor.
    keys = np.log(rng.standard_exponential(len(share))) - np.log(weights)
    if len(share) > units:
        first = np.argpartition(keys, units - 1)[:units]
        return first[np.argsort(keys[first], kind="stable")]
    taken = np.argsort(keys, kind="stable")
    # Fewer distinct pairs than units: all of them are repeated, as often as each
    # other. Drawn again at random, some would count several times for no reason.
    return np.resize(taken, units)
