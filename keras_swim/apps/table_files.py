"""CSV files -> columns of text, checked: every row has as many fields as the header.

What the text means (numbers, categories, missing values) is for `table_cells`.
"""

import csv
import gzip
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_swim.apps.console import CommandError, some
from keras_swim.apps.wording import counted

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
# Separators that are tried, and what people call them.
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
# Rows that say which of them it is.
_SNIFFED_ROWS = 100


@dataclass
class TextTable:
    """The text of a CSV file.

    Attributes:
        path: Where it is from.
        columns: Dict from name to `(n,)` object array of text without spaces at
            its ends; empty text is a missing value.
        lines: `(n,)` line of the file that each row begins in.
        separator: What fields are separated by.
        problems: Sentences about rows that were left out.
    """

    path: Path
    columns: dict
    lines: np.ndarray
    separator: str
    problems: list

    def __len__(self):
        return len(self.lines)

    def take(self, rows):
        """The table with these rows only."""
        columns = {name: cells[rows] for name, cells in self.columns.items()}
        return TextTable(
            self.path, columns, self.lines[rows], self.separator, self.problems
        )


def is_table(path):
    """Whether the name of a file says that it is a table.

    Example:

    >>> is_table("wine.CSV"), is_table("wine.csv.gz"), is_table("photos")
    (True, True, False)
    """
    return str(path).lower().endswith(SUFFIXES)


def read_table(path, separator="auto", bad_rows="refuse", alone=()):
    """Reads a CSV file.

    Args:
        path: File in UTF-8, with the names of the columns in its first line;
            compressed if it ends with `.gz`.
        separator: `"auto"`, or one character.
        bad_rows: `"refuse"`, or `"skip"`: what to do about rows with too few or too
            many fields.
        alone: Names of columns that may be the only one. Other tables have two or
            more, or the separator is wrong.

    Returns:
        A `TextTable`.
    """
    path = Path(path)
    if path.is_dir():
        raise CommandError(f"{path} is a folder, not a table.")
    if not path.is_file():
        raise CommandError(f"There is no file {path}.")
    try:
        if separator == "auto":
            separator = _sniffed(path, alone)
        return _read(path, separator, bad_rows, alone)
    except UnicodeDecodeError as error:
        raise CommandError(
            f"{path} is not in UTF-8: it has the byte "
            f"0x{error.object[error.start]:02x} where no character can "
            "begin. Save it as UTF-8 (in Excel: CSV UTF-8), or convert it: "
            f"iconv -f WINDOWS-1252 -t UTF-8 {path.name} > utf8.csv"
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CommandError(
            f"{path} cannot be uncompressed: {error}. Its name says that it is a .gz "
            "file; it is none, or it is damaged."
        ) from None
    except OSError as error:
        raise CommandError(
            f"{path} cannot be read: {error.strerror or error}."
        ) from None


def _open(path):
    # A byte order mark, as spreadsheets write it, is no part of the first name.
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def _rows(path, separator):
    """Yields the line that each row begins in, and its fields or a `csv.Error`."""
    with _open(path) as file:
        reader = csv.reader(
            file, delimiter=separator, skipinitialspace=True, strict=True
        )
        while True:
            line = reader.line_num + 1
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield line, error
                continue
            fields = [field.strip() for field in fields]
            # Empty lines, and lines of separators only, are no rows.
            if any(fields):
                yield line, fields


def _sniffed(path, alone):
    """The separator by which rows have as many fields as the header, and many."""
    best, most = ",", 0.0
    for separator in SEPARATORS:
        counts = []
        for _, fields in _rows(path, separator):
            counts.append(0 if isinstance(fields, csv.Error) else len(fields))
            if len(counts) == _SNIFFED_ROWS:
                break
        if not counts:
            raise CommandError(
                f"{path} is empty. Its first line must name the columns, one row a "
                "line must follow."
            )
        share = counts.count(counts[0]) / len(counts)
        score = share**2 * (counts[0] - 1)
        if score > most:
            best, most = separator, score
    if not most:
        with _open(path) as file:
            first = file.readline().strip()
        if first.strip('"') in alone:
            return best
        raise CommandError(
            f"{path} seems to have one column only: {first[:60]!r}. Tried as "
            f"separator: {', '.join(SEPARATORS.values())}. Pass the right "
            "one with --separator."
        )
    return best


def _read(path, separator, bad_rows, alone):
    rows = _rows(path, separator)
    names = _header(path, next(rows, None), separator, alone)
    width = len(names)
    columns: list[list] = [[] for _ in names]
    # Equal text is kept once: most columns have few different values.
    known: dict[str, str] = {}
    lines, problems = [], []
    for line, fields in rows:
        problem = _problem(fields, width)
        if problem:
            problems.append(f"line {line}: {problem}")
            continue
        for cells, field in zip(columns, fields, strict=False):
            cells.append(known.setdefault(field, field))
        lines.append(line)
    if problems and bad_rows == "refuse":
        raise CommandError(
            f"{counted(len(problems), 'row')} of {path} cannot be read (the header has "
            f"{counted(width, 'field')}):\n{some(problems)}\nMend them, pass another "
            "--separator, or leave them out with --bad-rows skip."
        )
    if not lines:
        raise CommandError(
            f"{path} has no rows below its header, {_some_names(names)}."
            + (f" {counted(len(problems), 'row')} cannot be read." if problems else "")
        )
    cells = {
        name: np.array(cells, dtype=object)
        for name, cells in zip(names, columns, strict=True)
    }
    return TextTable(path, cells, np.array(lines), separator, problems)


def _header(path, first, separator, alone):
    if first is None:
        raise CommandError(f"{path} is empty. Its first line must name the columns.")
    line, fields = first
    if isinstance(fields, csv.Error):
        raise CommandError(f"{path}, line {line}: {_quotes(fields)}")
    if len(fields) < 2 and fields[0] not in alone:
        raise CommandError(
            f"{path} has one column only by --separator {_shown(separator)}: "
            f"{fields[0][:60]!r}. Pass the right separator, or leave it to be found."
        )
    names = [name or f"column {place}" for place, name in enumerate(fields, 1)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise CommandError(
            f"{path} has columns of the same name: {_some_names(twice)}. Give each "
            "column a name of its own."
        )
    return names


def _problem(fields, width):
    """What is wrong with a row, or nothing."""
    if isinstance(fields, csv.Error):
        return _quotes(fields)
    # Some programs end each row with a separator.
    if len(fields) < width or any(fields[width:]):
        return counted(len(fields), "field")
    return None


def _quotes(error):
    if "end of data" in str(error):
        return "a quote is opened and never closed"
    return f"its quotes cannot be understood ({error})"


def _shown(separator):
    return "tab" if separator == "\t" else f"'{separator}'"


def _some_names(names):
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
