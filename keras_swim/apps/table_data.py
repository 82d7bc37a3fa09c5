"""From the text of a CSV file to what a fit takes: columns, target, task."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_swim.apps.console import CommandError
from keras_swim.apps.table_cells import find_column, read_cells
from keras_swim.apps.table_rows import (
    class_codes,
    class_text,
    real_targets,
    rows_of,
    with_target,
)
from keras_swim.apps.wording import counted

# Different whole numbers up to which a target means classes, and rows for each.
_MOST_CLASSES = 20
_ROWS_A_CLASS = 5
# More classes than this are a mistake.
_TOO_MANY_CLASSES = 1000
# Rows from which text that is different in (nearly) all of them names the rows.
_FEWEST_NAMED = 10
_NEARLY_ALL = 0.95


@dataclass
class TableData:
    """Rows with targets.

    Attributes:
        columns: Dict from name to `(n,)` array, see `rows_of`.
        targets: `(n,)` class codes, or `(n, 1)` numbers.
        lines: `(n,)` line of each row in its file.
        target: Name of the target.
        class_names: Names of the classes, or `None` for a regression.
    """

    columns: dict
    targets: np.ndarray
    lines: np.ndarray
    target: str
    class_names: list | None

    def __len__(self):
        return len(self.targets)

    @property
    def kinds(self):
        """Dict from the name of each column to whether it has categories."""
        return {name: values.dtype == object for name, values in self.columns.items()}

    def take(self, rows):
        """The data with these rows only."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return TableData(
            columns,
            self.targets[rows],
            self.lines[rows],
            self.target,
            self.class_names,
        )


@dataclass
class Survey:
    """What was found in a table.

    Attributes:
        without_target: Rows that were left out because they have none.
        why: Why it is a classification or a regression.
        left_out: Dict from column to why it was left out.
        missing: Dict from column to number of missing values.
        levels: Dict from column of categories to number of levels.
    """

    without_target: int = 0
    why: str = ""
    left_out: dict = field(default_factory=dict)
    missing: dict = field(default_factory=dict)
    levels: dict = field(default_factory=dict)


def table_data(table, target, *, task="auto", drop=(), categorical=()):
    """Chooses columns and task.

    Args:
        table: `TextTable`.
        target: Name of the column to predict.
        task: `"auto"`, `"classification"` or `"regression"`.
        drop: Names of columns to leave out.
        categorical: Names of columns of numbers that are categories.

    Returns:
        `TableData` and a `Survey`.
    """
    find_column(table, target, "--target")
    for name in drop:
        find_column(table, name, "--drop")
    for name in categorical:
        find_column(table, name, "--categorical")
    for option, names in (("--drop", drop), ("--categorical", categorical)):
        if target in names:
            raise CommandError(f"{option}: {target!r} is the target.")
    survey = Survey()
    table, survey.without_target = with_target(table, target)
    class_names, survey.why = _task(table, target, task)
    columns = _columns(table, [target, *drop], categorical, survey)
    if class_names is None:
        targets: Any = real_targets(table, target)
        if np.ptp(targets) == 0:
            raise CommandError(
                f"--target: {target!r} is {targets[0, 0]:g} in all "
                f"{counted(len(table), 'row')}. There is nothing to learn."
            )
    else:
        targets = class_codes(table, target, class_names)
    return TableData(columns, targets, table.lines, target, class_names), survey


def data_like(table, data):
    """`TableData` of another table with the same columns, and the number of rows that
    were left out because they have no target."""
    find_column(table, data.target, "target")
    table, without = with_target(table, data.target)
    columns = rows_of(table, data.kinds)
    if data.class_names is None:
        targets: Any = real_targets(table, data.target)
    else:
        targets = class_codes(table, data.target, data.class_names)
    found = TableData(columns, targets, table.lines, data.target, data.class_names)
    return found, without


def split_rows(data, share, seed=0):
    """Splits the rows, each class by itself.

    Args:
        data: `TableData`.
        share: Share for the second part. A class with a single row stays in the first.
        seed: Integer.

    Returns:
        Two `TableData`.
    """
    rng = np.random.default_rng(seed)
    second = np.zeros(len(data), bool)
    codes = np.zeros(len(data), int) if data.class_names is None else data.targets
    for code in np.unique(codes):
        rows = rng.permutation(np.flatnonzero(codes == code))
        # At least one on either side, where there are two.
        count = min(max(round(share * len(rows)), 1), len(rows) - 1)
        second[rows[:count]] = True
    return data.take(np.flatnonzero(~second)), data.take(np.flatnonzero(second))


