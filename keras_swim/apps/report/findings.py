"""findings: a fitted model and its data become the dict of a report."""

import datetime
from dataclasses import replace

import numpy as np
from scipy.special import expit, softmax

from keras_swim.apps.report import scores
from keras_swim.apps.report.judged import judge
from keras_swim.apps.report.row_findings import (
    closest_pairs,
    mistakes,
    regression_outputs,
    strongest_pairs,
    suspects,
)
from keras_swim.apps.report.summary import (
    cautions,
    facts_of,
    headline_scores,
    lead_line,
    stage_seconds,
)
from keras_swim.fit.provenance import pair_report
from keras_swim.fit.uncertainty import Uncertainty
from keras_swim.layers.labeled_dense import class_names as names_in
from keras_swim.layers.sampled_dense import SampledDense

# Classes up to which a matrix of counts is readable.
_MATRIX = 25


def findings(
    model,
    x,
    y,
    *,
    validation_data=None,
    class_names=None,
    names=None,
    validation_names=None,
    thumbnail=None,
    history=None,
    selection=None,
    tuning=None,
    comparison=None,
    stages=None,
    title=None,
    facts=None,
):
    """Collects what there is to say about a fitted model, for `write_report`.

    Args:
        model: Fitted Keras model from `x` to probabilities or real values; in
            practice a head on features that were computed before.
        x, y: Its training data: arrays, in the order of the fit.
        validation_data: `None`, or `(x, y)`. Without it there is no confusion
            matrix and no calibration: they would mislead on training rows.
        class_names: `None` (those of the model, or numbers), or a name for each
            class; for a regression a name for each output.
        names, validation_names: `None`, or a name for each row, such as its file.
        thumbnail: `None`, or a function of `"train"` or `"validation"` and the
            row's number that returns JPEG bytes, or `None`.
        history: `None`, or what `swim_fit` has returned; with `keep_state=True` rows
            are left out one by one to find wrong labels.
        selection: `None`, or what `swim_select` has returned.
        tuning: `None`, or the `FineTune` of a fine-tuning.
        comparison: `None`, or dicts with `method`, `accuracy`, `loss`, `seconds`.
        stages: `None` (those of the history), or a dict from names to seconds.
        title: Heading of the report.
        facts: `None`, or a dict of more facts, such as backbone and file.

    Returns:
        The dict; `keras_swim.apps.report` describes its keys.

    Example:

    >>> x = np.random.default_rng(0).normal(size=(300, 4))
    >>> y = (x[:, 0] * x[:, 1] > 0).astype(int)
    >>> model = keras.Sequential(
    ...     [SampledDense(50), keras.layers.Dense(2, activation="softmax")]
    ... )
    >>> history = swim_fit(model, x[:200], y[:200], seed=0, verbose=0)
    >>> report = findings(
    ...     model, x[:200], y[:200],
    ...     validation_data=(x[200:], y[200:]), history=history,
    ... )
    >>> report["scores"]["accuracy"] > 0.8, len(report["strongest"])
    (True, 8)
    """
    item = "row" if thumbnail is None else "image"
    train = judge(model, x, y, "train", names, thumbnail)
    unseen = None
    if validation_data is not None:
        x_val, y_val = validation_data[:2]
        unseen = judge(model, x_val, y_val, "validation", validation_names, thumbnail)
    labels = _labels(model, train, class_names)
    layers = list(model._flatten_layers(include_self=False, recursive=True))
    logs = {} if history is None else _last(history.history)
    seconds = logs.get("seconds", None if selection is None else selection.seconds)
    if stages is not None:
        seconds = float(sum(stages.values()))
    score = headline_scores(train, unseen, logs, selection)
    found = {
        "title": title or "How good is the model?",
        "kind": "classes" if train.is_classes else "regression",
        "item": item,
        "date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        "lead": lead_line(train, unseen, labels, item),
        "facts": facts_of(layers, logs, selection, facts),
        "notes": cautions(score["source"], unseen, labels, selection, tuning, item),
        "seconds": seconds,
        "scores": score,
        "comparison": comparison or None,
        "suspects": _suspects(model, x, y, train, labels, history, selection, tuning),
        "stages": (stage_seconds(logs) if stages is None else dict(stages)) or None,
    }
    if unseen is not None:
        found["mistakes"] = mistakes(unseen, labels)
        found.update(unseen_findings(unseen, labels))
    if selection is not None:
        found["widths"] = _widths(selection)
    if tuning is not None:
        found["tuning"] = _tuning(tuning)
    elif any(_has_pairs(layer) for layer in layers):
        # Not after training on: units are not those of their pairs any more.
        pairs = pair_report(model, x, y, suspects="pairs")
        found["closest"] = closest_pairs(pairs, train, labels) or None
        found["strongest"] = strongest_pairs(pairs, train, labels) or None
    return {key: value for key, value in found.items() if value is not None}


