"""Charts: numbers in, strings of SVG out.

Every chart is drawn in its own small coordinates, about as many as a telephone
has pixels, and grows with the page: its text stays readable on both. Colours
are classes, so that one style sheet (`page_style.py`) serves light and dark.
"""

import math

from keras_swim.apps.report import svg
from keras_swim.apps.report.svg import LETTER

_WIDTH = 400


def interval_strip(value, low, high, baseline=None, baseline_name="", title=""):
    """A share between 0 and 1 on its scale, with its interval.

    Args:
        value: The share.
        low, high: Ends of its interval, or `None` for none.
        baseline: A share to compare with, or `None`.
        baseline_name: What that is.
        title: Text for people who do not see the chart.

    Example:

    >>> 'aria-label="9 of 10"' in interval_strip(0.9, 0.8, 0.95, title="9 of 10")
    True
    """
    x = svg.Axis(0, 1, 8, _WIDTH - 8)
    parts = [svg.line(x(0), 16, x(1), 16, "track")]
    if low is not None and high is not None:
        width = max(x(high) - x(low), 2)
        parts.append(svg.rect(x(low), 11, width, 10, "band", 'rx="5"'))
    if baseline is not None:
        parts.append(svg.line(x(baseline), 9, x(baseline), 23, "mark-line"))
        half = len(baseline_name) * LETTER / 2
        at = min(max(x(baseline), half), _WIDTH - half)
        parts.append(svg.text(at, 37, baseline_name, "tick"))
    parts.append(svg.dot(x(value), 16, "dot", radius=5.5))
    return svg.picture(_WIDTH, 42, parts, title)


def bar(share, kind="bar", whole=True):
    """A bar for a cell of a table, beside its number.

    Args:
        share: How much of the width it fills.
        kind: Its class.
        whole: Whether the width means something, and is to be seen.

    Example:

    >>> bar(0.5).count("<rect")
    2
    """
    share = min(max(share, 0.0), 1.0)
    filled = max(100 * share, 1.0 if share else 0.0)
    parts = svg.rect(0, 0, 100, 8, "bar-track") if whole else ""
    parts += svg.rect(0, 0, filled, 8, kind)
    size = 'viewBox="0 0 100 8" preserveAspectRatio="none"'
    return f'<svg class="cell-bar" {size} aria-hidden="true">{parts}</svg>'


def reliability_diagram(bins, title="Calibration curve"):
    """Share of right answers over the probability that the model gave.

    Args:
        bins: Dicts with `low`, `high` (edges), `rows`, `confidence` (mean
            probability), `accuracy`, `accuracy_low` and `accuracy_high`.
        title: Text for people who do not see the chart.

    Example:

    >>> chart = reliability_diagram([{
    ...     "low": 0.9, "high": 1.0, "rows": 50, "confidence": 0.95,
    ...     "accuracy": 0.9, "accuracy_low": 0.79, "accuracy_high": 0.96,
    ... }])
    >>> chart.count("<circle")
    1
    """
    start = 0.5 if min(part["low"] for part in bins) >= 0.5 else 0.0
    x, y = svg.Axis(start, 1, 58, _WIDTH - 18), svg.Axis(0, 1, 240, 12)
    floor, most = 322, max(part["rows"] for part in bins)
    parts = _grid(x, y, _percents(0), _percents(start), floor)
    parts.append(svg.line(x(start), y(start), x(1), y(1), "ideal"))
    for part in bins:
        height = 50 * part["rows"] / most
        left, right = x(part["low"]) + 1.5, x(part["high"]) - 1.5
        parts.append(svg.rect(left, floor - height, right - left, height, "bar"))
        middle = (left + right) / 2
        parts.append(svg.text(middle, floor - height - 4, part["rows"], "small"))
    points = [(x(part["confidence"]), y(part["accuracy"])) for part in bins]
    parts.append(svg.path(points, "curve s0"))
    for part, (at, height) in zip(bins, points, strict=True):
        said = (
            f"{part['rows']} times: on average {part['confidence']:.1%} sure, "
            f"{part['accuracy']:.1%} right"
        )
        ends = y(part["accuracy_low"]), y(part["accuracy_high"])
        parts.append(svg.line(at, *ends[:1], at, ends[1], "error"))
        parts.append(svg.dot(at, height, "dot s0", said))
    parts.append(
        svg.turned(11, (y.start + y.end) / 2, "how often it was right", "name")
    )
    parts.append(svg.turned(11, floor - 28, "count", "name"))
    parts.append(svg.text((x.start + x.end) / 2, floor + 34, "how sure it was", "name"))
    return svg.picture(_WIDTH, floor + 40, parts, title)


