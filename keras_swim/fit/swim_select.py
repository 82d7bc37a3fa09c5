"""swim_select: width, ridge, scale and seed from held-out rows."""

from dataclasses import replace

import numpy as np

from keras_swim.core.ridge import LARGEST, SMALLEST
from keras_swim.core.solvers import solve
from keras_swim.fit.augmentation import as_augmentation, refuse_cached_copies
from keras_swim.fit.cache import Cache
from keras_swim.fit.hidden import sample_hidden
from keras_swim.fit.judges import ByFolds, ByLeaveOneOut, ByValidation
from keras_swim.fit.metrics import held_out_metrics
from keras_swim.fit.options import check_options
from keras_swim.fit.passes import feature_rows
from keras_swim.fit.plan import make_plan
from keras_swim.fit.prepare import check_first, load_rows, load_validation, open_data
from keras_swim.fit.progress import Progress
from keras_swim.fit.rebuild import check_rebuildable, cut
from keras_swim.fit.refit import assign
from keras_swim.fit.select_arguments import (
    check_lines,
    check_method,
    check_metric,
    check_penalties,
    check_rule,
    check_widths,
    last_layer,
    variants_of,
)
from keras_swim.fit.selection import Selection
from keras_swim.fit.snapshot import forget_compiled, restore, weights_of


def swim_select(
    model,
    x,
    y=None,
    *,
    validation_data=None,
    validation_split=0.0,
    method="auto",
    folds=5,
    widths=None,
    l2=None,
    scales=None,
    seeds=None,
    metric="loss",
    rule="best",
    batch_size=None,
    sample_weight=None,
    class_weight=None,
    seed=None,
    verbose="auto",
    sums_dtype="float64",
    cache_dir=None,
    augmentation=None,
    copies=1,
):
    """Chooses width, ridge, scale and seed, and fits a model with them.

    Frozen layers run once per row. For each scale and seed the hidden layers
    are sampled once, at full width, and one pass over the rows is enough for
    all widths and penalties: narrower layers have the first units of wider
    ones, and all widths of a penalty come from one factorisation.

    Args:
        model: As for `swim_fit`, Sequential or functional, with one output.
            The last `SampledDense` has the largest width. The model itself
            stays as it is.
        x: Input, as for `swim_fit`.
        y: Targets.
        validation_data: `(x, y)`, `(x, y, sample_weight)` or a data set. It is
            what the choice is made by, and takes no part in the fit.
        validation_split: Fraction of the last rows to use as validation data.
        method: `"validation"`; `"folds"` (k-fold cross-validation in which the
            units that a fold's rows have made do not judge it); or
            `"leave_one_out"` (at most 4096 rows are left out; cheaper, but a
            row's own units judge it: prefer folds where rows are few). `"auto"`
            is validation where there is validation data, and folds otherwise.
        folds: Number of folds.
        widths: Widths to try, ascending or not; `"all"` for every one.
            Defaults to twelve, each about 0.7 times the next.
        l2: Penalties to try, relative to the mean square of the features at
            full width. Defaults to powers of ten from 1e-7 to 1e2, and further
            while the best is at an end.
        scales: Values of the last sampled layer's `scale` to try. Defaults to
            its own.
        seeds: Seeds to try. Defaults to `seed`.
        metric: `"loss"` or `"accuracy"`. Loss is squared error, which is smoother
            and chooses as well; scales and seeds of classifiers are compared by
            log loss.
        rule: `"best"`, or `"one_standard_error"`: the smallest width within one
            standard error of the best.
        batch_size, sample_weight, class_weight, seed, verbose, sums_dtype,
            cache_dir, augmentation, copies: See `swim_fit`.

    Returns:
        A `Selection`: the fitted model of the chosen width in `model`, what was
        chosen in `width`, `l2`, `scale` and `seed`, the scores of all in
        `surface`, and `plot()`.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 4))
    >>> y = (x[:, 0] * x[:, 1] > 0).astype(int)
    >>> model = keras.Sequential(
    ...     [SampledDense(256), keras.layers.Dense(2, activation="softmax")]
    ... )
    >>> selection = swim_select(
    ...     model, x, y, rule="one_standard_error", seed=0, verbose=0
    ... )
    >>> selection.width < 256, selection.surface.loss.shape
    (True, (11, 10))
    """
    options = check_options("auto", "auto", seed, sums_dtype, "host", batch_size, model)
    check_rebuildable(model)
    cache = None if cache_dir is None else Cache(cache_dir)
    augment = as_augmentation(augmentation, copies)
    refuse_cached_copies(cache, augment)
    method = check_method(method, folds, validation_data, validation_split)
    penalties = check_penalties(l2)
    check_rule(rule)
    reader, validation = open_data(
        model, x, y, sample_weight, validation_data, validation_split
    )
    plan = make_plan(model, reader.specs())
    layer, numbers = last_layer(plan)
    widths = check_widths(widths, layer.units)
    variants = variants_of(layer, plan, scales, seeds, options)
    check_first(plan, reader, validation, class_weight)
    check_metric(metric, plan.readouts[0])
    check_lines(method, augment, plan.readouts[0])
    progress = Progress(
        verbose, stages=2 + (method == "validation") + 3 * len(variants)
    )
    before, scale = weights_of(plan.fitted_layers), layer.scale
    opened, best = [], None
    try:
        data = load_rows(plan, reader, options, class_weight, progress, cache, augment)
        opened.append(data.rows)
        held = None
        if method == "validation":
            held = load_validation(plan, validation, options, progress, cache)
            opened.append(held.rows)
        _announce(plan, data, method, folds, layer, variants, progress)
        surfaces = {}
        for variant in variants:
            layer.scale = variant[0]
            sample_hidden(plan, data, replace(options, seed=variant[1]), progress)
            judge = _judge(
                method, (plan, data, numbers, widths, options, progress), held, folds
            )
            surface = widened_surface(judge, penalties, l2 is None, metric, rule)
            surfaces[variant] = surface
            found = _variant_loss(judge, surface, metric)
            if best is None or found < best[0]:
                if best is not None:
                    best[2].close()
                best = found, variant, judge, weights_of(plan.fitted_layers)
            else:
                # Its sums are as large as those that are kept.
                judge.close()
            del judge
        _, variant, judge, weights = best
        restore(weights)
        layer.scale = variant[0]
        with progress.stage("solve", "solving the chosen readout", 1, "readout"):
            selection = _finished(model, judge, layer, surfaces, variant, metric, rule)
            progress.advance(1)
    finally:
        layer.scale = scale
        restore(before)
        forget_compiled(model)
        for part in [*opened, *([] if best is None else [best[2]])]:
            part.close()
    selection.method = method
    selection.state.class_weighted = class_weight is not None
    selection.seconds = progress.total_seconds
    progress.say(str(selection))
    return selection


