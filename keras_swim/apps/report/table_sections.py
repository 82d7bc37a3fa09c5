"""Sections that only tables have: residuals, and which columns a model uses."""

from keras_swim.apps.report import svg
from keras_swim.apps.report.html_parts import meter, section, table
from keras_swim.apps.wording import counted, percent, shown

_WIDTH = 400


def residuals(report):
    """How far predictions are off, as a histogram."""
    found = report["residuals"]
    what = (
        "Predicted minus true, counted: right of zero the prediction was too high, "
        "left of it too low. A hump beside zero or a long tail on one side is "
        "something that the columns do not tell."
    )
    if found["outside"]:
        what += f" {counted(found['outside'], report['item'])} lie outside."
    said = f"Histogram of the errors of {counted(found['rows'], report['item'])}"
    chart = histogram(found["edges"], found["counts"], said)
    return section("How far it is off", what, chart, half=True)


def columns(report):
    """Which columns the units look at, and what the model would miss."""
    found = report["columns"]
    shown_columns = found["shown"]
    what = (
        "In units: the columns' shares in the hidden units, each unit counted by how "
        "much the readout makes of it. Units partly cancel, so columns that say "
        "nothing have a share, too."
    )
    head = ["column", "#in units"]
    costs = [one["cost"] for one in shown_columns]
    if costs and costs[0] is not None:
        words = {
            "log loss": "how much the log loss on validation rows rises",
            "R²": "how much R² on validation rows falls",
        }[found["metric"]]
        what += (
            f" When shuffled: {words} if the values of this column are dealt to other "
            "rows. About zero: the model would not miss it, perhaps because another "
            "column says the same."
        )
        head.append("#when shuffled")
    if found["others"]:
        what += f" {counted(found['others'], 'column')} with less are not shown."
    most = max((one["strength"] for one in shown_columns), default=0.0) or 1.0
    dearest = max((cost for cost in costs if cost is not None), default=0.0) or 1.0
    lines = []
    for one in shown_columns:
        share = one["strength"] / most
        line = [shown(one["name"]), meter(percent(one["strength"]), share, whole=False)]
        if one["cost"] is not None:
            cost = max(one["cost"], 0.0) / dearest
            line.append(meter(f"{one['cost']:+.3f}", cost, whole=False))
        lines.append(line)
    body = f'<div class="columns">{table(head, lines)}</div>'
    return section("Which columns it uses", what, body)


def histogram(edges, counts, title=""):
    """Bars over the ranges between edges, with a line at zero.

    Args:
        edges: n + 1 numbers.
        counts: n counts.
        title: Text for people who do not see the chart.

    Example:

    >>> histogram([-1.0, 0.0, 1.0], [3, 4]).count("<rect")
    2
    """
    floor = 250
    ticks = svg.nice_ticks(0, max(*counts, 1))
    left = 34 + max(len(f"{tick:g}") for tick in ticks) * svg.LETTER
    x = svg.Axis(edges[0], edges[-1], left, _WIDTH - 18)
    y = svg.Axis(0, ticks[-1], floor, 12)
    parts = []
    for tick in ticks:
        # Half a row is no count.
        if tick == round(tick):
            parts.append(svg.line(left, y(tick), x.end, y(tick), "grid"))
            parts.append(svg.text(left - 7, y(tick) + 4, f"{tick:g}", "tick end"))
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        said = f"{count} between {low:.6g} and {high:.6g}"
        bar = svg.rect(
            x(low) + 0.7, y(count), x(high) - x(low) - 1.4, floor - y(count), "bar"
        )
        parts.append(f"<g>{bar}{svg.hint(said)}</g>")
    for tick in svg.nice_ticks(edges[0], edges[-1]):
        if edges[0] <= tick <= edges[-1]:
            parts.append(svg.text(x(tick), floor + 16, f"{tick:g}", "tick"))
    if edges[0] < 0 < edges[-1]:
        parts.append(svg.line(x(0), 12, x(0), floor, "ideal"))
    parts.append(svg.line(left, floor, x.end, floor, "base"))
    middle = (x.start + x.end) / 2
    parts.append(svg.text(middle, floor + 34, "predicted minus true", "name"))
    parts.append(svg.turned(11, (12 + floor) / 2, "rows", "name"))
    return svg.picture(_WIDTH, floor + 40, parts, title)
