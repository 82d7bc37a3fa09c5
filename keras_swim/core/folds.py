"""Which rows are held out, and which units may judge them.

A unit made from a row has seen that row's target, so a score of that row with
that unit is optimistic. An honest fold leaves out the rows of the fold and the
units whose pair touches them.

Few rows: all of five folds are scored (very few: ten, since every row that is held out
is missed by the others). Many rows: a bounded number of held-out rows says enough, and
only the first fold or folds are scored.
"""

import numpy as np

FOLDS = 5
FOLDS_OF_VERY_FEW = 10
_VERY_FEW_ROWS = 100
# Held-out rows that are enough to choose a penalty, and to fit a temperature.
ENOUGH_ROWS = 2048
ENOUGH_FOR_TEMPERATURE = 1024


def held_out_folds(n, rng, labels=None, folds=None, enough=ENOUGH_ROWS):
    """Disjoint arrays of row numbers, together at least `enough` or all rows.

    Args:
        n: Number of rows.
        rng: `numpy.random.Generator`.
        labels: `None` or `(n,)` class codes: folds then get equal shares of
            every class.
        folds: Number of folds that the rows are dealt to. Defaults to five, ten for
            fewer than 100 rows.
        enough: Number of held-out rows at which no more folds are taken; a
            fold has hardly more than this many.

    Example:

    >>> folds = held_out_folds(10, np.random.default_rng(0))
    >>> sorted(np.concatenate(folds).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    if folds is None:
        folds = FOLDS_OF_VERY_FEW if n < _VERY_FEW_ROWS else FOLDS
    order = rng.permutation(n)
    if labels is not None:
        order = order[np.argsort(labels[order], kind="stable")]
    # Rounded down, so that one fold is enough as soon as it can be.
    folds = min(max(folds, n // enough), n)
    chosen = []
    count = 0
    for fold in range(folds):
        # Dealt like cards: neighbours in class order go to different folds.
        rows = np.sort(order[fold::folds])
        chosen.append(rows)
        count += len(rows)
        if count >= enough:
            break
    return chosen


def untouched_units(pairs, rows, n):
    """Mask of the units none of whose rows is in `rows`.

    Args:
        pairs: `(k, p)` row numbers behind each unit, -1 for none.
        rows: Row numbers of the fold.
        n: Number of rows in all.
    """
    inside = np.zeros(n + 1, dtype=bool)
    inside[rows] = True
    inside[n] = False  # Where -1 points.
    return ~inside[pairs].any(axis=1)
