"""Boosted units for a table: bags, averaged, beside a sampled layer.

The rows are dealt to a few folds. Each bag is boosted on all folds but one, which
says when it stops; the held-out scores of all bags together are those of all rows, by
models that have not seen them. The bags' logits are averaged, and mixed with those of
a sampled layer (`table_layer`) in the proportion that suits the held-out scores best.
All of it is a sum of readouts.

Shapes: n rows, c outputs.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from keras_swim.core.boosting import Boosting, CrossEntropy, SquaredError, boost
from keras_swim.core.calibrate import log_loss, softmax_temperature
from keras_swim.core.folds import held_out_folds
from keras_swim.core.table_layer import fit_layer

_SHARES = np.linspace(0.0, 1.0, 11)
# With fewer rows there is no boosting, only the sampled layer.
_FEWEST_ROWS = 20
_BAGS = 4
# Of few rows a bag cannot spare a quarter; of very few an eighth cannot judge it.
_BAGS_OF_FEW, _FEW_ROWS = 8, range(200, 600)
# With more rows than this, the layer's leave-one-out scores are honest enough.
_MANY_ROWS = 2000


def default_bags(rows):
    """Number of bags if nobody says how many.

    Args:
        rows: Number of rows.

    Example:

    >>> default_bags(100), default_bags(500), default_bags(5000)
    (4, 8, 4)
    """
    return _BAGS_OF_FEW if rows in _FEW_ROWS else _BAGS


class BoostFit(NamedTuple):
    """What `fit_boost` returns.

    Attributes:
        members: `Member`s whose scores add up to the logits or predictions.
        left_out: `(n, c)` held-out logits or predictions.
        rounds: Rounds of each bag.
        share: Weight of the boosted bags; the rest is the sampled layer's.
    """

    members: list
    left_out: np.ndarray
    rounds: list
    share: float


def fit_boost(
    views,
    columns,
    codes,
    targets,
    rng,
    *,
    sample_weight=None,
    settings=None,
    bags=_BAGS,
    classes=True,
    report=None,
    **layer,
):
    """Fits bags of boosted units and a sampled layer, and mixes them.

    Args:
        views, columns, codes, targets, rng, sample_weight: See
            `keras_swim.core.table_layer.fit_layer`. Real targets should have a
            spread of about 1.
        settings: `Boosting`, or `None` for the defaults.
        bags: Number of bags.
        classes: Whether targets are classes.
        report: `None`, or a function that is called after each bag and each group
            of the sampled layer.
        **layer: Further arguments of `fit_layer`.

    Returns:
        A `BoostFit`.
    """
    weight = np.ones(len(targets)) if sample_weight is None else sample_weight
    x = views["standard"]
    # Nothing to deal to folds, or nothing to look at: the layer is all there is.
    alone = len(x) < _FEWEST_ROWS or x.shape[1] == 0
    folds = None
    if not alone:
        folds = held_out_folds(
            len(x), rng, codes if classes else None, folds=bags, enough=len(x) + 1
        )
    other = fit_layer(
        views,
        columns,
        codes,
        targets,
        rng,
        sample_weight=sample_weight,
        calibrate=classes,
        judges=folds if len(x) < _MANY_ROWS else None,
        report=report,
        **layer,
    )
    if alone:
        return BoostFit(other.members, other.left_out, [], 0.0)
    members, held, rounds = _fit_bags(
        x, columns, targets, weight, rng, settings or Boosting(), folds, classes, report
    )
    share, factor = _mixture(held, other.left_out, targets, weight, classes)
    mixed = [member.times(share * factor) for member in members if share > 0]
    mixed += [
        member.times((1 - share) * factor) for member in other.members if share < 1
    ]
    left_out = factor * (share * held + (1 - share) * other.left_out)
    return BoostFit(mixed, left_out, rounds, share)


def _fit_bags(x, columns, targets, weight, rng, settings, folds, classes, report):
    """Members that are averaged, held-out scores of all rows, rounds of each bag."""
    # Two classes have one logit.
    one = classes and targets.shape[1] == 2
    wanted = targets[:, 1:] if one else targets
    loss = CrossEntropy(separate=one) if classes else SquaredError()
    held = np.empty(wanted.shape)
    members, rounds = [], []
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(x)), fold)
        found = boost(
            x[rest],
            wanted[rest],
            x[fold],
            wanted[fold],
            loss,
            rng,
            columns,
            settings,
            weight[rest],
            weight[fold],
        )
        held[fold] = found.held_scores
        members.append(_renumbered(found.member, rest))
        rounds.append(found.rounds)
        if report is not None:
            report()
    if one:
        held = both_sides(held)
        members = [
            replace(
                member, kernel=both_sides(member.kernel), bias=both_sides(member.bias)
            )
            for member in members
        ]
    return [member.times(1.0 / len(members)) for member in members], held, rounds


def _renumbered(member, rows):
    """The member, its pairs numbered as among all rows."""
    parts = [replace(part, pairs=rows[part.pairs]) for part in member.parts]
    return replace(member, parts=parts)


def both_sides(logit):
    """Two logits that say the same as one."""
    return np.concatenate([-0.5 * logit, 0.5 * logit], axis=-1)


def _mixture(first, second, targets, weight, classes):
    """Share of `first`, and the factor (for classes) that calibrates the mixture."""
    best = None
    for share in _SHARES:
        scores = share * first + (1 - share) * second
        factor = 1.0
        if classes:
            factor = softmax_temperature(scores, targets, weight)
            each = log_loss(factor * scores, targets)
        else:
            each = ((scores - targets) ** 2).sum(axis=1)
        loss = float(weight @ each)
        if best is None or loss < best[0]:
            best = loss, float(share), factor
    return best[1:]
