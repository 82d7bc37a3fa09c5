"""Product units grown like a tree, by what each condition would gain.

A unit is an "and" of conditions on single columns, each a steep logistic step. All
rows start in one region. In each region the step is found that would lower the loss
most, among steps in many columns and at many values, and cuts the region in two; so
`terms` conditions make `2 ** terms` products that share the space among them. This
is what sharp thresholds in a few columns ask for; random steps seldom hit them.

A step stands half way between two neighbouring values. The pair of a unit is the row
of the least gradient on the other side of its last step, and the row of the largest
gradient inside: the product is smaller at the first than at the second. (Of several
outputs, the first that was drawn says what the gradient is.)

Values are put in at most `_BINS` bins once; sums over bins then give the gains of all
steps at once (as in LightGBM). Of several outputs each tree looks at a few, drawn by
the squares of their gradients, and adds up what a step gains for each.

Shapes: n rows, d columns, b bins, k units.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse, special

from keras_swim.core.boost_units import ALWAYS, ProductUnits, logistic_steps

_BINS = 64
# Columns that a tree looks at: this share, for trees to differ, and a bounded number.
_SHARE = 0.5
_FEWEST_COLUMNS, _MOST_COLUMNS = 4, 64
# Outputs that a tree looks at.
_MOST_OUTPUTS = 8
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


def grow_product_units(problem, bins, count, rng, terms, view, x):
    """Units, 2 ** terms from each tree, and what they give.

    Args:
        problem: `Problem`.
        bins: `Bins` of the problem's columns.
        count: Number of units.
        rng: `numpy.random.Generator`.
        terms: Number of steps in a product.
        view: Name of the view.
        x: `(d, m)` columns to compute the units at.

    Returns:
        `ProductUnits`, and their values `(k, m)`.
    """
    parts, values = [], []
    for _ in range(-(-count // 2**terms)):
        tree, region, gradient = _grow(problem, bins, rng, terms)
        steps = _unfolded(tree)
        pairs = _pairs(steps, problem.x[:, problem.rows], region, gradient)
        parts.append((*steps, pairs + problem.rows.start))
        values.append(_products(tree, x))
    units = (np.concatenate(part)[:count] for part in zip(*parts, strict=True))
    return ProductUnits(view, *units), np.concatenate(values)[:count]


class _Level(NamedTuple):
    """The steps that cut the regions of one depth of a tree.

    Attributes:
        columns, slopes, offsets: `(r,)` of the steps, rising to the right.
        cuts: `(r,)` whether the region is cut at all.
    """

    columns: np.ndarray
    slopes: np.ndarray
    offsets: np.ndarray
    cuts: np.ndarray


def _grow(problem, bins, rng, terms):
    """The `_Level`s of a tree, the region of each row, and a gradient of each row."""
    gradient, curvature = _some_outputs(problem, rng)
    columns = _some_columns(len(bins.codes), rng)
    codes = bins.codes[columns, problem.rows]
    penalty = problem.penalty * len(gradient) / problem.x.shape[1]
    sums = _Sums(codes, gradient, curvature, penalty)
    rows = np.arange(len(gradient))
    region = np.zeros(len(rows), dtype=np.int32)
    levels = []
    for term in range(terms):
        column, cut, better = sums.best_cuts(region, 2**term)
        right = (codes[column[region], rows] > cut[region]) & better[region]
        column = columns[column]
        # Where nothing is better, the best cut may be none at all.
        gaps = np.where(better, bins.gaps[column, cut], np.inf)
        slope = (_STEEPNESS * 2 / gaps).astype("float32")
        levels.append(_Level(column, slope, -slope * bins.cuts[column, cut], better))
        region = 2 * region + right
    return levels, region, gradient[:, 0]


def _unfolded(levels):
    """Columns, slopes and offsets `(k, t)`: all steps of each product.

    The left half of a region is followed by the right one; a region that nothing
    gains to cut stays whole, in both.
    """
    depth = len(levels)
    parts = []
    for number, (columns, slopes, offsets, cuts) in enumerate(levels):
        step = (
            np.repeat(columns, 2),
            np.stack([-slopes, slopes], axis=1).ravel(),
            np.stack([-offsets, offsets], axis=1).ravel(),
        )
        step[2][np.repeat(~cuts, 2)] = ALWAYS
        parts.append([np.repeat(part, 2 ** (depth - 1 - number)) for part in step])
    return [np.stack(part, axis=1) for part in zip(*parts, strict=True)]


def _products(levels, x):
    """`(k, m)` values of a tree's units: each step is computed once."""
    values = np.ones((1, x.shape[1]), dtype="float32")
    for columns, slopes, offsets, cuts in levels:
        right = logistic_steps(x, columns, slopes, offsets)
        left = 1.0 - right
        left[~cuts] = right[~cuts] = 1.0
        left *= values
        right *= values
        values = np.stack([left, right], axis=1).reshape(-1, x.shape[1])
    return values


