"""Columns of a table -> matrices of numbers."""

import numpy as np
import pytest

from keras_swim.core.table_columns import learn_columns


def texts(*values):
    return np.array(values, dtype=object)


def test_numbers_are_standardised_and_clipped():
    values = np.arange(11.0)
    (column,) = learn_columns({"a": values}).columns
    z = (values - 5) / values.std()
    np.testing.assert_allclose(
        column.transform(values, "standard")[:, 0], z / np.sqrt(1 + (z / 3) ** 2)
    )
    far = column.transform(np.array([1e9]), "standard")
    assert 2.9 < far[0, 0] <= 3.0


def test_the_normal_view_depends_on_ranks_only():
    rng = np.random.default_rng(0)
    values = rng.normal(size=101)
    plain = learn_columns({"a": values}).transform({"a": values}, "normal")
    bent = {"a": np.exp(3 * values)}
    np.testing.assert_allclose(
        learn_columns(bent).transform(bent, "normal"), plain, atol=1e-6
    )
    assert abs(plain.mean()) < 1e-6 and 0.9 < plain.std() < 1.05
    many = {"a": rng.normal(size=5000)}
    normal = learn_columns(many).transform(many, "normal")[:, 0]
    # Only some of the ranks are kept, with straight lines between them.
    np.testing.assert_allclose(normal.std(), 1.0, atol=0.05)
    assert np.all(np.diff(normal[np.argsort(many["a"])]) >= 0)


def test_missing_numbers_take_the_median_and_are_marked():
    values = np.array([1.0, 2.0, np.nan, 3.0, 100.0])
    columns = learn_columns({"a": values})
    (column,) = columns.columns
    assert column.fill == 2.5 and column.width == 2
    matrix = columns.transform({"a": values})
    np.testing.assert_allclose(matrix[:, 1], [-0.2, -0.2, 0.8, -0.2, -0.2], atol=1e-7)
    filled = columns.transform({"a": np.array([2.5])})
    np.testing.assert_allclose(matrix[2, 0], filled[0, 0])


def test_categories():
    values = texts("x", "y", "x", None, "z", "x")
    columns = learn_columns({"a": values})
    (column,) = columns.columns
    assert column.levels == ["x", None, "y", "z"]
    matrix = columns.transform({"a": texts("x", "unseen", None)}) + column.shares
    wanted = [[1, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]]
    np.testing.assert_allclose(matrix, wanted, atol=1e-6)
    two = learn_columns({"a": texts("x", "y", "x")})
    assert two.transform({"a": texts("x", "y")}).shape == (2, 1)


def test_rare_levels_share_one_fate():
    values = texts(*(f"level {number // 2}" for number in range(400)))
    columns = learn_columns({"a": values})
    assert columns.columns[0].width == 100


@pytest.mark.parametrize(
    "values",
    [np.full(5, 0.1), np.full(5, np.nan), texts(*"aaaaa"), texts(*[None] * 5)],
)
def test_constant_columns_are_left_out(values):
    table = {"same": values, "other": np.arange(5.0)}
    columns = learn_columns(table)
    assert [column.name for column in columns.columns] == ["other"]
    assert columns.transform(table).shape == (5, 1)
    alone = learn_columns({"same": values})
    assert alone.transform({"same": values}).shape == (5, 0)


def test_a_weight_of_two_is_two_rows():
    rng = np.random.default_rng(0)
    numbers, letters = rng.normal(size=30).round(1), rng.choice(list("abc"), 30)
    numbers[3] = np.nan
    table = {"a": numbers, "b": letters.astype(object)}
    weight = rng.integers(0, 4, 30)
    twice = {name: np.repeat(values, weight) for name, values in table.items()}
    weighted, repeated = learn_columns(table, weight), learn_columns(twice)
    for view in ("standard", "normal"):
        np.testing.assert_allclose(
            weighted.transform(table, view), repeated.transform(table, view), atol=1e-6
        )


def test_columns_of_one_category_are_one_group():
    table = {"a": np.array([1.0, np.nan, 2.0]), "b": texts("x", "y", "z")}
    assert learn_columns(table).groups.tolist() == [0, 0, 1, 1, 1]
