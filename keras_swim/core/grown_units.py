"""Product units grown like a tree, by what each condition would gain.

A unit is an "and" of conditions on single columns, each a steep logistic step. All
rows start in one region. In each region the step is found that would lower the loss
most, among steps in many columns and at many values, and cuts the region in two; so
`terms` conditions make `2 ** terms` products that share the space among them. This
is what sharp thresholds in a few columns ask for; random steps seldom hit them.

A step stands half way between two neighbouring values. The pair of a unit is the row
of the least gradient on the other side of its last step, and the row of the largest
gradient inside: the product is smaller at the first than at the second.

Values are put in at most `_BINS` bins once; sums over bins then give the gains of all
steps at once (as in LightGBM). Several outputs: each tree looks at one of them, drawn
in proportion to the squares of its gradient.

Shapes: n rows, d columns, b bins, k units.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from keras_swim.core.boost_units import ALWAYS, ProductUnits

_BINS = 32
# Columns that a tree looks at: this share, for trees to differ, and a bounded number.
_SHARE = 0.5
_FEWEST_COLUMNS, _MOST_COLUMNS = 4, 64
# A step rises from 2 % to 98 % between two values. If these are closer than this, in
# standard deviations, it takes more room, as much as the next cut leaves: smooth
# columns want no cliffs, while in skewed ones most values are close together.
_STEEPNESS = 4.0
_CLOSEST = 0.1
# Steeper ones float32 cannot compute.
_SHARPEST = 1e-3
_SMALLEST_CURVATURE = 1e-3


class Bins(NamedTuple):
    """Where the columns may be cut.

    Attributes:
        codes: `(d, n)` number of cuts below each value.
        cuts: `(d, b)` float32, in rising order, then zeros.
        gaps: `(d, b)` float32, room that a step at each cut takes.
    """

    codes: np.ndarray
    cuts: np.ndarray
    gaps: np.ndarray


def find_bins(x):
    """`Bins` of `(d, n)` columns, about as many rows in each.

    Example:

    >>> bins = find_bins(np.array([[1.0, 4.0, 1.0, 2.0]], dtype="float32"))
    >>> bins.cuts[0, :2].tolist(), bins.codes[0].tolist()
    ([1.5, 3.0], [0, 2, 0, 1])
    """
    d, n = x.shape
    codes = np.empty((d, n), dtype=np.int16)
    cuts, gaps = np.zeros((2, d, _BINS), dtype="float32")
    for column, values in enumerate(x):
        distinct, counts = np.unique(values, return_counts=True)
        below = np.cumsum(counts)[:-1]
        at = np.arange(len(below))
        if len(below) >= _BINS:
            wanted = np.arange(1, _BINS) * (n / _BINS)
            at = np.unique(np.minimum(np.searchsorted(below, wanted), len(below) - 1))
        low, high = distinct[at], distinct[at + 1]
        middle = low + 0.5 * (high - low)
        cuts[column, : len(at)] = middle
        gaps[column, : len(at)] = np.maximum(high - low, _room(middle))
        # To the right of a cut are the values above the lower of the two.
        codes[column] = np.searchsorted(low, values, side="left")
    return Bins(codes, cuts, gaps)


def _room(cuts):
    """Least room of a step at each of the cuts of a column."""
    nearest = np.full(len(cuts), _CLOSEST)
    between = np.diff(cuts)
    nearest[1:] = np.minimum(nearest[1:], between)
    nearest[:-1] = np.minimum(nearest[:-1], between)
    return np.maximum(nearest, _SHARPEST)


def grow_product_units(problem, bins, count, rng, terms, view):
    """`ProductUnits`, 2 ** terms from each tree.

    Args:
        problem: `Problem`.
        bins: `Bins` of the problem's columns.
        count: Number of units.
        rng: `numpy.random.Generator`.
        terms: Number of steps in a product.
        view: Name of the view.
    """
    trees = [_grow(problem, bins, rng, terms) for _ in range(-(-count // 2**terms))]
    parts = (np.concatenate(part)[:count] for part in zip(*trees, strict=True))
    return ProductUnits(view, *parts)


def _grow(problem, bins, rng, terms):
    """Columns, slopes and offsets `(k, t)` and pairs `(k, 2)` of a tree's units."""
    gradient, curvature = _one_output(problem, rng)
    columns = _some_columns(len(bins.codes), rng)
    codes = bins.codes[columns, problem.rows].astype(np.intp)
    penalty = problem.penalty * len(gradient) / problem.x.shape[1]
    sums = _Sums(codes, gradient, curvature, penalty)
    rows = np.arange(len(gradient))
    region = np.zeros(len(rows), dtype=np.intp)
    steps = []
    for term in range(terms):
        best, better = sums.best_cuts(region, 2**term)
        column, cut = np.divmod(best, _BINS)
        right = (codes[column[region], rows] > cut[region]) & better[region]
        column = columns[column]
        # Where nothing is better, the best cut may be none at all.
        slope = _STEEPNESS * 2 / np.where(better, bins.gaps[column, cut], 1.0)
        slope = np.where(better, slope, 0.0)
        offset = -slope * bins.cuts[column, cut]
        # The left half, then the right one; a region that nothing gains to cut
        # stays whole, in both.
        step = (
            np.repeat(column, 2),
            np.stack([-slope, slope], axis=1).ravel(),
            np.stack([-offset, offset], axis=1).ravel(),
        )
        step[2][np.repeat(~better, 2)] = ALWAYS
        steps = [tuple(np.repeat(part, 2) for part in one) for one in steps] + [step]
        region = 2 * region + right
    parts = [np.stack(part, axis=1) for part in zip(*steps, strict=True)]
    parts[1:] = [part.astype("float32") for part in parts[1:]]
    pairs = _pairs(parts, problem.x[:, problem.rows], region, gradient)
    return *parts, pairs + problem.rows.start


