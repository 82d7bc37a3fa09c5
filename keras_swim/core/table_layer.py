"""One sampled layer for a table: a few groups of units, each with its own ridge.

Tables differ in what suits them: smooth functions of all columns or steep ones of a
few, numbers as they are or their ranks. Rather than choosing, groups of units of each
kind are fitted by themselves, each with a ridge (and for classes a temperature) from
its leave-one-out scores (few rows: honest folds), and their logits are averaged.

Shapes: n rows, k units, c outputs.
"""

from typing import NamedTuple

import numpy as np

from keras_swim.core.calibrate import softmax_temperature
from keras_swim.core.folds import held_out_folds
from keras_swim.core.left_out import honest_scores, ridge_honest, ridge_left_out
from keras_swim.core.table_units import Columns, Member, sample_units


class Group(NamedTuple):
    """A kind of units.

    Attributes:
        view: View of the table.
        subset_sizes: Numbers of columns that a unit looks at, 0 for all.
        scales: Steepnesses, each of an equal share of the units.
    """

    view: str
    subset_sizes: tuple
    scales: tuple


GROUPS = (
    Group("standard", (0,), (1.0, 2.0)),
    Group("standard", (1, 2, 3, 4), (2.0, 4.0)),
    Group("normal", (0, 1, 2, 3), (1.0, 2.0)),
)
UNITS = 550
# Of few rows the penalty leaves few units something to say.
_SMALL, _SMALL_TABLE = 400, 1500
# Beside boosted units, two classes need fewer, and numbers gain by more.
_TWO_CLASSES, _NUMBERS = 400, 800
# With fewer rows than this, honest folds choose and calibrate rather than
# leave-one-out, which a row's own units flatter.
_FEW_ROWS = 400
# The columns themselves beside the units, smaller: they cost more penalty.
SKIP = 0.3


def default_units(rows, classes=None, boosted=False):
    """Units of each group if nobody says how many.

    Args:
        rows: Number of rows.
        classes: Number of classes, or `None` for real targets.
        boosted: Whether the layer is fitted beside boosted units.

    Example:

    >>> default_units(1000, 2), default_units(5000, 2), default_units(5000, 2, True)
    (400, 550, 400)
    """
    if rows < _SMALL_TABLE:
        return _SMALL
    if boosted and classes is None:
        return _NUMBERS
    return _TWO_CLASSES if boosted and classes == 2 else UNITS


class LayerFit(NamedTuple):
    """What `fit_layer` returns.

    Attributes:
        members: `Member`s whose scores add up to the logits (classes) or to the
            predictions.
        left_out: `(n, c)` logits or predictions of each row by fits without it.
        l2: Chosen penalty of each member.
    """

    members: list
    left_out: np.ndarray
    l2: list


def fit_layer(
    views,
    columns,
    codes,
    targets,
    rng,
    *,
    sample_weight=None,
    units=UNITS,
    groups=GROUPS,
    calibrate=True,
    judges=None,
    report=None,
):
    """Fits the groups and adds them up.

    Args:
        views: Dict from view to `(n, d)` float32.
        columns: `(d,)`: column of the table behind each column of a view.
        codes: `(n,)` class codes or `(n, c)` real targets: what pairs differ by.
        targets: `(n, c)` one-hot or real targets: what readouts are fitted to.
        rng: `numpy.random.Generator`.
        sample_weight: `None` or `(n,)`.
        units: Units of each group.
        groups: `Group`s.
        calibrate: Whether targets are classes, and scores should be logits.
        judges: `None`, or folds, arrays of row numbers that share all rows: then the
            scores of each row are by the rows of other folds and the units that these
            have made. Leave-one-out costs less, and is flattered a little.
        report: `None`, or a function that is called after each group.

    Returns:
        A `LayerFit`.
    """
    weight = np.ones(len(targets)) if sample_weight is None else sample_weight
    folds = None
    if len(targets) < _FEW_ROWS:
        labels = codes if codes.ndim == 1 else None
        folds = held_out_folds(len(targets), rng, labels, enough=len(targets) + 1)
    # Of two classes one score says both, for half the work.
    one = calibrate and targets.shape[1] == 2
    wanted = targets[:, 1:] if one else targets
    members, scores, penalties = [], [], []
    for group in groups:
        parts = _group_parts(views, columns, codes, rng, group, units, sample_weight)
        member = Member(parts, np.empty((0, 0)), np.empty(0))
        features = member.features(views)
        pairs = _pairs_of(parts, views)
        if folds is None:
            found = ridge_left_out(features, wanted, sample_weight)
            if judges is not None:
                found = found._replace(
                    scores=honest_scores(
                        features, wanted, sample_weight, pairs, judges, found.l2
                    )
                )
        else:
            found = ridge_honest(features, wanted, sample_weight, pairs, folds)
        if one:
            found = _both_classes(found)
        member = Member(parts, found.kernel, found.bias)
        factor = 1.0 / len(groups)
        if calibrate:
            factor *= softmax_temperature(found.scores, targets, weight)
        members.append(member.times(factor))
        scores.append(factor * found.scores)
        penalties.append(found.l2)
        if report is not None:
            report()
    left_out = np.sum(scores, axis=0)
    if calibrate:
        # The mean of several is surer than each of them.
        factor = softmax_temperature(left_out, targets, weight)
        members = [member.times(factor) for member in members]
        left_out = factor * left_out
    return LayerFit(members, left_out, penalties)


def _both_classes(found):
    """The readout of the second class as one of both."""
    return found._replace(
        kernel=np.concatenate([-found.kernel, found.kernel], axis=1),
        bias=np.concatenate([1.0 - found.bias, found.bias]),
        scores=np.concatenate([1.0 - found.scores, found.scores], axis=1),
    )


def _pairs_of(parts, views):
    """`(k, 2)` rows behind each column, -1 for none."""
    return np.concatenate(
        [
            part.pairs
            if hasattr(part, "pairs")
            else np.full((views[part.view].shape[1], 2), -1)
            for part in parts
        ]
    )


def _group_parts(views, columns, codes, rng, group, units, sample_weight):
    x = views[group.view]
    parts: list = [Columns(group.view, SKIP)]
    if x.shape[1] == 0:
        # Nothing but constant columns: the bias is all there is to fit.
        return parts
    each = np.full(len(group.scales), units // len(group.scales))
    each[: units % len(group.scales)] += 1
    for scale, count in zip(group.scales, each, strict=True):
        if count:
            parts.append(
                sample_units(
                    x,
                    codes,
                    int(count),
                    rng,
                    view=group.view,
                    scale=scale,
                    subset_sizes=group.subset_sizes,
                    groups=columns,
                    sample_weight=sample_weight,
                )
            )
    return parts