def curves(series, x_name, y_name, *, log=False, percent=False, mark=None, title=""):
    """Lines over a common axis, with standard errors where there are any.

    Args:
        series: One or two dicts with `name`, `x`, `y`, and `errors` or none.
            Values that are not finite are left out.
        x_name, y_name: Names of the axes.
        log: Whether the x-axis is logarithmic.
        percent: Whether y is a share, to be shown in per cent.
        mark: `None`, or `(x, y, text)`: a point to point out.
        title: Text for people who do not see the chart.

    Example:

    >>> line = {"name": "accuracy", "x": [1, 2, 4], "y": [0.5, 0.7, 0.8]}
    >>> curves([line], "units", "accuracy", log=True, percent=True).count("<circle")
    3
    """
    lines = [_points(one) for one in series]
    every = [point for line in lines for point in line]
    if not every:
        raise ValueError(
            "`curves` needs at least one point with finite values. Received: none. "
            "Leave the chart out."
        )
    ticks = svg.nice_ticks(
        min(y - error for _, y, error in every), max(y + error for _, y, error in every)
    )
    names = _tick_names(ticks, percent)
    legend = 20 if len(series) > 1 else 0
    floor = 312 + legend
    # Room for the words above a marked point.
    y = svg.Axis(ticks[0], ticks[-1], floor, 12 + legend + (16 if mark else 0))
    left = 30 + max(len(name) for name in names.values()) * LETTER
    xs = sorted({point[0] for point in every})
    x = svg.Axis(xs[0], xs[-1], left + 14, _WIDTH - 18, log)
    across = [(value, f"{value:g}") for value in _spaced(xs, x)]
    parts = _grid(x, y, names.items(), across, floor, left)
    for number, (one, line) in enumerate(zip(series, lines, strict=True)):
        parts += _curve(one["name"], line, x, y, f"s{number}", percent)
    if legend:
        parts += _legend([one["name"] for one in series], left)
    if mark is not None:
        at, value, words = mark
        half = len(words) * LETTER / 2 + 4
        place = min(max(x(at), left + half + 4), _WIDTH - half - 2)
        parts.append(svg.dot(x(at), y(value), "ring", words, radius=7))
        parts.append(svg.text(place, y(value) - 13, words, "marked"))
    parts.append(svg.turned(11, (y.start + y.end) / 2, y_name, "name"))
    parts.append(svg.text((x.start + x.end) / 2, floor + 34, x_name, "name"))
    return svg.picture(_WIDTH, floor + 40, parts, title)


def scatter(true, predicted, title="Predicted against true values"):
    """Predicted over true values, with the line where both are equal.

    Example:

    >>> scatter([0.0, 1.0], [0.1, 0.8]).count("<circle")
    2
    """
    ticks = svg.nice_ticks(min(*true, *predicted), max(*true, *predicted))
    names = _tick_names(ticks)
    left = 30 + max(len(name) for name in names.values()) * LETTER
    x = svg.Axis(ticks[0], ticks[-1], left, _WIDTH - 18)
    y = svg.Axis(ticks[0], ticks[-1], 330, 12)
    across = [(tick, names[tick]) for tick in _spaced(ticks, x, apart=48)]
    parts = _grid(x, y, names.items(), across, 330)
    parts.append(svg.line(x.start, y.start, x.end, y.end, "ideal"))
    parts += [
        svg.dot(x(a), y(b), "point", radius=2.4)
        for a, b in zip(true, predicted, strict=True)
    ]
    parts.append(svg.turned(11, (y.start + y.end) / 2, "predicted", "name"))
    parts.append(svg.text((x.start + x.end) / 2, 364, "true", "name"))
    return svg.picture(_WIDTH, 370, parts, title)


def _points(one):
    """`(x, y, error)` of a series, as far as they are finite."""
    errors = one.get("errors") or [0.0] * len(one["x"])
    return [
        (x, y, error if error is not None and math.isfinite(error) else 0.0)
        for x, y, error in zip(one["x"], one["y"], errors, strict=True)
        if y is not None and math.isfinite(y)
    ]


def _curve(name, points, x, y, kind, percent):
    parts = []
    if any(error for _, _, error in points):
        above = [(x(at), y(value + error)) for at, value, error in points]
        below = [(x(at), y(value - error)) for at, value, error in points]
        parts.append(svg.path(above + below[::-1], f"spread {kind}", closed=True))
    if points:
        line = [(x(at), y(value)) for at, value, _ in points]
        parts.append(svg.path(line, f"curve {kind}"))
    for at, value, error in points:
        said = f"{name} at {at:g}: {_number(value, percent)}"
        if error:
            said += f" ± {_number(error, percent)}"
        parts.append(svg.dot(x(at), y(value), f"dot {kind}", said, radius=3))
    return parts


def _legend(names, left):
    parts = []
    for number, name in enumerate(names):
        parts.append(svg.rect(left, 3, 10, 10, f"key s{number}", 'rx="2"'))
        parts.append(svg.text(left + 15, 12, name, "tick start"))
        left += 32 + LETTER * len(name)
    return parts


def _grid(x, y, y_ticks, x_ticks, floor, left=None):
    left = x.start if left is None else left
    parts = []
    for tick, name in y_ticks:
        parts.append(svg.line(left, y(tick), x.end, y(tick), "grid"))
        parts.append(svg.text(left - 7, y(tick) + 4, name, "tick end"))
    parts += [svg.text(x(tick), floor + 16, name, "tick") for tick, name in x_ticks]
    parts.append(svg.line(left, floor, x.end, floor, "base"))
    return parts


def _percents(start):
    steps = (5, 6, 7, 8, 9, 10) if start else (0, 2, 4, 6, 8, 10)
    return [(step / 10, f"{10 * step}%") for step in steps]


def _tick_names(ticks, percent=False):
    """Dict from ticks to their names, all with equally many digits."""
    factor = 100 if percent else 1
    step = factor * (ticks[1] - ticks[0])
    largest = factor * max(abs(ticks[0]), abs(ticks[-1]))
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    if digits > 6 or largest >= 1e6:
        return {tick: f"{factor * tick:.3g}" for tick in ticks}
    unit = "%" if percent else ""
    return {tick: f"{factor * tick:.{digits}f}{unit}" for tick in ticks}


def _spaced(values, axis, apart=34):
    """Those values that leave room for each other's names; the last stays."""
    kept = []
    for value in sorted(values, reverse=True):
        if not kept or axis(kept[-1]) - axis(value) >= apart:
            kept.append(value)
    return kept[::-1]


def _number(value, percent):
    return f"{value:.1%}" if percent else f"{value:.4g}"
