"""What stands at the top of a report: figures, facts, words of caution."""

import numpy as np

from keras_swim.apps.report import scores
from keras_swim.apps.report.row_findings import SHOWN_OUTPUTS
from keras_swim.apps.wording import counted
from keras_swim.core.folds import ENOUGH_FOR_TEMPERATURE, held_out_folds
from keras_swim.layers.sampled_dense import SampledDense

# Rows that `Selection.metrics` come from, at most: an interval from too few rows
# is rather too wide than too narrow.
_SELECTION_ROWS = 2048

_STAGES = {
    "features": "reading the rows",
    "sampling": "sampling the hidden units",
    "sums": "adding up the features",
    "solve": "choosing the ridge and solving",
    "validation": "validating",
}


def headline_scores(train, unseen, logs, selection):
    """Scores on the most trustworthy rows that there are.

    Args:
        train: `Judged` training rows.
        unseen: `Judged` validation rows, or `None`.
        logs: Dict of the last values of a history; may be empty.
        selection: `Selection` or `None`.
    """
    if unseen is not None:
        return {"source": "validation", **_scores_of(unseen)}
    if "cv_accuracy" in logs or "cv_r2" in logs:
        held = {name: logs.get(f"cv_{name}") for name in ("accuracy", "r2", "loss")}
        return _held_out(held, _held_out_rows(len(train.targets)))
    if selection is not None:
        rows = min(selection.surface.rows, _SELECTION_ROWS)
        return _held_out(selection.metrics, rows)
    return {"source": "training", **_scores_of(train)}


def cautions(source, unseen, labels, selection, tuning, item):
    """What to bear in mind about the figures: a list of sentences."""
    found = []
    if source == "held-out":
        found.append(
            f"There were no validation {item}s. These figures come from training "
            f"{item}s that were held out in turn. For all that needs more than a "
            f"figure (mistakes, for example), keep some {item}s apart for validation."
        )
    if source == "training":
        found.append(
            f"These are the very {item}s that the model was fitted to. On new ones it "
            f"will do worse: keep some {item}s apart for validation."
        )
    if unseen is None:
        return found
    chosen = []
    if selection is not None and selection.method == "validation":
        chosen.append("Width and ridge")
    if tuning is not None:
        chosen.append("the weights of the best epoch" if chosen else "The best epoch")
    if chosen:
        were = "was" if chosen == ["The best epoch"] else "were"
        found.append(
            f"{' and '.join(chosen)} {were} chosen on validation {item}s, so new ones "
            "may do slightly worse."
        )
    if not unseen.is_classes and len(labels) > SHOWN_OUTPUTS:
        found.append(
            f"Of {len(labels)} outputs the {SHOWN_OUTPUTS} with the smallest R² are "
            "shown one by one."
        )
    if unseen.is_classes:
        present = set(unseen.targets.tolist())
        missing = [name for i, name in enumerate(labels) if i not in present]
        if missing:
            some = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
            found.append(
                f"{counted(len(missing), 'class')} without any validation {item}: "
                f"{some}."
            )
    return found


def lead_line(train, unseen, labels, item):
    """How much data there was, in one line."""
    parts = [counted(len(labels), "class")] if train.is_classes else []
    parts.append(counted(len(train.targets), f"training {item}"))
    if unseen is not None:
        parts.append(counted(len(unseen.targets), f"validation {item}"))
    return ", ".join(parts)


def facts_of(layers, logs, selection, given):
    """The facts that were given, and what the model says of itself."""
    own = {}
    sampled = [layer for layer in layers if isinstance(layer, SampledDense)]
    if sampled:
        own["Hidden units"] = " and ".join(str(layer.units) for layer in sampled)
        own["Activation"] = getattr(sampled[-1].activation, "__name__", None)
    l2 = logs.get("l2", None if selection is None else selection.l2)
    own["Ridge (l2)"] = None if l2 is None else f"{l2:.2g}"
    found = dict(given or {})
    for name, value in own.items():
        found.setdefault(name, value)
    return {name: value for name, value in found.items() if value is not None}


def stage_seconds(logs):
    """Seconds of each stage of `swim_fit`, by names for people."""
    return {
        title: logs[f"seconds_{name}"]
        for name, title in _STAGES.items()
        if f"seconds_{name}" in logs
    }


def _scores_of(judged):
    if judged.is_classes:
        return scores.class_scores(judged.outputs, judged.targets)
    return scores.regression_scores(judged.outputs, judged.targets)


def _held_out(metrics, rows):
    if metrics.get("accuracy") is None:
        square = metrics["loss"]
        found = {"r2": metrics["r2"], "rmse": float(np.sqrt(square))}
        return {"source": "held-out", **found}
    low, high = scores.wilson(metrics["accuracy"], rows)
    found = {"accuracy": metrics["accuracy"], "loss": metrics["loss"]}
    return {"source": "held-out", **found, "low": low, "high": high}


def _held_out_rows(count):
    """How many rows `swim_fit` has held out, at least."""
    rng = np.random.default_rng(0)
    return sum(map(len, held_out_folds(count, rng, enough=ENOUGH_FOR_TEMPERATURE)))
