"""Arrays and data frames -> dicts of columns, checked.

A column is floats with NaN where a number is missing, or objects (text) with `None`
where a category is. Data frames of any library will do whose columns have
`to_numpy()`: pandas and polars among them.
"""

import numpy as np


def read_columns(x, categorical=None):
    """Columns of a data frame or of an array.

    Args:
        x: Data frame, or `(n, d)` array, already checked to be one.
        categorical: `None`, or names (for arrays numbers) of columns of numbers
            that are categories.

    Returns:
        Dict from name to `(n,)` array.

    Example:

    >>> read_columns(np.array([[1, "a"], [2, None]], dtype=object))[1]
    array(['a', None], dtype=object)
    """
    if is_frame(x):
        pairs = [(name, x[name]) for name in x.columns]
    else:
        pairs = [(number, x[:, number]) for number in range(x.shape[1])]
    wanted = set() if categorical is None else set(categorical)
    unknown = wanted - {name for name, _ in pairs}
    if unknown:
        raise ValueError(
            "`categorical_features` must name columns of X. Received: "
            f"{', '.join(map(repr, sorted(unknown, key=str)))}; X has "
            f"{_some([name for name, _ in pairs])}."
        )
    return {name: _column(name, values, name in wanted) for name, values in pairs}


def as_kinds(table, kinds):
    """The columns of new rows as those that a model was fitted to.

    Args:
        table: Dict from name to array.
        kinds: Dict from name to whether the column has categories.

    Returns:
        Dict with the columns of `kinds`, in their order.
    """
    return {name: _as_kind(name, table[name], kind) for name, kind in kinds.items()}


def has_categories(values):
    """Whether a column as `read_columns` gives it has categories."""
    return values.dtype == object


def is_frame(x):
    """Whether this is a data frame."""
    return hasattr(x, "columns") and hasattr(x, "shape") and not callable(x.columns)


def _column(name, values, categorical):
    kind = str(getattr(values, "dtype", ""))
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if array.dtype.kind in "mM" or "datetime" in kind or "duration" in kind:
        raise ValueError(
            f"Column {name!r} holds dates or times, which have no meaning of their own "
            "here. Turn them into numbers that do: year, month, weekday, days since "
            "an event."
        )
    if categorical or kind == "category" or array.dtype.kind in "US":
        return _texts(array)
    if array.dtype.kind == "O":
        return _objects(name, array)
    return _numbers(name, array.astype(float))


def _objects(name, array):
    """Numbers if all known values are, else categories."""
    for kind in set(map(type, array)):
        if issubclass(kind, (dict, list, tuple, set, np.ndarray)):
            raise TypeError(
                "Values of a table: argument must be a string or a real number, not "
                f"{kind.__name__!r} (column {name!r})."
            )
        if kind.__module__ == "datetime":
            return _column(name, np.array(["2000"], dtype="datetime64[Y]"), False)
    known = [value for _, value in _distinct(array) if not _is_missing(value)]
    if known and all(
        isinstance(value, (bool, int, float, np.number)) for value in known
    ):
        numbers = [np.nan if _is_missing(value) else float(value) for value in array]
        return _numbers(name, np.array(numbers))
    return _texts(array)


def _numbers(name, array):
    if np.isinf(array).any():
        raise ValueError(
            f"Column {name!r} contains infinity. Replace it by a number, or by NaN for "
            "a missing one."
        )
    return array


def _texts(array):
    # As a list: an array would make a new NaN each time, equal to no other.
    values = list(array)
    # Each different value is looked at once: rows are many, levels few.
    texts = {
        key: None if _is_missing(key[1]) else _text(key[1]) for key in _distinct(values)
    }
    keys = zip(map(type, values), values, strict=True)
    return np.array([texts[key] for key in keys], dtype=object)


def _distinct(values):
    """Different values with their types: 1, 1.0 and True are three."""
    return dict.fromkeys(zip(map(type, values), values, strict=True))


def _text(value):
    # A category of whole numbers reads the same with and without missing values,
    # which turn it into floats.
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _is_missing(value):
    if value is None or type(value).__name__ == "NAType":
        return True
    return not value.strip() if isinstance(value, str) else value != value


def _as_kind(name, values, categories):
    if has_categories(values) == categories:
        return values
    if categories:
        return _texts(values)
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            numbers[row] = np.nan if value is None else float(value)
        except ValueError:
            raise ValueError(
                f"Column {name!r} had numbers when the model was fitted. Received: "
                f"{value!r} in row {row}. Mend it, or leave it empty if it is missing."
            ) from None
    return _numbers(name, numbers)


def _some(names):
    shown = ", ".join(repr(name) for name in names[:8])
    return shown + (", ..." if len(names) > 8 else "")
