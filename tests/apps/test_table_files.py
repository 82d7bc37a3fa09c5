"""CSV files as people have them, and what is wrong with some."""

import gzip

import numpy as np
import pytest

from keras_swim.apps.console import CommandError
from keras_swim.apps.table_cells import number, read_cells
from keras_swim.apps.table_files import read_table


@pytest.fixture
def write(tmp_path):
    def make(text, name="table.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return make


def cells(table):
    return {name: values.tolist() for name, values in table.columns.items()}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(write, separator):
    lines = [["a", "b b", "c"], ["1", "x", ""], ["2", "", "3.5"]]
    table = read_table(write("\n".join(map(separator.join, lines))))
    assert table.separator == separator
    assert cells(table) == {"a": ["1", "2"], "b b": ["x", ""], "c": ["", "3.5"]}
    assert table.lines.tolist() == [2, 3]


def test_decimal_commas_do_not_look_like_separators(write):
    table = read_table(write("a;b;c\n1,5;2,5;x\n3,5;4,5;y\n"))
    assert table.separator == ";"
    values = read_cells(table.columns["a"], table.separator).values
    assert values.tolist() == [1.5, 3.5]


def test_one_bad_row_does_not_hide_the_separator(write):
    path = write("a,b,c;d\n" + "1,2,3;4\n" * 30 + "1,2\n")
    assert read_table(path, bad_rows="skip").separator == ","


def test_quotes_byte_order_marks_and_line_ends(write):
    text = '\ufeffname,"say, ""hi"""\r\n"two\r\nlines", a \r\n\r\n,\r\nx,y,\r\n'
    table = read_table(write(text))
    assert cells(table) == {"name": ["two\r\nlines", "x"], 'say, "hi"': ["a", "y"]}
    assert table.lines.tolist() == [2, 6]


def test_compressed(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert cells(read_table(path)) == {"a": ["1"], "b": ["2"]}
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with pytest.raises(CommandError, match=r"t.csv.gz cannot be uncompressed"):
        read_table(path)
    path.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(CommandError, match="it is none, or it is damaged"):
        read_table(path)


def test_unnamed_columns_get_a_name(write):
    assert list(read_table(write(",b\n0,1\n")).columns) == ["column 1", "b"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n\n  \n", "is empty"),
        ("a,b\n", "no rows below its header, 'a', 'b'"),
        ("a b c\n1 2 3\n", "Tried as separator: comma, semicolon, tab, vertical bar"),
        ("a,b,a\n1,2,3\n", "columns of the same name: 'a'"),
        ("a,b\n1,2\n1,2,3\n", "line 3: 3 fields"),
        ("a,b\n1,2\n1\n3\n", "2 rows of"),
        ('a,b\n1,"2\n3,4\n', "line 2: a quote is opened and never closed"),
        ('a,b\n1,2\n"1"x,2\n', "line 3: its quotes cannot be understood"),
    ],
)
def test_what_is_wrong_is_said(write, text, words):
    with pytest.raises(CommandError, match=words):
        read_table(write(text))


def test_bad_rows_can_be_skipped(write):
    table = read_table(write("a,b\n1,2\n1,2,3\n4\n5,6\n"), bad_rows="skip")
    assert cells(table) == {"a": ["1", "5"], "b": ["2", "6"]}
    assert table.problems == ["line 3: 3 fields", "line 4: 1 field"]


def test_wrong_files(write, tmp_path):
    with pytest.raises(CommandError, match=r"There is no file .*gone.csv"):
        read_table(tmp_path / "gone.csv")
    with pytest.raises(CommandError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(CommandError, match=r"not in UTF-8.*0xfc.*iconv"):
        read_table(write("a,b\nM\u00fcnchen,2\n", encoding="latin-1"))
    with pytest.raises(CommandError, match="one column only by --separator ';'"):
        read_table(write("a,b\n1,2\n"), separator=";")


def test_one_column_is_enough_where_it_is_wanted(write):
    assert cells(read_table(write('"a"\n1\n2\n'), alone=["a"])) == {"a": ["1", "2"]}


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1.0), ("-1.5e3", -1500.0), (".5", 0.5), ("+2.", 2.0)]
    + [("1_000", None), ("0x1", None), ("inf", None), ("1e999", None), ("1,5", None)],
)
def test_numbers(text, value):
    assert number(text) == value


@pytest.mark.parametrize("text", ["", "NA", "NaN", "?", "n/a", "NULL"])
def test_missing_numbers(text):
    assert np.isnan(number(text))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2.5", "", "NA"], "numbers"),
        (["a", "1", ""], "categories"),
        (["NA", "yes", "no"], "categories"),
        (["0", "1", "2", "3+"] * 9, "categories"),
        (["2020-01-31", "", "2021-12-01"], "dates"),
        (["2020-01-31T10:00:00Z", "2021-12-01 11:30"], "dates"),
        (["31.12.2020", "1.1.2021"], "dates"),
        (["10:30", "11:45:10"], "dates"),
        (["2020-01-31", "never"], "categories"),
        ([str(i) for i in range(40)] + ["12 kg"], "mixed"),
    ],
)
def test_what_columns_hold(values, kind):
    reading = read_cells(np.array(values, dtype=object))
    assert reading.kind == kind
    if kind == "mixed":
        assert values[reading.odd] == "12 kg"


def test_text_that_means_a_missing_number_is_text_among_text():
    reading = read_cells(np.array(["NA", "yes", ""], dtype=object))
    assert reading.values.tolist() == ["NA", "yes", None]
    assert reading.missing.tolist() == [False, False, True]
