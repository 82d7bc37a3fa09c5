"""The report on a table: its sections, what they say, and that text is escaped."""

import html
import re

import numpy as np
import pytest

from keras_swim.apps.cli import main
from keras_swim.apps.report.column_strength import column_strengths, shuffle_costs
from keras_swim.apps.report.page import render_report
from keras_swim.apps.report.table_sections import histogram
from keras_swim.core.table_model import fit_table

NASTY = "<script>alert('x')</script>"


def headings(page):
    return re.findall(r"<h2>(.*?)</h2>", page)


def visible(page):
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    words = html.unescape(re.sub(r"<[^>]*>", " ", body))
    return re.sub(r"\s+", " ", words)


@pytest.fixture
def report(tmp_path, monkeypatch, capsys):
    """Fits a model to rows and returns its report."""
    monkeypatch.chdir(tmp_path)

    def make(head, rows, *more):
        lines = [";".join(head), *(";".join(map(str, row)) for row in rows)]
        (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
        fit = ["fit", "t.csv", "--target", head[-1], "--report", "r.html", *more]
        code = main(fit)
        assert code == 0, capsys.readouterr().err
        return (tmp_path / "r.html").read_text(encoding="utf-8")

    return make


def class_rows(n=200):
    rng = np.random.default_rng(0)
    towns = ["Rome", "Oslo", NASTY]
    for _ in range(n):
        age, town = int(rng.integers(20, 60)), towns[rng.integers(3)]
        wrong = rng.random() < 0.1
        yes = ((age > 40) ^ (town == "Rome")) ^ wrong
        yield [age, town, round(rng.normal(), 3), f"yes {NASTY}" if yes else "no"]


def real_rows(n=200):
    rng = np.random.default_rng(0)
    for _ in range(n):
        x = rng.normal(size=3).round(3)
        yield [*x, round(20000 * x[0] + rng.normal() * 3000 + 1e5)]


@pytest.mark.parametrize("method", ["layer", "boost"])
def test_a_report_on_classes(report, method):
    page = report([f"age {NASTY}", "town", "x", "y"], class_rows(), "--method", method)
    assert headings(page) == [
        "Which classes it mixes up",
        "Class by class",
        "Can its probabilities be trusted?",
        "Which columns it uses",
        "Its most confident mistakes",
        "Labels that may be wrong",
        "Where classes touch",
        "Where the time went",
    ]
    words = visible(page)
    assert "Accuracy on 40 rows not used for fitting" in words
    how = "leave-one-out" if method == "layer" else "each row judged by fits without it"
    assert how in words
    assert "how much the log loss on validation rows rises" in words
    assert re.search(r"line \d+", words)
    assert "<script" not in page and "alert('x')" not in page
    assert page.count('<figure class="pair-table">') == 6


def test_a_report_on_numbers(report):
    page = report(["a", "b", "c", "price"], real_rows(), "--method", "layer")
    assert headings(page) == [
        "Predicted against true",
        "How far it is off",
        "Which columns it uses",
        "Its largest errors",
        "Values that may be wrong",
        "Where values change fastest",
        "Where the time went",
    ]
    words = visible(page)
    assert "R² on 40 rows not used for fitting 0.9" in words
    assert "mean absolute error" in words
    assert "how much R² on validation rows falls" in words
    # Prices are no powers of ten.
    assert "e+0" not in words


def test_a_report_without_validation(report):
    more = ["--method", "layer", "--validation-split", "0"]
    page = report(["age", "town", "x", "y"], class_rows(), *more)
    assert "Which columns it uses" in headings(page)
    words = visible(page)
    assert "There were no validation rows" in words
    assert "when shuffled" not in words


@pytest.mark.parametrize("method", ["layer", "boost"])
def test_columns_that_matter_come_first(method):
    rng = np.random.default_rng(0)
    table = {name: rng.normal(size=400) for name in "abcd"}
    table["town"] = np.array(rng.choice(["Rome", "Oslo", "Lima"], 400), dtype=object)
    y = (3 * table["c"] + 2 * (table["town"] == "Rome"))[:, None]
    model = fit_table(table, y, method=method, seed=0)
    strengths = column_strengths(model, table)
    assert sum(strengths.values()) == pytest.approx(1)
    assert next(iter(strengths)) == "c"
    assert set(strengths) == set(table)
    costs = shuffle_costs(model, table, y, list(table))
    assert sorted(costs, key=costs.get)[-2:] == ["town", "c"]
    assert costs["c"] > 1 and abs(costs["a"]) < 0.05


def test_constant_columns_have_no_strength():
    table = {"a": np.ones(40), "b": np.arange(40.0)}
    model = fit_table(table, np.arange(40) % 2, classes=2, seed=0, units=10)
    assert column_strengths(model, table) == {"b": pytest.approx(1)}
    assert shuffle_costs(model, table, np.arange(40) % 2, ["a"]) == {"a": 0.0}


def test_sections_of_tables_escape_names():
    column = {"name": NASTY, "strength": 0.5, "cost": -0.1}
    row = {"name": NASTY, "label": NASTY, "image": None, "cells": {NASTY: NASTY}}
    pair = {"a": row, "b": {**row, "cells": {NASTY: None}}, "distance": 1.0}
    wrong = {**row, "predicted": NASTY, "probability": 0.9, "label_probability": 0.1}
    page = render_report(
        {
            "title": "t",
            "columns": {"metric": "log loss", "others": 2, "shown": [column]},
            "closest": [{**pair, "strength": None}],
            "mistakes": {"count": 1, "rows": 2, "shown": [wrong]},
        }
    )
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 10
    assert "2 columns with less are not shown" in page


def test_histogram():
    chart = histogram([-2.0, 0.0, 2.0], [1, 3], "errors")
    assert chart.count('class="bar"') == 2
    assert "3 between 0 and 2" in chart
    assert 'aria-label="errors"' in chart
    assert histogram([0.0, 1.0], [0]).count('class="bar"') == 1