def _one_output(problem, rng):
    gradient = problem.gradient[problem.rows]
    output = 0
    if gradient.shape[1] > 1:
        squares = np.cumsum(np.einsum("nc,nc->c", gradient, gradient, dtype=float))
        output = np.searchsorted(squares, rng.random() * squares[-1])
        output = min(int(output), gradient.shape[1] - 1)
    curvature = problem.curvature[problem.rows]
    return gradient[:, output].astype(float), curvature[:, output].astype(float)


def _some_columns(d, rng):
    count = min(max(int(np.ceil(_SHARE * d)), _FEWEST_COLUMNS), _MOST_COLUMNS)
    return rng.permutation(d)[:count]


class _Sums:
    """Sums of gradient and curvature over bins, and the gains of cuts."""

    def __init__(self, codes, gradient, curvature, penalty):
        m = len(codes)
        self.keys = codes + _BINS * np.arange(m)[:, None]
        self.width = m * _BINS
        self.gradient, self.curvature = np.tile(gradient, m), np.tile(curvature, m)
        self.penalty = penalty

    def best_cuts(self, region, regions):
        """For each region the best of all cuts, and whether it gains anything."""
        keys = (self.keys + self.width * region).ravel()
        g, h = (
            np.bincount(keys, weights, regions * self.width)
            .reshape(regions, -1, _BINS)
            .cumsum(axis=2)
            for weights in (self.gradient, self.curvature)
        )
        # All columns have the same rows: the totals are those of the first.
        g_all, h_all = g[:, :1, -1:], h[:, :1, -1:]
        rest = h_all - h
        gains = g**2 / (h + self.penalty) + (g_all - g) ** 2 / (rest + self.penalty)
        gains[np.minimum(h, rest) < _SMALLEST_CURVATURE] = -1.0
        gains = gains.reshape(regions, -1)
        best = gains.argmax(axis=1)
        whole = (g_all**2 / (h_all + self.penalty)).ravel()
        return best, gains[np.arange(regions), best] > whole * (1 + 1e-6)


def _pairs(parts, x, region, gradient):
    """`(k, 2)` rows behind units, the second further inside than the first."""
    columns, slopes, offsets = parts
    pairs = _extreme_rows(region, gradient, len(columns))
    at = [
        special.expit(slopes * x[columns, rows[:, None]] + offsets).prod(axis=1)
        for rows in pairs.T
    ]
    # A region that was not cut, or a row near another edge: the ends of the product.
    wrong = np.flatnonzero(at[1] <= at[0])
    if len(wrong):
        phi = ProductUnits("", *(part[wrong] for part in parts), pairs).across(x)
        pairs[wrong] = np.stack([phi.argmin(axis=1), phi.argmax(axis=1)], axis=1)
    return pairs


def _extreme_rows(region, gradient, regions):
    """`(regions, 2)`: row of the least gradient beside, of the largest inside.

    The same row twice for an empty region, or beside one.
    """
    order = np.lexsort((gradient, region))
    ends = np.searchsorted(region[order], np.arange(regions + 1))
    first, last = ends[:-1], ends[1:] - 1
    beside = np.arange(regions) ^ 1
    empty = (last < first) | (last < first)[beside]
    low, high = np.where(empty, 0, first[beside]), np.where(empty, 0, last)
    return order[np.stack([low, high], axis=1)]
