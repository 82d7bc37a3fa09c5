"""Sections of charts and tables: numbers of a report in, HTML out."""

from keras_swim.apps.report import charts
from keras_swim.apps.report.html_parts import meter, section, table
from keras_swim.apps.report.matrix import confusion_matrix
from keras_swim.apps.wording import DASH, counted, percent, seconds, shown

# Classes up to which a table shows all of them at once.
_ALL_CLASSES = 24
_WEAKEST = 15
# Classes up to which there is room beside a matrix.
_SIDE_BY_SIDE = 12


def comparison(report):
    """Methods side by side."""
    rows = report["comparison"]
    right = [row["accuracy"] for row in rows if row.get("accuracy") is not None]
    losses = [row["loss"] for row in rows if row.get("loss") is not None]
    times = [row["seconds"] for row in rows if row.get("seconds") is not None]
    head, lines = ["method"], [[shown(row["method"])] for row in rows]
    if right:
        head.append("#accuracy")
        for line, row in zip(lines, rows, strict=True):
            value = row.get("accuracy")
            line.append(meter(percent(value), value, best=value == max(right)))
    if losses:
        name = "mean squared error" if report["kind"] == "regression" else "log loss"
        head.append(f"#{name}")
        for line, row in zip(lines, rows, strict=True):
            value = row.get("loss")
            words = DASH if value is None else f"{value:.3f}"
            line.append(meter(words, None, best=value == min(losses)))
    if times:
        head.append("#time")
        for line, row in zip(lines, rows, strict=True):
            value = row.get("seconds")
            words = DASH if value is None else seconds(value)
            share = None if value is None else value / (max(times) or 1.0)
            line.append(
                meter(words, share, best=value == min(times), whole=False, long=True)
            )
    what = (
        "The same data, several methods. The best figure of each column is in bold; "
        "short bars are good for time, long ones for accuracy."
    )
    return section("Side by side", what, table(head, lines))


def confusion(report):
    """Which classes are taken for which."""
    found = report["confusion"]
    rows = counted(found["rows"], f"validation {report['item']}")
    pairs = _confused_pairs(found["pairs"])
    title = "Which classes it mixes up"
    if found.get("counts") is None:
        what = (
            f"The commonest mistakes on {rows}, out of "
            f"{counted(len(found['classes']), 'class')}."
        )
        return section(title, what, pairs)
    what = (
        f"Each line of the matrix holds the {report['item']}s of one class: on the "
        "diagonal those that were recognised, beside it what the others were taken "
        "for. The stronger the colour, the larger the share of the line. In all "
        f"{rows}."
    )
    said = f"Confusion matrix of {rows} and {len(found['classes'])} classes"
    matrix = confusion_matrix(found["classes"], found["counts"], said)
    matrix = f'<div class="scroll">{matrix}</div>'
    if len(found["classes"]) > _SIDE_BY_SIDE:
        body = f'{matrix}<div class="below">{pairs}</div>'
    else:
        body = f'<div class="split">{matrix}<div>{pairs}</div></div>'
    return section(title, what, body)


def classes(report):
    """Precision and recall of each class."""
    what = (
        "Recall: how many of a class were recognised. Precision: how many of those "
        "that were taken for the class belong to it. F1 balances the two. Weakest "
        "recall first."
    )
    rows = sorted(
        report["classes"],
        key=lambda row: (row["recall"] is None, row["recall"] or 0.0),
    )
    if len(rows) <= _ALL_CLASSES:
        body = _class_table(rows, report["item"])
    else:
        body = _class_table(rows[:_WEAKEST], report["item"])
        rest = _class_table(rows[_WEAKEST:], report["item"])
        body += (
            f"<details><summary>The other {len(rows) - _WEAKEST} classes</summary>"
            f"{rest}</details>"
        )
    return section("Class by class", what, body)


def calibration(report):
    """Whether probabilities mean what they say."""
    found = report["calibration"]
    what = (
        "Of all answers that the model gives with 80% certainty, 80% should be right. "
        "On the dashed line they are; below it the model is too sure, above it too "
        f"modest. The mean gap is {100 * found['error']:.1f} points (expected "
        "calibration error). Bars count the answers, thin lines are 95% intervals."
    )
    said = f"Calibration curve of {found['rows']} answers"
    chart = charts.reliability_diagram(found["bins"], said)
    return section("Can its probabilities be trusted?", what, chart, half=True)