def _suspects(model, x, y, train, labels, history, selection, tuning):
    """Rows that do not fit the others: left out one by one, where that is known."""
    state = getattr(history if selection is None else selection, "state", None)
    if tuning is not None or state is None or state.class_weighted:
        return {**suspects(train, labels), "left_out": False}
    outputs = Uncertainty(model, state).left_out(x, y)
    if train.is_classes and outputs.shape[1] == 1:
        yes = expit(state.temperature * (outputs - 0.5))
        outputs = np.concatenate([1 - yes, yes], axis=1)
    elif train.is_classes:
        outputs = softmax(state.temperature * outputs, axis=1)
    return {**suspects(replace(train, outputs=outputs), labels), "left_out": True}


def _labels(model, train, given):
    """A name for each class, or for each output of a regression."""
    count = train.outputs.shape[1]
    names = names_in(model) if given is None else list(map(str, given))
    if names is None:
        if train.is_classes:
            return [str(number) for number in range(count)]
        return [f"output {number + 1}" for number in range(count)]
    if train.is_classes and count == 2 and len(names) == 1:
        # One sigmoid unit says yes or no.
        names = [f"not {names[0]}", names[0]]
    if len(names) != count:
        raise ValueError(
            f"`class_names` must have one name for each of the {count} outputs. "
            f"Received: {len(names)} names, {names[:5]}."
        )
    return names


def unseen_findings(unseen, labels):
    """What only rows can tell that the model has not seen: part of the dict.

    Args:
        unseen: `Judged` validation rows.
        labels: A name for each class, or for each output of a regression.
    """
    if not unseen.is_classes:
        return {"regression": regression_outputs(unseen, labels)}
    counts = scores.confusion_counts(unseen.targets, unseen.predicted, len(labels))
    small = len(labels) <= _MATRIX
    return {
        "confusion": {
            "rows": len(unseen.targets),
            "classes": labels,
            "counts": counts.tolist() if small else None,
            "pairs": scores.most_confused(counts, labels, 8 if small else 20),
        },
        "classes": scores.class_table(counts, labels),
        "calibration": scores.calibration(unseen.outputs, unseen.targets),
    }


def _widths(selection):
    """The score at each width, at the ridge that is best there."""
    surface = selection.surface
    values, _ = surface.metric(selection.metric)
    best = np.where(np.isfinite(values), values, np.inf).argmin(axis=1)
    lines = np.arange(len(best))
    has_accuracy = surface.accuracy is not None
    score = surface.accuracy if has_accuracy else surface.loss
    error = surface.accuracy_error if has_accuracy else surface.loss_error
    score, error = score[lines, best], error[lines, best]
    keep = np.isfinite(score)
    if keep.sum() < 2 or selection.width not in surface.widths[keep]:
        return None
    return {
        "metric": "accuracy" if has_accuracy else "loss",
        "widths": surface.widths[keep].tolist(),
        "values": score[keep].tolist(),
        "errors": np.nan_to_num(error[keep]).tolist(),
        "chosen": int(selection.width),
        "rows": int(surface.rows),
        "limit": surface.limit,
        "method": selection.method,
    }


def _tuning(tuning):
    records, best = tuning.records, tuning.best
    metric = "accuracy" if "accuracy" in best else "r2"
    return {
        "metric": metric,
        "epochs": [record["epoch"] for record in records],
        "values": [record[metric] for record in records],
        "resolved": [record.get(f"resolved_{metric}") for record in records],
        "best": {
            "epoch": best["epoch"],
            "value": best[metric],
            "resolved": best["resolved"],
        },
    }


def _last(history):
    return {name: values[-1] for name, values in history.items() if values}


def _has_pairs(layer):
    return isinstance(layer, SampledDense) and layer.pairs is not None
