"""Layers of tables: the same numbers as the core's, on every backend."""

import keras
import numpy as np
import pytest

from keras_swim.core.boost_units import ProductUnits
from keras_swim.core.table_columns import learn_columns
from keras_swim.layers.number_columns import NumberColumns
from keras_swim.layers.sampled_products import SampledProducts


@pytest.fixture
def numbers():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)) * [1.0, 100.0, 1e-3] + [0.0, 5000.0, 0.0]
    x[:, 2] = np.round(x[:, 2], 3)
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


@pytest.mark.parametrize("view", ["standard", "normal"])
def test_columns_are_those_of_the_core(numbers, view, tmp_path):
    table = dict(enumerate(numbers.T))
    columns = learn_columns(table)
    knots = max(len(column.knots) for column in columns.columns)
    layer = NumberColumns(3, view=view, knots=knots)
    layer.assign_columns(
        *(
            [getattr(column, name) for column in columns.columns]
            for name in ("fill", "mean", "spread")
        ),
        [(column.knots, column.quantiles) for column in columns.columns],
    )
    new = np.vstack([numbers, numbers[:5] * 1e9, numbers[:5] * -1e9])
    model = keras.Sequential([keras.Input((3,)), layer])
    found = model.predict(new.astype("float32"), verbose=0)
    # Also outside of a compiled function.
    called = keras.ops.convert_to_numpy(layer(new.astype("float32")))
    np.testing.assert_allclose(called, found, atol=1e-5)
    expected = columns.transform(dict(enumerate(new.T)), view)
    np.testing.assert_allclose(found[:, :3], expected[:, ::2], atol=2e-3)
    np.testing.assert_array_equal(found[:, 3:], np.isnan(new))
    model.save(tmp_path / "columns.keras")
    again = keras.models.load_model(tmp_path / "columns.keras")
    np.testing.assert_array_equal(
        again.predict(new.astype("float32"), verbose=0), found
    )


def test_products_are_those_of_the_core(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 4)).astype("float32")
    units = ProductUnits(
        "standard",
        rng.integers(0, 4, (6, 3)),
        rng.normal(size=(6, 3)).astype("float32"),
        rng.normal(size=(6, 3)).astype("float32"),
        rng.integers(0, 50, (6, 2)),
    )
    kernel = np.zeros((4, 6, 3))
    unit, term = np.indices((6, 3))
    kernel[units.columns, unit, term] = units.slopes
    layer = SampledProducts(6, 3)
    model = keras.Sequential([keras.Input((4,)), layer])
    layer.assign_units(kernel, units.offsets, units.pairs)
    found = model.predict(x, verbose=0)
    np.testing.assert_allclose(found, units.features({"standard": x}), atol=1e-5)
    model.save(tmp_path / "products.keras")
    again = keras.models.load_model(tmp_path / "products.keras")
    np.testing.assert_allclose(again.predict(x, verbose=0), found, atol=1e-6)
    np.testing.assert_array_equal(again.layers[-1].pairs, units.pairs)