def _some_outputs(problem, rng):
    """Gradient and curvature `(n, q)` of a few outputs, as they are drawn."""
    gradient, curvature = problem.gradient, problem.curvature
    gradient, curvature = gradient[problem.rows], curvature[problem.rows]
    if gradient.shape[1] == 1:
        return gradient, curvature
    squares = np.einsum("nc,nc->c", gradient, gradient, dtype=float)
    keys = rng.standard_exponential(len(squares)) / np.maximum(squares, 1e-30)
    some = np.argsort(keys)[:_MOST_OUTPUTS]
    return gradient[:, some], curvature[:, some]


def _some_columns(d, rng):
    count = min(max(int(np.ceil(_SHARE * d)), _FEWEST_COLUMNS), _MOST_COLUMNS)
    return rng.permutation(d)[:count]


class _Sums:
    """Sums of gradient and curvature over bins, and the gains of cuts.

    Args:
        codes: `(m, n)` bins of the rows.
        gradient, curvature: `(n, q)`.
        penalty: Ridge.
    """

    def __init__(self, codes, gradient, curvature, penalty):
        m, n = codes.shape
        self.shape = m, int(codes.max()) + 1
        keys = codes.T + self.shape[1] * np.arange(m, dtype=np.int32)
        self.keys = np.ascontiguousarray(keys)
        self.both = np.concatenate([gradient, curvature], axis=1)
        self.penalty = np.float32(penalty)
        # Adds up bins, faster than `cumsum`.
        self.up_to = np.triu(np.ones((self.shape[1],) * 2, dtype="float32"))
        # A matrix that adds up rows: `m` ones in each of its columns.
        self.ones = np.ones(n * m, dtype="float32")
        self.ends = np.arange(0, n * m + 1, m, dtype=np.int32)

    def best_cuts(self, region, regions):
        """For each region the best of all cuts.

        Args:
            region: `(n,)` region of each row.
            regions: Their number r.

        Returns:
            Column and bin `(r,)` of the cuts, and whether they gain anything.
        """
        columns, bins = self.shape
        width = columns * bins
        keys = (self.keys + (width * region)[:, None]).ravel()
        add_up = sparse.csc_array(
            (self.ones, keys, self.ends), shape=(regions * width, len(region))
        )
        sums = np.ascontiguousarray((add_up @ self.both).T)
        left = sums.reshape(-1, bins) @ self.up_to
        left = left.reshape(-1, regions, columns, bins)
        # All columns have the same rows: the totals are those of the first.
        total = left[:, :, :1, -1:]
        right = total - left
        gains = self._gains(left)
        gains += self._gains(right)
        q = len(left) // 2
        least = np.minimum(_over_outputs(left[q:]), _over_outputs(right[q:]))
        gains[least < _SMALLEST_CURVATURE] = -1.0
        gains = gains.reshape(regions, width)
        best = gains.argmax(axis=1)
        whole = self._gains(total).ravel()
        better = gains[np.arange(regions), best] > whole * (1 + 1e-6)
        return *np.divmod(best, bins), better

    def _gains(self, sums):
        gradient, curvature = np.split(sums, 2)
        gains = gradient**2
        gains /= curvature + self.penalty
        return _over_outputs(gains)


def _over_outputs(parts):
    """Their sum; of one output, mostly the case, without a copy."""
    return parts[0] if len(parts) == 1 else parts.sum(axis=0)


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
