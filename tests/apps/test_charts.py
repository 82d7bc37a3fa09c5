"""Charts: well-formed, complete, inside their frame, escaped."""

import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from keras_swim.apps.report import charts, svg
from keras_swim.apps.report.matrix import confusion_matrix

BINS = [
    {
        "low": 0.1 * i,
        "high": 0.1 * (i + 1),
        "rows": 10 * i,
        "confidence": 0.1 * i + 0.05,
        "accuracy": 0.1 * i,
        "accuracy_low": max(0.1 * i - 0.1, 0.0),
        "accuracy_high": min(0.1 * i + 0.1, 1.0),
    }
    for i in range(1, 10)
]
NASTY = "<script>alert('1')</script> & \"co\""


def parsed(chart):
    return ElementTree.fromstring(chart)


def texts(chart):
    return [part.text for part in parsed(chart).iter("text")]


def size(chart):
    return [float(number) for number in parsed(chart).get("viewBox").split()[2:]]


CHARTS = {
    "strip": charts.interval_strip(0.9, 0.8, 0.95, 0.1, "guessing", "t"),
    "matrix": confusion_matrix(["a", "b"], [[1, 2], [3, 4]], "t"),
    "reliability": charts.reliability_diagram(BINS, "t"),
    "curves": charts.curves(
        [
            {"name": "one", "x": [1, 2, 40], "y": [0.1, 0.5, 0.4], "errors": [0.1] * 3},
            {"name": "two", "x": [1, 2, 40], "y": [0.2, 0.6, None]},
        ],
        "x",
        "y",
        log=True,
        percent=True,
        mark=(40, 0.4, "chosen: 40.0%"),
        title="t",
    ),
    "scatter": charts.scatter([-3.0, 0.0, 1e3], [0.1, 0.8, 900.0], "t"),
}


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_well_formed_and_says_what_it_is(name):
    root = parsed(CHARTS[name])
    assert root.get("role") == "img"
    assert root.get("aria-label") == "t"


@pytest.mark.parametrize("name", CHARTS)
def test_everything_is_drawn_inside_the_frame(name):
    width, height = size(CHARTS[name])
    for part in parsed(CHARTS[name]).iter():
        for key in ("x", "x1", "x2", "cx"):
            assert 0 <= float(part.get(key, 0)) <= width
        for key in ("y", "y1", "y2", "cy"):
            assert 0 <= float(part.get(key, 0)) <= height
        right = float(part.get("x", 0)) + float(part.get("width", 0))
        assert right <= width


def test_names_are_escaped_everywhere():
    line = {"name": NASTY, "x": [1, 2], "y": [0.1, 0.2]}
    drawn = (
        charts.interval_strip(0.5, 0.4, 0.6, 0.1, NASTY, NASTY),
        confusion_matrix([NASTY, "b"], [[1, 2], [3, 4]], NASTY),
        charts.reliability_diagram(BINS, NASTY),
        charts.curves([line], NASTY, NASTY, mark=(1, 0.1, NASTY), title=NASTY),
        charts.scatter([0.0], [1.0], NASTY),
    )
    for chart in drawn:
        assert "<script" not in chart
        assert parsed(chart).get("aria-label") == NASTY


@pytest.mark.parametrize("classes", [2, 4, 5, 10, 25])
def test_the_matrix_shows_every_count_once(classes, rng):
    counts = rng.integers(0, 5000, size=(classes, classes))
    counts[0, 1] = 0
    names = [f"class {i}" for i in range(classes)]
    chart = confusion_matrix(names, counts.tolist())
    found = sorted(int(text) for text in texts(chart) if text.isdigit())
    assert found == sorted(count for count in counts.ravel().tolist() if count)
    for name in names:
        # Down and across, shortened where there is no room.
        assert sum(text.startswith(name[:4]) for text in texts(chart)) >= 2
    hints = [part.text for part in parsed(chart).iter("title")]
    right = f"{counts[1, 1]} of {counts[1].sum()}: class 1 right"
    assert right in hints
    assert f"0 of {counts[0].sum()}: class 0 taken for class 1" in hints


