"""swim_forget: training rows are taken out of a fitted model."""

from dataclasses import replace

import numpy as np

from keras_swim.fit.columns import unit_numbers, unit_rows
from keras_swim.fit.dataset import joined
from keras_swim.fit.options import plain_options
from keras_swim.fit.plan import make_plan
from keras_swim.fit.prepare import check_batches, open_data
from keras_swim.fit.progress import Progress
from keras_swim.fit.rebuild import check_rebuildable, cut
from keras_swim.fit.refit import (
    assign,
    only_readout,
    penalty_of,
    readout_rows,
)


def swim_forget(
    model,
    state,
    x,
    y,
    rows,
    *,
    batch_size=None,
    sample_weight=None,
    l2=None,
    verbose="auto",
):
    """Takes training rows out of a fitted model.

    The rows are subtracted from the state, the units that they have made are
    dropped, and the readout is solved again: the result is the readout of the
    other rows on the other units, as if these rows had never been added.
    Statistics of normalisation layers stay as they are, and so does the
    temperature.

    Args:
        model: A model fitted by `swim_fit` or `swim_select`, with one output.
        state: Its `ReadoutState`; see `swim_update`. It is changed.
        x, y: The rows to forget, and their targets.
        rows: Their numbers in the training data, in the same order: a unit's
            `pairs` name its rows by these.
        batch_size, sample_weight, l2, verbose: See `swim_update`. Weights must
            be those that the rows were added with.

    Returns:
        The new, smaller model, and the new state.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(500, 4)), rng.integers(0, 2, 500)
    >>> model = keras.Sequential(
    ...     [SampledDense(64), keras.layers.Dense(2, activation="softmax")]
    ... )
    >>> history = swim_fit(model, x, y, keep_state=True, verbose=0)
    >>> model, state = swim_forget(
    ...     model, history.state, x[:10], y[:10], rows=range(10), verbose=0
    ... )
    >>> state.count
    490
    """
    options = plain_options(model, batch_size)
    reader, _ = open_data(model, x, y, sample_weight, None, 0.0)
    plan = make_plan(model, reader.specs())
    readout = only_readout(plan, state, "swim_forget")
    penalty = penalty_of(state, l2)
    check_rebuildable(model)
    if state.class_weighted and sample_weight is None:
        raise ValueError(
            "The model was fitted with `class_weight`, so its rows do not weigh 1. "
            "Pass `sample_weight`: the weights that these rows had."
        )
    if not plan.sampled:
        raise ValueError(
            "The model has no trainable SampledDense. Take rows out of its state "
            "with `state.remove(features, targets)`."
        )
    rows = _check_rows(rows, reader)
    layer, kept, columns = _kept_units(plan, readout, rows)
    check_batches(plan, reader, None)
    progress = Progress(verbose, stages=1)
    parts = []
    with progress.stage("sums", "taking out rows", reader.source.rows):
        for part in readout_rows(plan, reader, options):
            parts.append(part)
            progress.advance(len(part[1]))
    read = sum(len(part[1]) for part in parts) // _positions(plan, readout)
    if read != len(rows):
        raise ValueError(
            f"`rows` must have one number for each row of x. Received: {len(rows)} "
            f"numbers, {read} rows."
        )
    gone = joined(parts)
    smaller = state.remove(*gone).keep_units(columns)
    try:
        solved = smaller.solve(penalty)
        new, made = cut(model, plan, layer, kept)
    except BaseException:
        state.update(*gone)
        raise
    readout = replace(readout, layer=made[readout.layer])
    assign(new, readout, smaller, solved, penalty, state.temperature)
    progress.say(
        f"{len(gone[0])} rows and {layer.units - len(kept)} of {layer.units} units "
        f"forgotten; {smaller.count} rows are left"
    )
    return new, smaller


def _positions(plan, readout):
    return int(np.prod(plan.graph.tensors[readout.features].shape[1:-1]))


def _check_rows(rows, reader):
    rows = np.asarray(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or (rows < 0).any():
        raise ValueError(
            "`rows` must be a list of numbers of training rows. Received: shape "
            f"{rows.shape}, dtype {rows.dtype}. For a mask pass "
            "`numpy.flatnonzero(mask)`."
        )
    if len(np.unique(rows)) != len(rows):
        raise ValueError("`rows` must be different numbers. Received: duplicates.")
    if reader.in_memory and reader.first.rows != len(rows):
        raise ValueError(
            f"`rows` must have one number for each row of x. Received: {len(rows)} "
            f"numbers, {reader.first.rows} rows."
        )
    return rows


def _kept_units(plan, readout, rows):
    """The last sampled layer, its units that stay, and the mask of columns."""
    *earlier, last = plan.sampled
    for step in earlier:
        touched = unit_rows(plan, step.outputs[0])
        if touched is not None and np.isin(touched, rows).any():
            raise ValueError(
                f"The layer {step.path!r} has units made from these rows, and later "
                "layers were sampled from its outputs: they cannot be dropped. Fit "
                "again without the rows."
            )
    layer = last.operation
    numbers = unit_numbers(plan, readout.features, layer)
    pairs = unit_rows(plan, last.outputs[0])
    if numbers is None or pairs is None:
        raise ValueError(
            "The columns of the readout's input cannot be traced back to the units "
            f"of {layer.name!r}, so these cannot be dropped. Fit again without the "
            "rows."
        )
    kept = np.flatnonzero(~np.isin(pairs, rows).any(axis=1))
    if not len(kept):
        raise ValueError(
            "Every unit was made from one of these rows. Fit again without them."
        )
    return layer, kept, (numbers < 0) | np.isin(numbers, kept)
