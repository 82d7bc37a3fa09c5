"""`keras-swim fit`, `predict` and `evaluate` for tables, as a person runs them."""

import csv
import json
import zipfile

import keras
import numpy as np
import pandas as pd
import pytest

from keras_swim import SwimClassifier
from keras_swim.apps import fit_rows
from keras_swim.apps.cli import main
from keras_swim.apps.table_data import split_rows, table_data
from keras_swim.apps.table_files import read_table
from keras_swim.layers.table_readout import table_readout

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="text needs TensorFlow"
)


def write(path, columns, separator=","):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def shop(n=300, seed=0):
    """Numbers, categories, missing values, an identifier, names that are awkward."""
    rng = np.random.default_rng(seed)
    town = rng.choice(["Rome", "Oslo", "Lima"], n)
    age = rng.normal(40, 10, n).round()
    bought = np.where((age > 40) ^ (town == "Rome"), "yes", "no")
    holes = rng.random(n) < 0.1
    ages = ["NA" if hole else f"{one:g}" for one, hole in zip(age, holes, strict=True)]
    return {
        "id": [f"c{i}" for i in range(n)],
        "age": ages,
        "town/city": np.where(holes[::-1], "", town).tolist(),
        "numbers": rng.normal(size=n).round(3).tolist(),
        "same": [1] * n,
        "bought": bought.tolist(),
    }


def house(n=200, seed=0):
    rng = np.random.default_rng(seed)
    size = rng.uniform(30, 150, n).round(1)
    rooms = rng.integers(1, 6, n)
    price = (2000 * size + 10000 * rooms + rng.normal(0, 5000, n)).round()
    return {"size": size.tolist(), "rooms": rooms.tolist(), "price": price.tolist()}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the command in a folder of its own: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        code = main([str(one) for one in arguments])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return command


@pytest.fixture(scope="module")
def shop_model(tmp_path_factory):
    """A fitted model of the shop, its table, and new rows."""
    folder = tmp_path_factory.mktemp("shop")
    write(folder / "shop.csv", shop())
    write(folder / "new.csv", shop(50, seed=1))
    out = folder / "shop.keras"
    arguments = ["fit", folder / "shop.csv", "--target", "bought", "--out", out]
    assert main([*map(str, arguments), "--method", "layer"]) == 0
    return out


def test_fit_says_what_it_finds_and_does(run, tmp_path):
    write(tmp_path / "shop.csv", shop())
    code, out, err = run("fit", "shop.csv", "--target", "bought")
    assert code == 0, err
    for words in (
        "shop.csv: 300 rows, 6 columns, separated by comma.",
        "2 columns of numbers: age, numbers.",
        "1 column of categories, and how many these are: town/city 3.",
        "Missing values: age ",
        "Left out: id (300 different texts in 300 rows",
        "Left out: same (the same in all rows).",
        "Classification ('bought' has 2 different texts): no ",
        "Fitting to 240 rows: 8 bags of boosted units",
        "Accuracy on 60 validation rows: 0.",
        "with 95 % confidence), log loss ",
        "Wrote model.keras",
        "keras-swim predict model.keras NEW.csv",
    ):
        assert words in out, words
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model.keras",
        "shop.csv",
    ]


def test_the_file_is_all_that_prediction_needs(run, shop_model):
    new = shop_model.parent / "new.csv"
    code, out, err = run("predict", shop_model, new, "--format", "json")
    assert code == 0
    assert "2 columns that the model does not use: id, same." in err
    found = json.loads(out)
    assert [one["line"] for one in found] == list(range(2, 52))
    assert set(found[0]) == {"line", "label", "probability", "outputs"}
    truth = shop(50, seed=1)["bought"]
    right = np.mean([one["label"] for one in found] == np.array(truth))
    assert right > 0.75

    code, out, _ = run("evaluate", shop_model, new, "--json")
    assert code == 0
    assert json.loads(out)["accuracy"] == pytest.approx(right)
    code, out, _ = run("evaluate", shop_model, new)
    assert f"Accuracy on 50 rows: {right:.4f}" in out
    assert "yes" in out and "recall" in out