def test_a_matrix_with_an_empty_line_is_drawn():
    assert "0 of 0: b right" in confusion_matrix(["a", "b"], [[3, 1], [0, 0]])


def test_stronger_colours_are_larger_shares():
    chart = parsed(confusion_matrix(["a", "b"], [[99, 1], [60, 40]]))
    shades = {part.get("class"): [] for part in chart.iter("rect") if part.get("style")}
    for part in chart.iter("rect"):
        if part.get("style"):
            shades[part.get("class")].append(float(part.get("style").split(":")[1]))
    assert shades["right"][0] > shades["right"][1]
    assert shades["wrong"][0] < shades["wrong"][1]


def test_a_bar_is_as_long_as_its_share():
    def filled(share):
        return float(list(parsed(charts.bar(share)))[-1].get("width"))

    assert filled(0.0) == 0.0
    assert filled(0.25) == 25.0
    assert filled(7.0) == 100.0
    assert filled(1e-9) > 0
    assert len(parsed(charts.bar(0.5, whole=False))) == 1


def test_curves_leave_out_what_is_not_finite():
    line = {"name": "a", "x": [1, 2, 3, 4], "y": [0.1, math.nan, math.inf, None]}
    assert charts.curves([line], "x", "y").count("<circle") == 1
    with pytest.raises(ValueError, match="at least one point"):
        charts.curves([{"name": "a", "x": [1], "y": [math.nan]}], "x", "y")


def test_curves_rise_upwards_and_to_the_right():
    line = {"name": "a", "x": [16, 64, 256], "y": [0.1, 0.2, 0.3]}
    dots = list(parsed(charts.curves([line], "x", "y", log=True)).iter("circle"))
    x = [float(dot.get("cx")) for dot in dots]
    y = [float(dot.get("cy")) for dot in dots]
    assert x == sorted(x)
    assert y == sorted(y, reverse=True)
    assert math.isclose(x[1] - x[0], x[2] - x[1], abs_tol=0.2)


def test_points_on_the_diagonal_are_on_the_dashed_line():
    root = parsed(charts.scatter([0.0, 5.0, 10.0], [0.0, 5.0, 10.0]))
    line = next(part for part in root.iter("line") if part.get("class") == "ideal")
    first, _, last = root.iter("circle")
    assert (first.get("cx"), first.get("cy")) == (line.get("x1"), line.get("y1"))
    assert (last.get("cx"), last.get("cy")) == (line.get("x2"), line.get("y2"))


def test_equal_values_are_drawn_too():
    assert charts.scatter([2.0, 2.0], [2.0, 2.0]).count("<circle") == 2
    line = {"name": "a", "x": [5, 5], "y": [0.0, 0.0]}
    assert charts.curves([line], "x", "y", log=True).count("<circle") == 2


@pytest.mark.parametrize("exponent", [-7, -2, 0, 3, 9])
def test_ticks_are_few_and_cover_the_values(exponent, rng):
    for _ in range(50):
        low, high = np.sort(rng.normal(size=2)) * 10.0**exponent
        ticks = svg.nice_ticks(low, high)
        step = ticks[1] - ticks[0]
        assert ticks[0] <= low + 1e-6 * step and high - 1e-6 * step <= ticks[-1]
        assert 3 <= len(ticks) <= 9
        assert np.allclose(np.diff(ticks), step, rtol=1e-3)


def test_tick_names_differ():
    for values in ([0.9131, 0.9139], [1e-9, 3e-9], [1e8, 1.2e8], [-5.0, 5.0]):
        line = {"name": "a", "x": [1, 2], "y": values}
        names = [
            part.text
            for part in parsed(charts.curves([line], "x", "y")).iter("text")
            if part.get("class") == "tick end"
        ]
        assert len(set(names)) == len(names) >= 3


def test_the_axis_of_two_classes_begins_at_one_half():
    shown = texts(charts.reliability_diagram(BINS[4:]))
    assert "50%" in shown
    counts = {str(part["rows"]) for part in BINS[4:]}
    assert counts <= set(shown)