def shared_rows(first, second):
    """How many rows of the second data are in the first, too."""
    known = set(_row_keys(first))
    return sum(key in known for key in _row_keys(second))


def _row_keys(data):
    columns = [*data.columns.values(), data.targets.reshape(-1)]
    # NaN is not equal to itself.
    lists = [
        values.tolist()
        if values.dtype == object
        else np.nan_to_num(values.astype(float), nan=np.inf).tolist()
        for values in columns
    ]
    return zip(*lists, strict=True)


def _task(table, target, task):
    """Names of the classes (`None` for a regression), and why."""
    cells = table.columns[target]
    reading = read_cells(cells, table.separator)
    numbers = reading.kind == "numbers"
    different = reading.different
    if task == "regression" or (
        task == "auto" and numbers and not _few_whole_numbers(reading.values)
    ):
        if not numbers:
            # Names the first text.
            real_targets(table, target)
        why = "as asked for"
        if task == "auto":
            why = f"{target!r} has {different} different numbers"
        return None, why
    counts = Counter(class_text(cell) for cell in cells)
    if len(counts) < 2:
        raise CommandError(
            f"--target: {target!r} is {next(iter(counts))!r} in all "
            f"{counted(len(table), 'row')}. Two or more classes are needed."
        )
    if len(counts) > min(_TOO_MANY_CLASSES, max(len(cells) // 2, _MOST_CLASSES)):
        first = next(iter(counts))
        raise CommandError(
            f"--target: {target!r} has {len(counts)} different values in "
            f"{counted(len(cells), 'row')}, such as {first[:40]!r}: too many for "
            "classes. Name another column"
            + (", or pass --task regression." if numbers else ".")
        )
    why = "as asked for"
    if task == "auto":
        what = "different whole numbers" if numbers else "different texts"
        why = f"{target!r} has {different} {what}"
    if numbers:
        return sorted(counts, key=float), why
    return sorted(counts), why


def _few_whole_numbers(values):
    different = np.unique(values)
    return (
        len(different) <= min(_MOST_CLASSES, len(values) // _ROWS_A_CLASS)
        and np.all(different == np.round(different))
        and np.abs(different).max() < 1e15
    )


def _columns(table, aside, categorical, survey):
    """The columns to learn from; the survey says what became of the others."""
    columns, dates = {}, []
    for name, cells in table.columns.items():
        if name in aside:
            continue
        reading = read_cells(cells, table.separator, name in categorical)
        if reading.kind == "mixed":
            line, cell = table.lines[reading.odd], cells[reading.odd]
            raise CommandError(
                f"{table.path}, line {line}: column {name!r} has numbers in most rows, "
                f"but {cell[:60]!r} here. Mend it, leave it empty if it is missing, or "
                f"pass --categorical {_quoted([name])} or --drop {_quoted([name])}."
            )
        if reading.kind == "dates":
            dates.append(name)
            continue
        missing, different = int(reading.missing.sum()), reading.different
        reason = _no_use(name, reading, missing, different, name in categorical)
        if reason:
            survey.left_out[name] = reason
            continue
        columns[name] = reading.values
        if missing:
            survey.missing[name] = missing
        if reading.kind == "categories":
            survey.levels[name] = different
    if dates:
        example = next(cell for cell in table.columns[dates[0]] if cell)
        raise CommandError(
            f"{table.path} has dates or times in {', '.join(map(repr, dates))}, such "
            f"as {example!r}, which have no meaning of their own here. Turn them into "
            "numbers that do (year, month, weekday, days since an event), or leave "
            f"them out: --drop {_quoted(dates)}"
        )
    if not columns:
        raise CommandError(
            f"{table.path} has no column to learn from. "
            + " ".join(f"{name!r}: {why}." for name, why in survey.left_out.items())
        )
    return columns


def _no_use(name, reading, missing, different, wanted):
    """Why a column is left out, or nothing."""
    rows = len(reading.values)
    if different == 0:
        return "empty"
    if different == 1 and not missing:
        return "the same in all rows"
    if wanted:
        return ""
    if reading.kind == "numbers":
        # Such as the index that a data frame is written with.
        unnamed = name.startswith("column ") or name.lower() in ("id", "index")
        counts = rows > 2 and np.all(np.diff(reading.values) > 0)
        return "counts the rows" if unnamed and counts else ""
    known = rows - missing
    if known >= _FEWEST_NAMED and (
        different == known or (different > 100 and different >= _NEARLY_ALL * known)
    ):
        return (
            f"{different} different texts in {counted(known, 'row')}, so it names rows "
            "rather than describes them"
        )
    return ""


def _quoted(names):
    return " ".join(f'"{name}"' if " " in name else name for name in names)
