"""The columns of a table -> matrices of numbers, two views of them.

A number is standardised and softly clipped, `z / sqrt(1 + (z / 3)^2)`, so that
outliers stay finite; in the second view it is replaced by the normal quantile of
its rank. Missing numbers take the median, and a column of zeros and ones says where
they were. A category becomes one column of zeros and ones a level (one for two
levels); missing is a level, levels that were not seen are none of them. All columns
of the matrix that come from one column of the table are a group: units that look at
a few columns look at whole groups. Constant columns are left out.

Shapes: n rows, d columns of the matrix.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

CLIP = 3.0
FURTHEST = 1e6
# Levels of a category with a column of their own: the most frequent ones.
MOST_LEVELS = 100
_MOST_KNOTS = 128
# What a missing category is called: no text can be confused with it.
MISSING = None

VIEWS = ("standard", "normal")


@dataclass
class NumberColumn:
    """What is known of a column of numbers.

    Attributes:
        name: The column's name.
        fill: Stands for missing numbers: the median.
        mean, spread: What it is standardised by.
        knots, quantiles: `(q,)` each: from numbers to normal quantiles, by
            interpolation.
        missing: Share of missing numbers if they get a column of their own, or
            `None`.
        varies: Whether the numbers differ at all.
    """

    name: Any
    fill: float
    mean: float
    spread: float
    knots: np.ndarray
    quantiles: np.ndarray
    missing: float | None
    varies: bool

    @property
    def width(self):
        return int(self.varies) + (self.missing is not None)

    def transform(self, values, view):
        """`(n, width)` array."""
        known = np.isfinite(values)
        filled = np.where(known, values, self.fill)
        parts = []
        if self.varies and view == "standard":
            z = (filled - self.mean) / self.spread
            # Beyond this the square would not fit, and nothing changes any more.
            z = np.clip(z, -FURTHEST, FURTHEST)
            parts.append(z / np.sqrt(1.0 + (z / CLIP) ** 2))
        elif self.varies:
            parts.append(np.interp(filled, self.knots, self.quantiles))
        if self.missing is not None:
            parts.append(~known - self.missing)
        return np.stack(parts, axis=1)


@dataclass
class CategoryColumn:
    """What is known of a column of categories.

    Attributes:
        name: The column's name.
        levels: Those with a column of their own, the most frequent first.
        shares: `(levels,)` share of rows of each.
    """

    name: Any
    levels: list
    shares: np.ndarray

    @property
    def width(self):
        return len(self.levels)

    def transform(self, values, view):
        """`(n, width)` array, the same for both views."""
        number = {level: i for i, level in enumerate(self.levels)}
        codes = np.array([number.get(value, -1) for value in values], dtype=int)
        return (codes[:, None] == np.arange(self.width)) - self.shares


@dataclass
class TableColumns:
    """All columns of a table that carry something.

    Attributes:
        columns: `NumberColumn`s and `CategoryColumn`s.
    """

    columns: list

    @property
    def groups(self):
        """`(d,)` number of the column that each column of the matrix is from."""
        return np.repeat(
            np.arange(len(self.columns)), [column.width for column in self.columns]
        )

    def transform(self, table, view="standard"):
        """The matrix of a table.

        Args:
            table: Dict from name to `(n,)` array: floats with NaN where missing,
                or objects, `None` where missing.
            view: `"standard"` or `"normal"`.

        Returns:
            `(n, d)` float32 array.
        """
        parts = [column.transform(table[column.name], view) for column in self.columns]
        if not parts:
            rows = len(next(iter(table.values())))
            return np.zeros((rows, 0), dtype="float32")
        return np.concatenate(parts, axis=1).astype("float32")


def learn_columns(table, weight=None):
    """Learns from a table how to make a matrix of it.

    Args:
        table: Dict from name to `(n,)` array, see `TableColumns.transform`.
        weight: `None` or `(n,)`: a row of weight 2 counts as two rows.

    Returns:
        `TableColumns`.

    Example:

    >>> table = {
    ...     "age": np.array([20.0, 30.0, np.nan, 40.0]),
    ...     "town": np.array(["Rome", "Oslo", "Rome", None], dtype=object),
    ... }
    >>> columns = learn_columns(table)
    >>> columns.transform(table).shape, columns.groups.tolist()
    ((4, 5), [0, 0, 1, 1, 1])
    """
    learned: list = []
    for name, values in table.items():
        share = np.ones(len(values)) if weight is None else np.asarray(weight, float)
        values, share = values[share > 0], share[share > 0]
        learn: Any = _learn_category if values.dtype == object else _learn_numbers
        column = learn(name, values, share)
        if column.width:
            learned.append(column)
    return TableColumns(learned)


def _learn_numbers(name, values, weight):
    known = np.isfinite(values)
    missing = weight[~known].sum() / weight.sum()
    fill = _median(values[known], weight[known]) if known.any() else 0.0
    filled = np.where(known, values, fill)
    mean = float(weight @ filled / weight.sum())
    # Divided by the largest first: squares of huge numbers would not fit.
    largest = max(float(np.abs(filled - mean).max()), np.finfo(float).tiny)
    square = weight @ ((filled - mean) / largest) ** 2 / weight.sum()
    spread = largest * float(np.sqrt(square))
    # The standard deviation of equal numbers is rounding.
    varies = spread > 1e-12 * max(abs(mean), np.finfo(float).tiny)
    knots, quantiles = _quantiles(filled, weight)
    return NumberColumn(
        name,
        fill,
        mean,
        spread if varies else 1.0,
        knots,
        quantiles,
        float(missing) if 0 < missing < 1 else None,
        bool(varies),
    )


def _median(values, weight):
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    half = 0.5 * below[-1]
    at = np.searchsorted(below, half, side="left")
    low = values[order[at]]
    # Exactly half of the weight below: between two values.
    if below[at] == half and at + 1 < len(order):
        return float(0.5 * (low + values[order[at + 1]]))
    return float(low)


def _quantiles(values, weight):
    """Knots of the map from numbers to normal quantiles of their ranks."""
    knots, which = np.unique(values, return_inverse=True)
    mass = np.bincount(which, weights=weight)
    total = mass.sum()
    ranks = (np.cumsum(mass) - 0.5 * mass) / total
    if len(knots) > _MOST_KNOTS:
        # Evenly over the rows, so that frequent values keep their own.
        wanted = np.linspace(ranks[0], ranks[-1], _MOST_KNOTS)
        some = np.unique(np.clip(np.searchsorted(ranks, wanted), 0, len(knots) - 1))
        knots, ranks = knots[some], ranks[some]
    edge = 0.5 / total
    return knots, special.ndtri(np.clip(ranks, edge, 1 - edge))


def _learn_category(name, values, weight):
    number = {level: i for i, level in enumerate(dict.fromkeys(values))}
    sums = np.bincount([number[value] for value in values], weights=weight)
    counts = dict(zip(number, sums.tolist(), strict=True))
    # The most frequent first; of equals in the order of the alphabet.
    levels = sorted(counts, key=lambda level: (-counts[level], str(level)))
    levels = levels[:MOST_LEVELS]
    if len(counts) <= 2:
        levels = levels[: len(counts) - 1]
    shares = np.array([counts[level] for level in levels]) / weight.sum()
    return CategoryColumn(name, levels, shares)
