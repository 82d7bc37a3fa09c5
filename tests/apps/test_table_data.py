"""Which columns are used, and for what task."""

import numpy as np
import pytest

from keras_swim.apps.console import CommandError
from keras_swim.apps.table_data import data_like, shared_rows, split_rows, table_data
from keras_swim.apps.table_files import read_table


@pytest.fixture
def read(tmp_path):
    def make(columns, name="t.csv"):
        path = tmp_path / name
        rows = zip(*columns.values(), strict=True)
        lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
        path.write_text("\n".join(lines))
        return read_table(path)

    return make


def numbers(n=40):
    return np.random.default_rng(0).normal(size=n).round(3).tolist()


def test_kinds_and_what_is_left_out(read):
    n = 40
    table = read(
        {
            "id": [f"c{i}" for i in range(n)],
            "index": range(n),
            "size": numbers(),
            "plan": [i % 3 for i in range(n)],
            "town": ["Rome", "", "Oslo", "Lima"] * 10,
            "same": [1] * n,
            "once": [1, ""] * 20,
            "empty": [""] * n,
            "note": numbers(),
            "y": ["a", "b", "b", ""] * 10,
        }
    )
    data, survey = table_data(table, "y", drop=["note"], categorical=["plan"])
    assert data.kinds == {"size": False, "plan": True, "town": True, "once": False}
    assert len(data) == 30 and survey.without_target == 10
    assert data.class_names == ["a", "b"]
    assert data.lines[:4].tolist() == [2, 3, 4, 6]
    # Of the rows with a target: 10 of each four, the second of which has no town.
    assert survey.missing == {"town": 10, "once": 10}
    assert survey.levels == {"plan": 3, "town": 2}
    assert "30 different texts in 30 rows" in survey.left_out["id"]
    assert survey.left_out["same"] == "the same in all rows"
    assert survey.left_out["empty"] == "empty"


def test_an_index_is_left_out(read):
    table = read({"": range(7, 47), "x": numbers(), "y": ["a", "b"] * 20})
    data, survey = table_data(table, "y")
    assert list(data.columns) == ["x"]
    assert survey.left_out == {"column 1": "counts the rows"}


@pytest.mark.parametrize(
    ("target", "task", "classes"),
    [
        (["b", "a"] * 20, "auto", ["a", "b"]),
        ([10, 9, 1, 2] * 10, "auto", ["1", "2", "9", "10"]),
        (["1.0", "0.0"] * 20, "auto", ["0", "1"]),
        (["none", "some"] * 20, "auto", ["none", "some"]),
        (["0.5", "1.5"] * 20, "auto", None),
        (range(40), "auto", None),
        (list(range(20)) * 2, "auto", None),
        ([0, 1] * 20, "regression", None),
        (["0.5", "1.5"] * 20, "classification", ["0.5", "1.5"]),
    ],
)
def test_the_task(read, target, task, classes):
    data, survey = table_data(read({"x": numbers(), "y": target}), "y", task=task)
    assert data.class_names == classes
    assert survey.why
    if classes is None:
        assert data.targets.shape == (40, 1)
        assert data.targets[:, 0].tolist() == [float(value) for value in target]
    else:
        found = [classes[code] for code in data.targets]
        assert found == [str(value).removesuffix(".0") for value in target]


@pytest.mark.parametrize("word", ["NA", "?", ""])
def test_rows_without_a_target_are_left_out(read, word):
    table = read({"x": numbers(6), "y": ["a", word, "b", "a", word, "b"]})
    data, survey = table_data(table, "y")
    assert survey.without_target == 2
    assert data.lines.tolist() == [2, 4, 5, 7]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"y": [1, 2] * 20}, {"target": "Y"}, "Did you mean 'y'"),
        ({"y": [1, 2] * 20}, {"target": "prize"}, "no column 'prize'. It has: x, y"),
        ({"y": [1, 2] * 20}, {"drop": ["xx"]}, "--drop: .* Did you mean 'x'"),
        ({"y": [1, 2] * 20}, {"categorical": ["q"]}, "--categorical: "),
        ({"y": [1, 2] * 20}, {"drop": ["y"]}, "--drop: 'y' is the target"),
        ({"y": [1, 2] * 20}, {"drop": ["x"]}, "no column to learn from"),
        ({"y": ["a"] * 40}, {}, "'a' in all 40 rows. Two or more classes"),
        ({"y": [7] * 40}, {"task": "regression"}, "nothing to learn"),
        ({"y": [""] * 40}, {}, "'y' is empty in all rows"),
        ({"y": [f"n{i}" for i in range(40)]}, {}, "too many for classes"),
        ({"y": ["a", "b"] * 20}, {"task": "regression"}, "line 2.*text.*'a'"),
        ({"d": ["2020-01-31"] * 40, "y": [1, 2] * 20}, {}, "dates.*--drop d$"),
        ({"age": [*range(39), "old"], "y": [1, 2] * 20}, {}, "line 41.*'age'.*'old'"),
    ],
)
def test_what_cannot_work(read, columns, options, words):
    table = read({"x": numbers(), **columns})
    with pytest.raises(CommandError, match=words):
        table_data(table, **{"target": "y", **options})


def test_a_header_that_is_missing(read):
    table = read({"1.5": numbers(), "2": [1, 2] * 20})
    with pytest.raises(CommandError, match="first line looks like data"):
        table_data(table, "y")


def test_splits(read):
    table = read({"x": numbers(), "y": ["a"] * 29 + ["b"] * 10 + ["c"]})
    data, _ = table_data(table, "y")
    first, second = split_rows(data, 0.2, seed=3)
    assert np.bincount(second.targets).tolist() == [6, 2]
    assert np.bincount(first.targets).tolist() == [23, 8, 1]
    assert sorted([*first.lines, *second.lines]) == list(range(2, 42))
    assert shared_rows(first, second) == 0
    assert shared_rows(data, second) == 8
    same = split_rows(data, 0.2, seed=3)[1]
    assert same.lines.tolist() == second.lines.tolist()


def test_another_table_of_the_same_kind(read):
    data, _ = table_data(read({"x": numbers(), "y": ["a", "b"] * 20}), "y")
    other, without = data_like(read({"y": ["b", ""], "z": [1, 2], "x": [1, 2]}), data)
    assert without == 1
    assert other.targets.tolist() == [1]
    assert other.columns["x"].tolist() == [1.0]
    with pytest.raises(CommandError, match="line 3: 'y' is 'c', which is no class"):
        data_like(read({"y": ["b", "c"], "x": [1, 2]}), data)
    with pytest.raises(CommandError, match=r"lacks 1 column of the 1(.|\n)*is it 'X'"):
        data_like(read({"y": ["b", "a"], "X": [1, 2]}), data)
