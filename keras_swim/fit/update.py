"""swim_update: a fitted model learns new rows and new classes."""

from numbers import Integral

import numpy as np

from keras_swim.core.readout import ReadoutState
from keras_swim.fit.dataset import joined
from keras_swim.fit.metrics import held_out_metrics
from keras_swim.fit.options import plain_options
from keras_swim.fit.plan import make_plan
from keras_swim.fit.prepare import check_batches, open_data
from keras_swim.fit.progress import Progress
from keras_swim.fit.readouts import LABELS, REGRESSION
from keras_swim.fit.rebuild import with_outputs
from keras_swim.fit.refit import (
    assign,
    only_readout,
    penalty_of,
    readout_rows,
)


def swim_update(
    model,
    state,
    x,
    y=None,
    *,
    new_classes=0,
    validation_data=None,
    batch_size=None,
    sample_weight=None,
    l2=None,
    verbose="auto",
):
    """Goes on learning from new rows, without the old ones.

    Hidden layers stay; the readout becomes that of all rows, old and new, as if
    it had been solved on all of them at once.

    Args:
        model: A model fitted by `swim_fit` or `swim_select`, with one output.
        state: Its `ReadoutState`: `history.state` of
            `swim_fit(..., keep_state=True)`, `selection.state`, or a loaded
            one. It may be changed: use the one that is returned.
        x: Input, as for `swim_fit`: the new rows only.
        y: Targets. Labels of new classes go on where the old ones end.
        new_classes: Number of classes (or yes/no outputs) to add, or a list of
            their names. No old row belongs to them. The units have not been
            placed to tell them apart, which costs some accuracy against a new
            fit on all rows.
        validation_data: `(x, y)` or a data set, to calibrate probabilities by.
            Otherwise the calibration stays as it is.
        batch_size: Rows at a time.
        sample_weight: One non-negative weight a row.
        l2: Penalty of the readout. Defaults to that of the last solution.
        verbose: See `swim_fit`.

    Returns:
        The model and the state. With new classes the model is a new one, which
        shares frozen layers with the one that was passed; otherwise it is the
        same.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(500, 4)), rng.integers(0, 2, 500)
    >>> model = keras.Sequential(
    ...     [SampledDense(64), keras.layers.Dense(2, activation="softmax")]
    ... )
    >>> history = swim_fit(model, x, y, keep_state=True, verbose=0)
    >>> model, state = swim_update(
    ...     model, history.state, x + 1, y + 2, new_classes=2, verbose=0
    ... )
    >>> model.output_shape, state.count
    ((None, 4), 1000)
    """
    options = plain_options(model, batch_size)
    reader, validation = open_data(model, x, y, sample_weight, validation_data, 0.0)
    plan = make_plan(model, reader.specs())
    readout = only_readout(plan, state, "swim_update")
    penalty = penalty_of(state, l2)
    new = model
    names = None
    if isinstance(new_classes, str):
        raise ValueError(
            "`new_classes` must be a number or a list of names. Received: "
            f"new_classes={new_classes!r}"
        )
    if np.iterable(new_classes):
        names, new_classes = list(new_classes), len(new_classes)
    if new_classes:
        _check_new_classes(new_classes, readout, reader)
        new = with_outputs(model, plan, readout, new_classes, names)
        plan = make_plan(new, reader.specs())
        (readout,) = plan.readouts
    check_batches(plan, reader, validation)
    progress = Progress(verbose, stages=1 + (validation is not None))
    added = ReadoutState(state.units, readout.units, state.form, state.dtype)
    with progress.stage("sums", "adding up the new rows", reader.source.rows):
        for features, targets, weight in readout_rows(plan, reader, options):
            added.update(features, targets, weight)
            progress.advance(len(targets))
    temperature = _known_temperature(state, readout, validation, new_classes)
    grown = state.copy().add_classes(new_classes) if new_classes else state
    grown.merge(added)
    try:
        solved = grown.solve(penalty)
        if validation is not None:
            with progress.stage("validation", "calibrating", validation.source.rows):
                found = _judged(plan, validation, options, solved, progress)
            if readout.calibrated:
                temperature = readout.temperature(*found)
            progress.say(_metrics_line(readout, found, temperature))
    except BaseException:
        if grown is state:
            state.subtract(added)
        raise
    assign(new, readout, grown, solved, penalty, temperature)
    progress.say(f"{added.count} rows added, {grown.count} in all")
    return new, grown


def _check_new_classes(new_classes, readout, reader):
    if not isinstance(new_classes, Integral) or new_classes < 0:
        raise ValueError(
            "`new_classes` must be a non-negative integer. Received: "
            f"new_classes={new_classes!r}"
        )
    if readout.activation == "linear" and not readout.logits:
        kind = readout.kind_of(reader.first.y[0])
        if kind == REGRESSION:
            raise ValueError(
                "`new_classes` is for classes. The model's output is a real number."
            )


def _known_temperature(state, readout, validation, new_classes):
    if not readout.calibrated or validation is not None:
        return None
    if state.temperature is None:
        raise ValueError(
            "The state does not know how the model's probabilities were calibrated. "
            "Pass `validation_data`, or a state from `swim_fit(..., "
            "keep_state=True)`."
        )
    temperature = np.asarray(state.temperature)
    if readout.kind == LABELS and new_classes:
        new = np.full(new_classes, temperature.mean())
        temperature = np.concatenate([temperature, new])
    return temperature


def _judged(plan, reader, options, solved, progress):
    """Scores, targets and weights of validation rows."""
    parts = []
    for features, targets, weight in readout_rows(plan, reader, options):
        kernel = solved.kernel.astype(features.dtype)
        parts.append((features @ kernel + solved.bias, targets, weight))
        progress.advance(len(targets))
    return joined(parts)


def _metrics_line(readout, found, temperature):
    metrics = held_out_metrics(readout, *found, temperature)
    return " - ".join(f"val_{name}: {value:.4g}" for name, value in metrics.items())
