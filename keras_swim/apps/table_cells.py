"""What the text in the columns of a CSV file means: numbers, categories, dates."""

import difflib
import math
import re
from dataclasses import dataclass

import numpy as np

from keras_swim.apps.console import CommandError

# Text that stands for a missing number, in small letters.
MISSING_NUMBERS = frozenset(["", "na", "n/a", "nan", "null", "none", "?", "-", "."])
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
    r"([T ]\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"
)
# Share of numbers from which text among them looks like a mistake, and how many
# different numbers there must be: "0", "1", "2", "3+" are categories.
_MOSTLY = 0.9
_MANY_NUMBERS = 10


@dataclass
class Reading:
    """What a column of text holds.

    Attributes:
        kind: `"numbers"`, `"categories"`, `"dates"` or `"mixed"` (numbers, but for a
            few texts).
        values: `(n,)` floats with NaN where missing, or objects with `None` there.
        odd: `None`, or the row of the first text among numbers.
    """

    kind: str
    values: np.ndarray
    odd: int | None = None

    @property
    def missing(self):
        """`(n,)` whether a value is missing."""
        if self.values.dtype == object:
            return np.array([value is None for value in self.values], dtype=bool)
        return np.isnan(self.values)

    @property
    def different(self):
        """Number of different known values."""
        return len(set(self.values[~self.missing].tolist()))


def number(text, separator=","):
    """The number that a text stands for: NaN if it is missing, `None` if it is none.

    Args:
        text: The text.
        separator: What separates fields. If it is no comma, commas are decimal.

    Example:

    >>> number("1.5"), number("?"), number("1,5"), number("1,5", ";"), number("1e3")
    (1.5, nan, None, 1.5, 1000.0)
    """
    if _NUMBER.fullmatch(text):
        return _finite(float(text))
    if text.lower() in MISSING_NUMBERS:
        return math.nan
    if separator != "," and _DECIMAL_COMMA.fullmatch(text):
        return _finite(float(text.replace(",", ".")))
    return None


def _finite(value):
    return value if math.isfinite(value) else None


def read_cells(cells, separator=",", categorical=False):
    """Finds out what a column holds.

    Args:
        cells: `(n,)` text.
        separator: See `number`.
        categorical: Whether numbers are categories, too.

    Returns:
        A `Reading`.

    Example:

    >>> read_cells(np.array(["1", "", "2.5"], dtype=object)).values
    array([1. , nan, 2.5])
    >>> read_cells(np.array(["a", ""], dtype=object)).values
    array(['a', None], dtype=object)
    """
    parsed = {text: number(text, separator) for text in set(cells.tolist())}
    texts = [text for text, value in parsed.items() if value is None]
    if not texts and not categorical:
        return Reading("numbers", np.array([parsed[cell] for cell in cells], float))
    values = np.array([cell or None for cell in cells], dtype=object)
    if categorical:
        return Reading("categories", values)
    if all(_DATE.fullmatch(text) for text in parsed if text):
        return Reading("dates", values)
    is_text = np.array([parsed[cell] is None for cell in cells], dtype=bool)
    known = np.array([parsed[cell] == parsed[cell] for cell in cells], dtype=bool)
    different = len(parsed) - len(texts)
    if different > _MANY_NUMBERS and is_text.sum() <= (1 - _MOSTLY) * known.sum():
        return Reading("mixed", values, int(np.flatnonzero(is_text)[0]))
    return Reading("categories", values)


def read_numbers(table, name, advice):
    """A column that must hold numbers.

    Args:
        table: `TextTable`.
        name: Name of the column.
        advice: Sentence for the case that it does not.

    Returns:
        `(n,)` floats.
    """
    values = np.empty(len(table))
    for row, cell in enumerate(table.columns[name]):
        value = number(cell, table.separator)
        if value is None:
            raise CommandError(
                f"{table.path}, line {table.lines[row]}: column {name!r} has text "
                f"where numbers are expected: {cell[:60]!r}. {advice}"
            )
        values[row] = value
    return values


def find_column(table, name, option):
    """Raises unless a table has a column; suggests the nearest name."""
    if name in table.columns:
        return name
    hint = nearest(name, table.columns)
    names = list(table.columns)
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    advice = f"Did you mean {hint!r}? " if hint else ""
    if all(number(one, table.separator) is not None for one in names):
        advice += "The first line looks like data, but must name the columns. "
    raise CommandError(
        f"{option}: {table.path} has no column {name!r}. {advice}It has: {shown}."
    )


def nearest(name, names):
    """The name that is most like another, or `None`.

    Example:

    >>> nearest("prize", ["price", "rooms"]), nearest("Price", ["price"])
    ('price', 'price')
    """
    small = {one.lower(): one for one in names}
    found = difflib.get_close_matches(name.lower(), small, n=1)
    return small[found[0]] if found else None
