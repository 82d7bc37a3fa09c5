"""pair_report: the rows behind each unit, and which labels look wrong.

A unit is made from two rows `a` and `b`, so a fitted model can say for each of
its units which rows these were, how far apart, and how much the readout makes of
it: with `f_a`, `f_b` the unit's values at its rows and `w` its kernel row in the
readout, the scores move by `(f_b - f_a) w` from one row to the other through this
unit. The length of that is its strength. (A tanh, sin or relu unit of scale 1
that the readout reads directly has `f_b - f_a = 1`: just `|w|`.)

Pairs see few rows and few of their neighbours, so they say little about wrong
labels. What the model thinks of a row's own label says much: a ridge that was
chosen on held-out rows cannot follow single labels. benchmarks/provenance.md has
the figures, also of leave-one-out residuals, which find no more.
"""

import numpy as np

from keras_swim.core.targets import differences
from keras_swim.fit.dataset import check_inputs, prepare_targets, read
from keras_swim.fit.options import plain_options
from keras_swim.fit.pair_rows import PairRows, distances, strengths
from keras_swim.fit.pair_table import PairReport
from keras_swim.fit.plan import make_plan
from keras_swim.layers.sampled_dense import SampledDense

_SORTS = ("distance", "strength", "suspicion")


def pair_report(
    model,
    x,
    y=None,
    *,
    layer=None,
    output=None,
    sort="distance",
    suspects="all",
    batch_size=None,
):
    """Reports the two training rows behind each unit of a fitted model.

    The closest pairs of different labels come first: there classes overlap, or
    a label is wrong. To look for wrong labels go through `report.suspects`.

    Args:
        model: Model that `swim_fit` has fitted, or one loaded from a file.
        x, y: The training data, in the order of the fit: whatever `swim_fit`
            takes.
        layer: Name of a `SampledDense` of the model, or the layer. Defaults to
            the last one.
        output: Name of the output whose labels are compared, for models with
            several. Defaults to the first that depends on the layer.
        sort: `"distance"`: closest first; for real targets the distance is
            divided by the difference of the targets, so steepest first.
            `"strength"`: strongest first. `"suspicion"`: by the more
            suspicious row of each pair. Pairs of equal labels come last.
        suspects: `"all"` looks for wrong labels among all rows, `"pairs"` only
            among those that made a unit: no others run through the model.
        batch_size: Rows at a time, as in `swim_fit`.

    Returns:
        A `PairReport`. `print(report)` shows a table; `report.columns()` is
        what `pandas.DataFrame` takes.

    Example:

    >>> x = np.arange(100.0)[:, None] / 100
    >>> y = (x[:, 0] > 0.5).astype(int)
    >>> y[20] = 1  # A wrong label.
    >>> model = keras.Sequential(
    ...     [SampledDense(50), keras.layers.Dense(2, activation="softmax")]
    ... )
    >>> history = swim_fit(model, x, y, seed=0, verbose=0)
    >>> report = pair_report(model, x, y)
    >>> int(report.suspects[0]), report.counts.tolist()
    (20, [[0, 50], [50, 0]])
    """
    options = plain_options(model, batch_size)
    _check_choice("sort", sort, _SORTS)
    _check_choice("suspects", suspects, ("all", "pairs"))
    _check_fitted(model)
    reader = read(x, y, None, model, caller="pair_report")
    plan = make_plan(model, reader.specs())
    check_inputs(plan.graph, reader.first)
    prepare_targets(plan.readouts, reader.first)
    step = _find_step(plan, layer)
    readout = _find_readout(plan, step, output)
    rows = PairRows(plan, step, readout, reader, all_rows=suspects == "all")
    if sort == "strength" and rows.own_columns is None:
        raise ValueError(
            '`sort="strength"` needs a layer whose units the readout sees. '
            f"Between {step.path!r} and {readout.layer.name!r} other layers mix "
            "them: use another `sort`, or a later `layer`."
        )
    rows.read(options.prefix_rows if plan.prefix else options.block_rows)
    return _report(rows, step.operation, readout, sort)


def _report(rows, layer, readout, sort):
    distance, strength = distances(rows, layer), strengths(rows, readout)
    order = _order(sort, rows, layer, distance, strength)
    labels = rows.labels
    if labels.dtype.kind == "f" and labels.shape[2] == 1:
        labels = labels[..., 0]
    return PairReport(
        unit=order,
        row_a=rows.rows[order, 0],
        row_b=rows.rows[order, 1],
        label_a=labels[order, 0],
        label_b=labels[order, 1],
        distance=distance[order],
        strength=strength[order],
        suspicion_a=rows.suspicion[order, 0],
        suspicion_b=rows.suspicion[order, 1],
        counts=_counts(labels, max(readout.units, 2)),
        suspects=rows.suspects,
        suspicion=rows.suspect_scores,
        layer=layer.name,
    )


def _order(sort, rows, layer, distance, strength):
    k = len(distance)
    codes = rows.labels.reshape(2 * k, *rows.labels.shape[2:])
    norm = np.inf if layer.y_norm == "inf" else layer.y_norm
    first = np.arange(0, 2 * k, 2)
    difference = differences(codes, first, first + 1, norm)
    equal = difference == 0
    if sort == "strength":
        return np.lexsort((-strength, equal))
    if sort == "suspicion":
        return np.lexsort((-rows.suspicion.max(axis=1), equal))
    # Classes differ by 1; for real targets this is the inverse of the weight
    # that pairs are drawn by.
    return np.lexsort((distance / np.where(equal, 1.0, difference), equal))


def _counts(labels, classes):
    if labels.dtype.kind != "i":
        return None
    counts = np.zeros((classes, classes), dtype=np.int64)
    low, high = labels.min(axis=1), labels.max(axis=1)
    np.add.at(counts, (low, high), 1)
    return counts + np.triu(counts, 1).T


def _find_step(plan, layer):
    """The step of the layer that is asked for: its first call."""
    steps = {}
    for step in plan.graph.steps:
        if getattr(step.operation, "pairs", None) is not None:
            steps.setdefault(step.operation, step)
    if layer is None and steps:
        return list(steps.values())[-1]
    for step in steps.values():
        if layer is step.operation or layer in (step.operation.name, step.path):
            return step
    names = [step.path for step in steps.values()]
    raise ValueError(
        "`layer` must be a `SampledDense` of the model with pairs, or its name. "
        f"Received: layer={layer!r}. The model has: {names}."
    )


def _find_readout(plan, step, output):
    readouts = plan.readouts_after(step)
    for readout in readouts:
        if output in (None, readout.name):
            return readout
    raise ValueError(
        f"`output` must be one of {[readout.name for readout in readouts]}: the "
        f"outputs that depend on {step.path!r}. Received: output={output!r}."
    )


def _check_choice(name, value, choices):
    if value not in choices:
        raise ValueError(
            f"`{name}` must be one of {', '.join(map(repr, choices))}. Received: "
            f"{name}={value!r}"
        )


def _check_fitted(model):
    # Before the plan, which would build a model that is not built.
    layers = [
        layer for layer in model._flatten_layers() if isinstance(layer, SampledDense)
    ]
    if any(layer.pairs is not None for layer in layers):
        return
    found = ", ".join(f"{part.name!r} (sampler={part.sampler!r})" for part in layers)
    raise ValueError(
        "`pair_report` needs a layer that was sampled from pairs of rows. Received: "
        f"a model with {found or 'no SampledDense layer'}. Call `swim_fit` first, "
        'and use the sampler "gradient" or "uniform".'
    )