def widths(report):
    """Scores over the number of hidden units."""
    found = report["widths"]
    share = found["metric"] == "accuracy"
    name = "accuracy" if share else "squared error"
    place = found["widths"].index(found["chosen"])
    value = found["values"][place]
    told = percent(value) if share else f"{value:.4g}"
    what = (
        f"The {name} on {found['rows']} {_judged_on(found['method'], report['item'])} "
        "for narrower and wider hidden layers, each with its best ridge. The band is "
        f"one standard error. Chosen: {counted(found['chosen'], 'unit')}."
    )
    limit = found.get("limit")
    if limit is not None and limit < max(found["widths"]):
        what += (
            f" Above {limit} units it tells nothing new: held-out {report['item']}s "
            "are judged only by units that they did not make."
        )
    chart = charts.curves(
        [
            {
                "name": name,
                "x": found["widths"],
                "y": found["values"],
                "errors": found["errors"],
            }
        ],
        "hidden units",
        name,
        log=True,
        percent=share,
        mark=(found["chosen"], value, f"chosen: {told}"),
        title=f"Held-out {name} over the number of hidden units",
    )
    return section("How wide is wide enough?", what, chart, half=True)


def regression(report):
    """Predicted against true values, for each output."""
    found = report["regression"]
    what = (
        "Each point is one of the validation "
        f"{report['item']}s: on the dashed line the prediction is right, above it too "
        "high, below it too low."
    )
    parts = []
    for output in found:
        words = f"Predicted against true values of {output['name']}"
        title = f"<h3>{shown(output['name'])}</h3>" if len(found) > 1 else ""
        chart = charts.scatter(output["true"], output["predicted"], words)
        below = (
            f'<p class="soft">R² {shown(output["r2"])}, root mean square error '
            f"{shown(output['rmse'])}, mean absolute error {shown(output['mae'])}</p>"
        )
        parts.append(f"<div>{title}{chart}{below}</div>")
    body = f'<div class="several">{"".join(parts)}</div>'
    return section("Predicted against true", what, body, half=len(parts) == 1)


def tuning(report):
    """Validation scores over the epochs of fine-tuning."""
    found = report["tuning"]
    share = found["metric"] == "accuracy"
    name = "accuracy" if share else "R²"
    series = [{"name": "after the epoch", "x": found["epochs"], "y": found["values"]}]
    if any(value is not None for value in found["resolved"]):
        series.append(
            {
                "name": "last layer solved again",
                "x": found["epochs"],
                "y": found["resolved"],
            }
        )
    best = found["best"]
    told = percent(best["value"]) if share else f"{best['value']:.4g}"
    what = (
        f"Validation {name} while the whole network was trained on, from the fitted "
        "start (epoch 0). The best weights were kept: those of epoch "
        f"{best['epoch']}{', last layer solved again' if best['resolved'] else ''}."
    )
    chart = charts.curves(
        series,
        "epoch",
        name,
        percent=share,
        mark=(best["epoch"], best["value"], f"kept: {told}"),
        title=f"Validation {name} over the epochs of fine-tuning",
    )
    return section("Fine-tuning", what, chart, half=True)


def stages(report):
    """Seconds of each stage."""
    found = report["stages"]
    total = sum(found.values())
    lines = [
        [shown(name), meter(seconds(value), value / total if total else 0.0, long=True)]
        for name, value in found.items()
    ]
    what = f"{seconds(total)} in all, stage by stage."
    body = f'<div class="stages">{table(["stage", "#time"], lines)}</div>'
    return section("Where the time went", what, body, half=True)


def _confused_pairs(pairs):
    if not pairs:
        return "<p>There were no mistakes.</p>"
    # A single mistake is no long bar.
    most = max(pairs[0]["count"], 5)
    lines = []
    for pair in pairs:
        words = f"{pair['count']} of {pair['rows']}"
        drawn = meter(words, pair["count"] / most, "bar wrong", whole=False)
        lines.append([shown(pair["true"]), shown(pair["predicted"]), drawn])
    return table(["is", "taken for", "#how often"], lines, "Commonest mistakes")


def _class_table(rows, item):
    lines = [
        [
            shown(row["name"]),
            row["rows"],
            meter(percent(row["recall"]), row["recall"]),
            meter(percent(row["precision"]), row["precision"]),
            percent(row["f1"]),
        ]
        for row in rows
    ]
    body = table(["class", f"#{item}s", "#recall", "#precision", "#F1"], lines)
    return f'<div class="classes">{body}</div>'


def _judged_on(method, item):
    if method == "validation":
        return f"validation {item}s"
    if method == "leave_one_out":
        return f"training {item}s, each left out once,"
    return f"training {item}s, held out in turn,"