def _announce(plan, data, method, folds, layer, variants, progress):
    progress.say(
        f"{data.count} rows; selecting the width of {layer.name} (up to "
        f"{layer.units} units) by {method.replace('_', ' ')}"
        + (f"; {len(variants)} settings of scale and seed" if len(variants) > 1 else "")
    )
    width = plan.graph.tensors[plan.readouts[0].features].shape[-1]
    matrices = 4 if method != "folds" else 3 + 2 * folds
    needed = 8 * width * min(width, data.count) * matrices
    progress.say_memory(needed)


def _judge(method, common, held, folds):
    if method == "validation":
        return ByValidation(*common, held)
    if method == "folds":
        return ByFolds(*common, folds)
    return ByLeaveOneOut(*common)


def _variant_loss(judge, surface, metric):
    """What scales and seeds are compared by.

    Inside one of them squared error is the smoother guide. Between them it is a wrong
    one: steeper units fit one-hot targets better and classes worse. Log loss, with
    the temperature that the model would get, tells them apart.
    """
    at = surface.choose(metric, "best")
    if metric != "loss" or not judge.readout.calibrated:
        return surface.metric(metric)[0][at]
    width, l2 = int(surface.widths[at[0]]), float(surface.l2[at[1]])
    scores, targets, weight = judge.held_out(width, l2)
    temperature = judge.readout.temperature(scores, targets, weight)
    found = held_out_metrics(judge.readout, scores, targets, weight, temperature)
    return found["loss"]


def widened_surface(judge, penalties, widen, metric, rule):
    """The surface; its penalties are widened while the best is at an end."""
    surface = judge.surface(penalties)
    while widen:
        _, at = surface.choose(metric, rule)
        exponents = np.log10(surface.l2)
        if at == 0 and surface.l2[0] > SMALLEST * 1.5:
            more = exponents[0] - np.arange(3, 0, -1)
        elif at == len(surface.l2) - 1 and surface.l2[-1] < LARGEST / 1.5:
            more = exponents[-1] + np.arange(1, 4)
        else:
            break
        more = 10.0 ** np.clip(np.round(more), np.log10(SMALLEST), np.log10(LARGEST))
        judge.progress.stages += 1
        surface = surface.joined(judge.surface(np.unique(more)))
    return surface


def _finished(model, judge, layer, surfaces, variant, metric, rule):
    """The `Selection`: the model at the chosen width, solved."""
    surface = surfaces[variant]
    at, penalty = surface.choose(metric, rule)
    width, l2 = int(surface.widths[at]), float(surface.l2[penalty])
    plan, readout = judge.plan, judge.readout
    scores, targets, weight = judge.held_out(width, l2)
    columns = judge.numbers < width
    state = judge.state.keep_units(columns)
    # The same lambda, relative to the features that are left.
    square = state.mean_square()
    l2 *= judge.state.mean_square() / square if square > 0 else 1.0

    def blocks():
        for features, *rest in feature_rows(plan, judge.data, 0, judge.options):
            yield (features[:, columns], *rest)

    solved = solve(state, l2, "auto", blocks)
    temperature = None
    if readout.calibrated:
        temperature = readout.temperature(scores, targets, weight)
    new, made = cut(model, plan, layer, np.arange(width))
    made_readout = replace(readout, layer=made[readout.layer])
    assign(new, made_readout, state, solved, l2, temperature)
    return Selection(
        model=new,
        width=width,
        l2=l2,
        scale=variant[0],
        seed=variant[1],
        metric=metric,
        rule=rule,
        surface=surface,
        surfaces=surfaces,
        state=state,
        metrics=held_out_metrics(readout, scores, targets, weight, temperature),
    )
