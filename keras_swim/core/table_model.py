"""From a table and targets to a fitted model of it, in plain arrays.

Rows that are equal in every column and in the target are merged first, their weights
added: a copy of a row would otherwise judge the row, and a weight of two means the
same as two rows, exactly. The merged rows are sorted, so the order of the rows is of
no matter either.

Shapes: n rows, c outputs.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from keras_swim.core.boosting import Boosting
from keras_swim.core.table_boost import default_bags, fit_boost
from keras_swim.core.table_columns import VIEWS, TableColumns, learn_columns
from keras_swim.core.table_layer import GROUPS, default_units, fit_layer
from keras_swim.core.table_units import total_scores
from keras_swim.core.targets import one_hot

METHODS = ("layer", "boost")


@dataclass
class TableModel:
    """A fitted model of a table.

    Attributes:
        columns: `TableColumns`, or `None` if the table is a matrix that is taken
            as it is.
        members: `Member`s whose scores add up.
        classes: Number of classes, or `None` for real targets.
        target_mean, target_spread: `(c,)` each, of real targets.
        left_out: `(n, c)` scores of the training rows (as they were given) by
            models without them.
        facts: What was chosen: dict of plain values.
    """

    columns: TableColumns | None
    members: list
    classes: int | None
    target_mean: np.ndarray
    target_spread: np.ndarray
    left_out: np.ndarray
    facts: dict

    def views(self, table):
        """Dict from view to matrix."""
        return _views(self.columns, table)

    def scores(self, table):
        """`(n, c)` logits, or predictions."""
        return self.finished(total_scores(self.members, self.views(table)))

    def finished(self, scores):
        """Scores in the units of the target; logits stay as they are."""
        return self.target_mean + self.target_spread * scores

    def probabilities(self, table):
        """`(n, c)`."""
        return special.softmax(self.scores(table), axis=1)


def fit_table(
    table,
    target,
    *,
    classes=None,
    sample_weight=None,
    method="layer",
    units=None,
    bags=None,
    settings=None,
    preprocess=True,
    seed=None,
    report=None,
):
    """Fits a model to a table.

    Args:
        table: Dict from name to `(n,)` array: floats with NaN where missing, or
            objects with `None` where missing.
        target: `(n,)` class codes, or `(n, c)` real numbers.
        classes: Number of classes, or `None` for real numbers.
        sample_weight: `None` or `(n,)`; rows of weight 0 are left out.
        method: `"layer"` or `"boost"`.
        units: Units of each group of the sampled layer, or `None`:
            `keras_swim.core.table_layer.default_units`.
        bags: Number of bags, for `"boost"`, or `None`:
            `keras_swim.core.table_boost.default_bags`.
        settings: `Boosting`, for `"boost"`.
        preprocess: Whether to prepare the columns; otherwise they must be
            numbers and are taken as they are.
        seed: Seed.
        report: `None`, or a function that is called after each group of units and
            each bag.

    Returns:
        A `TableModel`.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 2))
    >>> table = {"a": x[:, 0], "b": x[:, 1]}
    >>> labels = (x[:, 0] * x[:, 1] > 0).astype(int)
    >>> model = fit_table(table, labels, classes=2, seed=0)
    >>> chances = model.probabilities(table)
    >>> bool(np.mean(chances.argmax(axis=1) == labels) > 0.95)
    True
    """
    rng = np.random.default_rng(seed)
    first, copy_of, weight = merged_rows(table, target, sample_weight)
    if len(first) < 2:
        raise ValueError(
            "Expected two or more different rows to learn from. Received: "
            f"n_samples={len(first)}. Pass more rows."
        )
    given = table
    table = {name: values[first] for name, values in table.items()}
    target = target[first]
    columns = learn_columns(table, weight) if preprocess else None
    views = _views(columns, table)
    groups = _group_numbers(columns, table)
    if classes is None:
        mean = weight @ target / weight.sum()
        spread = np.sqrt(weight @ (target - mean) ** 2 / weight.sum())
        spread = np.where(spread > 0, spread, 1.0)
        codes = targets = (target - mean) / spread
    else:
        codes, targets = target, one_hot(target, classes)
        mean, spread = np.zeros(classes), np.ones(classes)
    if units is None:
        units = default_units(len(first), classes, method == "boost")
    layer = {"units": units, "groups": GROUPS}
    # Weights that are all the same say nothing, and cost time.
    weights = {"sample_weight": None if np.ptp(weight) == 0 else weight}
    if method == "layer":
        fit = fit_layer(
            views,
            groups,
            codes,
            targets,
            rng,
            calibrate=classes is not None,
            report=report,
            **weights,
            **layer,
        )
        facts = {"l2": fit.l2}
    else:
        fit = fit_boost(
            views,
            groups,
            codes,
            targets,
            rng,
            classes=classes is not None,
            settings=settings or Boosting(),
            bags=default_bags(len(first)) if bags is None else bags,
            report=report,
            **weights,
            **layer,
        )
        facts = {"rounds": fit.rounds, "share": fit.share}
    members = [
        replace(member, parts=[_renumbered(part, first) for part in member.parts])
        for member in fit.members
    ]
    left_out = np.full((len(copy_of), targets.shape[1]), np.nan)
    left_out[copy_of >= 0] = fit.left_out[copy_of[copy_of >= 0]]
    model = TableModel(columns, members, classes, mean, spread, left_out, facts)
    model.left_out = model.finished(left_out)
    dropped = copy_of < 0
    if dropped.any():
        # Rows of weight 0 took no part: the model itself has not seen them.
        unseen = {name: values[dropped] for name, values in given.items()}
        model.left_out[dropped] = model.scores(unseen)
    return model


def merged_rows(table, target, sample_weight=None):
    """Which rows are copies of which.

    Args:
        table, target, sample_weight: As in `fit_table`.

    Returns:
        `(m,)` number of the first of each set of equal rows, in sorted order;
        `(n,)` number of the set that each row belongs to, -1 for rows of weight 0;
        `(m,)` weight of each set.

    Example:

    >>> table = {"a": np.array([2.0, 1.0, 2.0])}
    >>> first, copy_of, weight = merged_rows(table, np.array([0, 1, 0]))
    >>> first.tolist(), copy_of.tolist(), weight.tolist()
    ([1, 0], [1, 0, 1], [1.0, 2.0])
    """
    n = len(target)
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
    used = np.flatnonzero(weight > 0)
    keys = [_codes(values[used]) for values in table.values()]
    keys += [_codes(column) for column in target[used].reshape(len(used), -1).T]
    _, first, sets = np.unique(
        np.stack(keys, axis=1), axis=0, return_index=True, return_inverse=True
    )
    copy_of = np.full(n, -1)
    copy_of[used] = sets.ravel()
    return used[first], copy_of, np.bincount(copy_of[used], weights=weight[used])


def _codes(values):
    """Whole numbers in the order of the values, the same for equal ones."""
    if values.dtype == object:
        levels = sorted(set(values) - {None})
        number = {level: i for i, level in enumerate([None, *levels])}
        return np.array([number[value] for value in values])
    return np.unique(values, return_inverse=True)[1].ravel()


def _views(columns, table):
    if columns is None:
        matrix = np.stack(list(table.values()), axis=1).astype("float32")
        return dict.fromkeys(VIEWS, matrix)
    return {view: columns.transform(table, view) for view in VIEWS}


def _group_numbers(columns, table):
    return np.arange(len(table)) if columns is None else columns.groups


def _renumbered(part, rows):
    return replace(part, pairs=rows[part.pairs]) if hasattr(part, "pairs") else part
