"""Rows of a CSV file for a model whose columns are known."""

import numpy as np

from keras_swim.apps.console import CommandError, some
from keras_swim.apps.table_cells import nearest, number, read_cells, read_numbers
from keras_swim.apps.wording import counted

# No class is called so. ("none" and "-" may be.)
_NO_CLASS = ("NA", "N/A", "NaN", "?")


def rows_of(table, kinds):
    """The columns that a model wants, as it wants them.

    Args:
        table: `TextTable`.
        kinds: Dict from the name of each column to whether it has categories.

    Returns:
        Dict from name to `(n,)` array: floats with NaN where missing, or objects with
        `None` there.
    """
    missing = [name for name in kinds if name not in table.columns]
    if missing:
        lines = []
        for name in missing:
            hint = nearest(name, [one for one in table.columns if one not in kinds])
            lines.append(f"{name!r}" + (f" (is it {hint!r}?)" if hint else ""))
        raise CommandError(
            f"{table.path} lacks {counted(len(missing), 'column')} of the "
            f"{len(kinds)} that the model was fitted to:\n{some(lines)}\n"
            f"It has: {_names(list(table.columns))}."
        )
    advice = "Mend it, or leave it empty if it is missing."
    return {
        name: np.array([cell or None for cell in table.columns[name]], dtype=object)
        if categories
        else read_numbers(table, name, advice)
        for name, categories in kinds.items()
    }


def with_target(table, target):
    """The rows of a table that have a target, and how many have none.

    Args:
        table: `TextTable`.
        target: Name of a column that it has.

    Returns:
        A `TextTable`, and the number of rows that were left out.
    """
    cells = table.columns[target]
    known = ~read_cells(cells, table.separator).missing & ~np.isin(cells, _NO_CLASS)
    if not known.any():
        raise CommandError(f"{table.path}: the target {target!r} is empty in all rows.")
    return table.take(np.flatnonzero(known)), int((~known).sum())


def class_text(cell):
    """The name of a class as a file has it; `1.0` is `1`.

    Example:

    >>> class_text("1.0"), class_text("1.5"), class_text("one")
    ('1', '1.5', 'one')
    """
    value = number(cell)
    if value is not None and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return cell


def class_codes(table, target, class_names):
    """`(n,)` number of each row's class.

    Args:
        table: `TextTable` whose rows all have a target.
        target: Name of the target.
        class_names: Names of the classes that the model knows.
    """
    code = {name: place for place, name in enumerate(class_names)}
    codes = np.empty(len(table), dtype=int)
    for row, cell in enumerate(table.columns[target]):
        found = code.get(cell, code.get(class_text(cell)))
        if found is None:
            raise CommandError(
                f"{table.path}, line {table.lines[row]}: {target!r} is {cell[:60]!r}, "
                f"which is no class of the model. Its classes: {_names(class_names)}."
            )
        codes[row] = found
    return codes


def real_targets(table, target):
    """`(n, 1)` numbers of a column that must hold them."""
    advice = "For classes pass --task classification."
    return read_numbers(table, target, advice)[:, None]


def _names(names):
    return ", ".join(map(str, names[:12])) + (", ..." if len(names) > 12 else "")
