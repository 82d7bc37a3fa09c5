"""table_findings: a model fitted to a table becomes the dict of a report."""

import datetime
from types import SimpleNamespace

import numpy as np

from keras_swim.apps.report import scores
from keras_swim.apps.report.column_strength import column_strengths, shuffle_costs
from keras_swim.apps.report.findings import unseen_findings
from keras_swim.apps.report.judged import Judged
from keras_swim.apps.report.row_findings import closest_pairs, mistakes, suspects
from keras_swim.apps.report.summary import cautions, lead_line

# Columns of the chart of columns, of small tables, and beside single rows.
_CHARTED, _IN_PAIRS, _BESIDE = 16, 8, 4
# Share of residuals inside of the histogram, and its bars.
_INSIDE = 0.99
_BARS = 24


def table_findings(fitted, training, validation, *, title, facts=None):
    """Collects what there is to say about a model of a table, for `write_report`.

    Args:
        fitted: `FittedTable`.
        training: `TableData`.
        validation: `TableData`, or `None`.
        title: Heading of the report.
        facts: `None`, or a dict of more facts.

    Returns:
        The dict; `keras_swim.apps.report.page` describes its keys.
    """
    model = fitted.model
    strengths = column_strengths(model, training.columns)
    columns = _columns(model, strengths, validation)
    # What rows are told apart by comes first where they are shown.
    order = [one["name"] for one in columns["shown"]]
    labels = training.class_names or [training.target]
    train = _judged("train", training, fitted.left_out, order[:_BESIDE])
    unseen = None
    if validation is not None:
        unseen = _judged("validation", validation, fitted.outputs, order[:_BESIDE])
    judged = train if unseen is None else unseen
    make = scores.class_scores if judged.is_classes else scores.regression_scores
    source = "held-out" if unseen is None else "validation"
    left_out = True if _is_layer(model) else "in turn"
    found = {
        "title": title,
        "kind": "classes" if judged.is_classes else "regression",
        "item": "row",
        "date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        "lead": lead_line(train, unseen, labels, "row"),
        "facts": {**(facts or {}), **_facts(model, training)},
        "notes": cautions(source, unseen, labels, None, None, "row"),
        "seconds": float(sum(fitted.stages.values())),
        "scores": {"source": source, **make(judged.outputs, judged.targets)},
        "columns": columns,
        "suspects": {**suspects(train, labels), "left_out": left_out},
        "closest": _closest(model, training, order, labels) or None,
        "stages": dict(fitted.stages),
    }
    if unseen is not None:
        found["mistakes"] = mistakes(unseen, labels)
        found.update(unseen_findings(unseen, labels))
        if not unseen.is_classes:
            found["residuals"] = _residuals(unseen.outputs - unseen.targets)
    return {key: value for key, value in found.items() if value is not None}


def _judged(part, data, outputs, names):
    return Judged(
        part,
        data.targets,
        outputs,
        [f"line {line}" for line in data.lines],
        cells=_cells(data, names),
    )


def _cells(data, names):
    """A function from rows to what is in some of their columns."""

    def cells(row):
        return {name: _plain(data.columns[name][row]) for name in names}

    return cells


def _plain(value):
    """A cell as the report shows it; `None` if it is missing."""
    if value is None or isinstance(value, str):
        return value
    if np.isnan(value):
        return None
    return int(value) if float(value).is_integer() and abs(value) < 1e15 else value


def _is_layer(model):
    return "l2" in model.facts


def _facts(model, training):
    units = sum(
        len(part.pairs)
        for member in model.members
        for part in member.parts
        if hasattr(part, "pairs")
    )
    found = {"Columns": len(training.columns), "Hidden units": units}
    if model.facts.get("rounds"):
        found["Rounds of boosting"] = ", ".join(map(str, model.facts["rounds"]))
        found["Share of the boosted units"] = f"{model.facts['share']:.0%}"
    return found


def _columns(model, strengths, validation):
    """The columns by what the model would miss, if that is known."""
    names = list(strengths)[:_CHARTED]
    metric = "R²" if model.classes is None else "log loss"
    costs: dict = dict.fromkeys(names)
    if validation is not None:
        costs = shuffle_costs(model, validation.columns, validation.targets, names)
        # R² of constant targets is not known.
        if all(cost is not None for cost in costs.values()):
            names = sorted(names, key=lambda name: -costs[name])
    return {
        "metric": metric,
        "others": len(strengths) - len(names),
        "shown": [
            {"name": name, "strength": strengths[name], "cost": costs[name]}
            for name in names
        ],
    }


def _closest(model, training, order, labels, limit=6):
    """The pairs behind units whose rows are most alike and whose targets differ."""
    parts = [
        part.pairs
        for member in model.members
        for part in member.parts
        if hasattr(part, "pairs")
    ]
    if not parts:
        return []
    pairs = np.unique(np.sort(np.concatenate(parts), axis=1), axis=0)
    a, b = pairs.T
    x = model.views(training.columns)["standard"]
    distance = np.linalg.norm(x[a] - x[b], axis=1).astype(float)
    targets = training.targets.reshape(-1)
    rank = distance
    if model.classes is None:
        # By how fast the target changes: few numbers are quite the same.
        smallest = 1e-3 * max(float(np.median(distance)), 1e-12)
        rank = -np.abs(targets[a] - targets[b]) / np.maximum(distance, smallest)
    best = np.argsort(rank, kind="stable")
    found = SimpleNamespace(
        row_a=a[best],
        row_b=b[best],
        label_a=targets[a[best]],
        label_b=targets[b[best]],
        distance=distance[best],
        strength=np.full(len(best), np.nan),
    )
    names = order[:_IN_PAIRS]
    judged = _judged("train", training, np.empty((len(training), 1)), names)
    return closest_pairs(found, judged, labels, limit)


def _residuals(gaps):
    gaps = gaps[:, 0]
    # A few that are far off would leave all the others in one bar.
    edge = float(np.quantile(np.abs(gaps), _INSIDE)) or 1.0
    inside = np.abs(gaps) <= edge
    bars = int(np.clip(np.sqrt(len(gaps)), 7, _BARS)) // 2 * 2 + 1
    counts, edges = np.histogram(gaps[inside], bins=bars, range=(-edge, edge))
    return {
        "rows": len(gaps),
        "edges": edges.tolist(),
        "counts": counts.tolist(),
        "outside": int((~inside).sum()),
    }
