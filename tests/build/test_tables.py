"""Keras models of tables: any names of columns, any levels, even nothing learned."""

import keras
import numpy as np
import pytest

from keras_swim.build.tables import input_names, table_model
from keras_swim.core.table_model import TableModel, fit_table
from keras_swim.core.table_units import Member
from keras_swim.layers.table_readout import table_readout

ON_TENSORFLOW = keras.backend.backend() == "tensorflow"


def outputs(network, table):
    """What a network says about the columns of a table."""
    inputs = {}
    for column in table_readout(network).columns:
        values = table[column["name"]]
        if column["categories"]:
            values = np.array([value or "" for value in values], dtype=object)
        else:
            values = values.astype("float32")
        inputs[column["input"]] = keras.ops.convert_to_tensor(values[:, None])
    return network.predict(inputs, verbose=0)


def kinds(table):
    return {name: values.dtype == object for name, values in table.items()}


@pytest.mark.parametrize(
    "names",
    [
        ["km/h", "km_h"],
        ["hidden", "predictions", "numbers", "numbers_", "units_1_1"],
        ["a b", 'x"<&', "\u65e5\u672c", "."],
    ],
)
def test_any_names(names, tmp_path):
    rng = np.random.default_rng(0)
    table = {name: rng.normal(size=80) for name in names}
    target = rng.integers(0, 2, 80)
    model = fit_table(table, target, classes=2, units=10, seed=0)
    network = table_model(model, kinds(table), class_names=["no", "yes"], target="y")
    network.save(tmp_path / "table.keras")
    again = keras.models.load_model(tmp_path / "table.keras")
    np.testing.assert_allclose(
        outputs(again, table), model.probabilities(table), atol=1e-4
    )
    readout = table_readout(again)
    assert [column["name"] for column in readout.columns] == names
    assert readout.target == "y"
    assert readout.class_names == ["no", "yes"]


def test_names_of_inputs_differ():
    names = input_names(["a/b", "a_b", "a_b_", "hidden", ""])
    assert len(set(names.values())) == 5
    assert not any("/" in name for name in names.values())


@pytest.mark.skipif(not ON_TENSORFLOW, reason="text needs TensorFlow")
def test_any_levels():
    rng = np.random.default_rng(0)
    levels = ["[UNK]", "[[UNK]]", "", None, " x"]
    table = {"t": np.array([levels[i] for i in rng.integers(0, 5, 90)], dtype=object)}
    table["t"][table["t"] == ""] = None
    target = np.array([level == "[UNK]" for level in table["t"]], dtype=int)
    model = fit_table(table, target, classes=2, units=10, seed=0)
    network = table_model(model, kinds(table))
    np.testing.assert_allclose(
        outputs(network, table), model.probabilities(table), atol=1e-4
    )


def test_nothing_learned():
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=30), "b": rng.normal(size=30)}
    fitted = fit_table(table, rng.normal(size=(30, 1)), units=5, seed=0)
    member = Member([], np.zeros((0, 1)), np.array([2.0]))
    constant = TableModel(
        fitted.columns, [member], None, np.zeros(1), np.ones(1), fitted.left_out, {}
    )
    network = table_model(constant, kinds(table))
    np.testing.assert_allclose(outputs(network, table), np.full((30, 1), 2.0))


def test_arrays_have_no_names():
    x = np.random.default_rng(0).normal(size=(40, 2))
    table = dict(enumerate(x.T))
    model = fit_table(table, x[:, :1], units=5, seed=0)
    network = table_model(model, kinds(table), named=False)
    assert table_readout(network).columns is None
    np.testing.assert_allclose(
        network.predict(x.astype("float32"), verbose=0), model.scores(table), atol=1e-4
    )