def test_formats(run, shop_model, tmp_path):
    new = shop_model.parent / "new.csv"
    code, out, _ = run("predict", shop_model, new)
    assert code == 0
    assert out.splitlines()[0].split("\t")[0] == "line 2"
    _, out, _ = run("predict", shop_model, new, "--format", "csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert list(rows[0]) == ["line", "label", "probability", "no", "yes"]
    assert float(rows[0]["no"]) + float(rows[0]["yes"]) == pytest.approx(1, abs=1e-5)
    code, out, _ = run("predict", shop_model, new, "--out", "p.csv", "--format", "csv")
    assert "Wrote p.csv: 50 rows." in out
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 51


def test_the_file_is_that_of_the_estimator(shop_model):
    """What the command writes, `SwimClassifier(...).fit(...).to_keras()` would."""
    data, _ = table_data(read_table(shop_model.parent / "shop.csv"), "bought")
    training, held = split_rows(data, 0.2, seed=0)
    labels = np.array(data.class_names)[training.targets]
    model = SwimClassifier(method="layer", random_state=0)
    model.fit(pd.DataFrame(training.columns), labels)
    expected = model.predict_proba(pd.DataFrame(held.columns))
    network = keras.models.load_model(shop_model)
    readout = table_readout(network)
    assert readout.target == "bought" and readout.class_names == ["no", "yes"]
    assert [column["name"] for column in readout.columns] == list(data.columns)
    assert model.to_keras().layers[-1].columns == readout.columns
    inputs = {}
    for column in readout.columns:
        values = held.columns[column["name"]]
        if column["categories"]:
            values = np.array([one or "" for one in values], dtype=object)
        else:
            values = values.astype("float32")
        inputs[column["input"]] = keras.ops.convert_to_tensor(values[:, None])
    found = network.predict(inputs, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert zipfile.is_zipfile(shop_model)


def test_a_regression(run, tmp_path):
    columns = house()
    # A comma where others have a point, as with semicolons.
    columns["size"] = [str(one).replace(".", ",") for one in columns["size"]]
    write(tmp_path / "house.csv", columns, ";")
    code, out, err = run("fit", "house.csv", "--target", "price", "--method", "layer")
    assert code == 0, err
    assert "separated by semicolon" in out
    assert "Regression ('price' has " in out and "--task classification" in out
    assert "On 40 validation rows: RMSE " in out and ", R2 0.9" in out
    write(tmp_path / "new.csv", house(9, seed=1))
    code, out, _ = run("predict", "model.keras", "new.csv")
    assert code == 0
    assert out.splitlines()[0].startswith("line 2\tprice ")
    code, out, _ = run("predict", "model.keras", "new.csv", "--format", "csv")
    found = [float(row["price"]) for row in csv.DictReader(out.splitlines())]
    np.testing.assert_allclose(found, house(9, seed=1)["price"], rtol=0.2)
    code, out, _ = run("evaluate", "model.keras", "new.csv", "--json")
    assert json.loads(out)["r2"] > 0.9
    _, out, _ = run("evaluate", "model.keras", "new.csv")
    assert out.startswith("On 9 rows: RMSE ")


def test_a_validation_table(run, tmp_path):
    write(tmp_path / "a.csv", house())
    other = {name: values[:20] for name, values in house().items()}
    write(tmp_path / "b.csv", other, "\t")
    fit = ["fit", "a.csv", "--target", "price", "--method", "layer"]
    code, out, err = run(*fit, "--validation", "b.csv")
    assert code == 0, err
    assert "20 validation rows of 20 are also among the training rows" in out
    assert "On 20 validation rows" in out
    code, _, err = run(*fit, "--validation", tmp_path)
    assert code == 1 and "--validation must be a table as well" in err


def test_no_validation_and_few_rows(run, tmp_path):
    rows = {name: values[:12] for name, values in shop().items()}
    write(tmp_path / "few.csv", {**rows, "bought": ["yes", "no"] * 6})
    fit = ["fit", "few.csv", "--target", "bought", "--validation-split", "0"]
    code, out, err = run(*fit)
    assert code == 0, err
    assert "Accuracy on 12 held-out training rows: " in out


def test_class_weights_and_rare_classes(run, tmp_path):
    columns = shop(120)
    columns["bought"] = ["yes"] * 109 + ["no"] * 10 + ["maybe"]
    write(tmp_path / "t.csv", columns)
    fit = ["fit", "t.csv", "--target", "bought", "--method", "layer"]
    code, out, _ = run(*fit)
    assert code == 0
    assert "pass --class-weight balanced" in out
    code, out, err = run(*fit, "--class-weight", "balanced")
    assert code == 0, err
    assert "unbalanced" not in out
    write(tmp_path / "h.csv", house())
    fit = ["fit", "h.csv", "--target", "price", "--class-weight", "balanced"]
    code, _, err = run(*fit)
    assert code == 1 and "--class-weight is for classes" in err


def test_one_column_only_at_prediction(run, tmp_path):
    table = {"x": list(range(60)), "y": ["low"] * 30 + ["high"] * 30}
    write(tmp_path / "t.csv", table)
    assert run("fit", "t.csv", "--target", "y", "--method", "layer")[0] == 0
    (tmp_path / "new.csv").write_text("x\n1\n58\n")
    code, out, _ = run("predict", "model.keras", "new.csv")
    assert code == 0
    labels = [line.split("\t")[1].split()[0] for line in out.splitlines()]
    assert labels == ["low", "high"]


def test_bad_rows(run, tmp_path):
    path = write(tmp_path / "t.csv", house(60))
    path.write_text(path.read_text() + "1,2\n1,2,3,4\n")
    fit = ["fit", "t.csv", "--target", "price", "--method", "layer"]
    code, _, err = run(*fit)
    assert code == 1
    assert "line 62: 2 fields" in err and "--bad-rows skip" in err
    code, out, _ = run(*fit, "--bad-rows", "skip")
    assert code == 0
    assert "2 rows cannot be read and left out" in out
    code, out, err = run("predict", "model.keras", "t.csv", "--bad-rows", "skip")
    assert code == 0 and len(out.splitlines()) == 60 and "line 63" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gone.csv", "--target", "y"], "There is no file gone.csv"),
        (["shop.csv"], "--target is missing"),
        (["shop.csv"], "shop.csv has: id, age, town/city"),
        (["shop.csv", "--target", "brought"], "Did you mean 'bought'?"),
        (["shop.csv", "--target", "same"], "'1' in all 40 rows"),
        (["shop.csv", "--target", "bought", "--separator", ";"], "one column only"),
        (["shop.csv", "--target", "bought", "--task", "regression"], "line 2"),
        (["shop.csv", "--target", "bought", "--out", "m.h5"], "must end with .keras"),
        (
            ["shop.csv", "--target", "bought", "--backbone", "ResNet50", "--select"],
            "--backbone, --select are for images. shop.csv is a table.",
        ),
        (["photos", "--target", "y"], "--target is for tables. photos is no CSV file."),
        (["notes.txt", "--target", "y"], "neither a folder of images nor a table"),
    ],
)
def test_what_cannot_be_fitted(run, tmp_path, monkeypatch, arguments, words):
    monkeypatch.setattr(fit_rows, "fit_table", lambda *_: pytest.fail("too late"))
    write(tmp_path / "shop.csv", shop(40))
    (tmp_path / "photos").mkdir()
    (tmp_path / "notes.txt").write_text("a,b\n")
    code, _, err = run("fit", *arguments)
    assert code == 1
    assert words in err


