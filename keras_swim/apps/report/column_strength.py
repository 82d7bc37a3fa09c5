"""Which columns of a table a fitted model uses: in its units, and for its answers.

A unit says most in the columns where its kernel is large, and has most say if the
readout makes much of it: the strength of a column is `|kernel| * readout`, added up
over the units, where `kernel` is per standard deviation of the column and `readout` is
the norm of the unit's row of the readout times how far the unit varies between rows. A
unit's own kernel counts by its share, so that steep units, which soon reach their
largest output, count no more than others.

Shapes: n rows, d columns of the matrix, k units, c outputs.
"""

import numpy as np
from scipy import special

from keras_swim.core.boost_units import ProductUnits
from keras_swim.core.table_units import Columns, PairUnits

# Rows that say how far units vary.
_ROWS = 1000


def column_strengths(model, table):
    """Share of the strength of all units that each column has.

    Args:
        model: `TableModel` with `columns`.
        table: Dict of columns: its training rows.

    Returns:
        Dict from name to share, the largest first. They add up to 1.
    """
    n = len(next(iter(table.values())))
    some = np.linspace(0, n - 1, min(n, _ROWS)).round().astype(int)
    table = {name: values[some] for name, values in table.items()}
    views = model.views(table)
    groups = model.columns.groups
    names = [column.name for column in model.columns.columns]
    total = np.zeros(len(names))
    for member in model.members:
        start = 0
        for part in member.parts:
            spread = views[part.view].std(axis=0).astype(float)
            features = part.features(views)
            readout = member.kernel[start : start + features.shape[1]]
            start += features.shape[1]
            say = np.linalg.norm(readout, axis=1) * features.std(axis=0)
            shares = _shares(part, len(groups)) * spread[:, None]
            whole = shares.sum(axis=0)
            shares /= np.where(whole > 0, whole, 1.0)
            np.add.at(total, groups, shares @ say)
    whole = total.sum()
    order = np.argsort(-total, kind="stable")
    return {names[i]: float(total[i] / whole) if whole else 0.0 for i in order}


def _shares(part, d):
    """`(d, k)` size of each unit's kernel."""
    if isinstance(part, Columns):
        return np.eye(d)
    if isinstance(part, PairUnits):
        return np.abs(part.kernel).astype(float)
    assert isinstance(part, ProductUnits)
    kernel = np.zeros((d, len(part.columns)))
    units = np.arange(len(part.columns))
    for columns, slopes in zip(part.columns.T, part.slopes.T, strict=True):
        np.add.at(kernel, (columns, units), np.abs(slopes))
    return kernel


def shuffle_costs(model, table, targets, names, seed=0):
    """What it costs if the values of a column are dealt to other rows.

    Args:
        model: `TableModel`.
        table: Dict of columns: rows that it has not seen.
        targets: `(n,)` class codes, or `(n, 1)` numbers.
        names: Columns to shuffle.
        seed: Integer.

    Returns:
        Dict from name to how much the log loss rises, or how much R² falls (`None` if
        all targets are the same).
    """
    rng = np.random.default_rng(seed)
    n = len(targets)
    some = np.sort(rng.permutation(n)[:_ROWS])
    table = {name: values[some] for name, values in table.items()}
    targets = targets[some]
    whole = _loss(model, table, targets)
    if whole is None:
        return dict.fromkeys(names)
    order = rng.permutation(len(some))
    return {
        name: _loss(model, {**table, name: table[name][order]}, targets) - whole
        for name in names
    }


def _loss(model, table, targets):
    """Log loss, or 1 - R²."""
    found = model.scores(table)
    if model.classes is not None:
        own = found[np.arange(len(targets)), targets]
        return float(np.mean(special.logsumexp(found, axis=1) - own))
    spread = float(np.mean((targets - targets.mean(axis=0)) ** 2))
    return float(np.mean((found - targets) ** 2)) / spread if spread else None
