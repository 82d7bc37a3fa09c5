"""The choice among several models by the same held-out rows."""

from typing import Any, NamedTuple

import numpy as np

from keras_swim.fit.selection import Selection
from keras_swim.fit.swim_select import swim_select


class Candidate(NamedTuple):
    """One of several models, after `swim_select`.

    Attributes:
        settings: What it was built with.
        selection: Its `Selection`.
        loss: Held-out value (squared error, for classes log loss; or share of wrong
            answers) of the width and penalty that were chosen for it.
        best: The smallest value over its widths and penalties.
        best_error: Standard error of `best`.
    """

    settings: Any
    selection: Selection
    loss: float
    best: float
    best_error: float


def choose_among(models, x, y, report=None, **options):
    """Selects width and ridge of each model, and then the model.

    The best one wins, of equals the first. With `rule="one_standard_error"` it is
    the first that, at the width which this rule gives it, comes within one standard
    error of the best: so list plain candidates first.

    Args:
        models: Iterable of `(settings, model)`; a model is built when its turn
            comes.
        x, y: Data, as for `swim_select`.
        report: `None`, or a function that is called with the settings and the
            `Selection` of each model.
        **options: See `swim_select`.

    Returns:
        A `Candidate`.

    Example:

    >>> def model(units):
    ...     return keras.Sequential([SampledDense(units), keras.layers.Dense(1)])
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(300, 1))
    >>> models = ((units, model(units)) for units in (2, 64))
    >>> found = choose_among(models, x, np.sin(9 * x), seed=0, verbose=0)
    >>> found.settings
    64
    """
    tolerant = options.get("rule") == "one_standard_error"
    kept: list[Candidate] = []
    for settings, model in models:
        selection = swim_select(model, x, y, **options)
        if report is not None:
            report(settings, selection)
        kept.append(_candidate(settings, selection))
        best = min(kept, key=lambda one: one.best)
        limit = best.best + (best.best_error if tolerant else 0.0)
        # What cannot win any more is let go: its sums are large.
        kept = [one for one in kept if one.loss <= limit]
    if not kept:
        raise ValueError("There is nothing to choose from. Pass at least one.")
    return kept[0]


def _candidate(settings, selection):
    surface = selection.surface
    values, errors = surface.metric(selection.metric)
    values = np.where(np.isfinite(values), values, np.inf)
    best = surface.choose(selection.metric, "best")
    chosen = surface.choose(selection.metric, selection.rule)
    # Squared error tells widths and penalties of one classifier apart, but not one
    # classifier from another: these are compared by log loss.
    unit = 1.0
    classes = surface.accuracy is not None
    if classes and selection.metric == "loss" and values[chosen] > 0:
        unit = selection.metrics["loss"] / values[chosen]
    return Candidate(
        settings,
        selection,
        float(unit * values[chosen]),
        float(unit * values[best]),
        float(unit * np.nan_to_num(errors[best])),
    )