def change(columns, **new):
    """New rows that are not as those of the fit; `None` takes a column away."""
    columns = {**columns, **new}
    return {name: values for name, values in columns.items() if values is not None}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            change(shop(3), age=["30", "old", "40"]),
            "line 3: column 'age' has text where numbers are expected: 'old'",
        ),
        (change(shop(3), age=None), "lacks 1 column of the 3"),
        (change(shop(3), age=None, Age=[1, 2, 3]), "'age' (is it 'Age'?)"),
        ({"a": [1], "b": [2]}, "lacks 3 columns of the 3"),
    ],
)
def test_new_rows_that_do_not_fit(run, shop_model, tmp_path, columns, words):
    write(tmp_path / "new.csv", columns)
    code, out, err = run("predict", shop_model, "new.csv")
    assert code == 1
    assert words in err
    assert not out


def test_what_cannot_be_evaluated(run, shop_model, tmp_path):
    write(tmp_path / "a.csv", change(shop(3), bought=None))
    code, _, err = run("evaluate", shop_model, "a.csv")
    assert code == 1 and "no column 'bought'" in err
    write(tmp_path / "b.csv", change(shop(3), bought=["yes", "perhaps", "no"]))
    code, _, err = run("evaluate", shop_model, "b.csv")
    assert code == 1 and "line 3: 'bought' is 'perhaps', which is no class" in err
    write(tmp_path / "c.csv", change(shop(3), bought=["yes", "", "no"]))
    code, _, err = run("evaluate", shop_model, "c.csv")
    assert code == 0 and "1 row without 'bought' left out." in err


def test_models_and_inputs_of_different_kinds(run, shop_model, tmp_path):
    new = shop_model.parent / "new.csv"
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.save(tmp_path / "plain.keras")
    code, _, err = run("predict", "plain.keras", new)
    assert code == 1 and "is no model for tables" in err
    code, _, err = run("evaluate", shop_model, tmp_path)
    assert code == 1 and "is a model for tables" in err
    code, _, err = run("predict", shop_model, new, new)
    assert code == 1 and "one table at a time" in err
    code, _, err = run("predict", shop_model, new, "--bad-files", "skip")
    assert code == 1 and "--bad-files is for images" in err
    code, _, err = run("predict", shop_model, "x.png", "--bad-rows", "skip")
    assert code == 1 and "--bad-rows is for tables" in err


def test_categories_that_are_new(run, shop_model, tmp_path):
    towns = {"town/city": ["Paris", "Rome", ""]}
    write(tmp_path / "new.csv", {**shop(3), **towns})
    code, out, _ = run("predict", shop_model, "new.csv")
    assert code == 0
    assert len(out.splitlines()) == 3


def test_an_interrupted_fit_leaves_no_file(run, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit_rows, "fit_table", interrupted)
    write(tmp_path / "shop.csv", shop(40))
    assert run("fit", "shop.csv", "--target", "bought")[0] == 130
    assert not (tmp_path / "model.keras").exists()


def test_large_tables_are_announced(run, tmp_path, monkeypatch):
    monkeypatch.setattr(fit_rows, "_LARGE", 100)
    write(tmp_path / "t.csv", house())
    _, out, _ = run("fit", "t.csv", "--target", "price", "--method", "layer")
    assert "That takes about " in out and " of memory." in out


@pytest.mark.parametrize("more", [["--separator", "ab"], ["--method", "tree"]])
def test_wrong_arguments_exit_with_two(more, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["fit", "t.csv", "--target", "y", *more])
    assert stopped.value.code == 2
