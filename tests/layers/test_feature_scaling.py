"""A scalar that brings rows to a given distance."""

import keras
import numpy as np
import pytest

from keras_swim import SampledDense, swim_fit
from keras_swim.layers.feature_scaling import FeatureScaling


def test_rows_are_the_given_distance_apart(rng):
    x = 50 + 7 * rng.normal(size=(2000, 6)) * np.arange(1, 7)
    layer = FeatureScaling(distance=0.5)
    layer.adapt(x)
    scaled = keras.ops.convert_to_numpy(layer(x))
    gaps = scaled[rng.integers(0, 2000, 5000)] - scaled[rng.integers(0, 2000, 5000)]
    assert np.sqrt((gaps**2).sum(axis=1).mean()) == pytest.approx(0.5, rel=0.05)


def test_weights_count(rng):
    x = rng.normal(size=(300, 2))
    x[:100] *= 100
    weight = np.r_[np.zeros(100), np.ones(200)]
    first, second = FeatureScaling(), FeatureScaling()
    first.adapt(x, weight)
    second.adapt(x[100:])
    assert float(first.gain[0]) == pytest.approx(float(second.gain[0]), rel=1e-5)


def test_sampled_units_are_the_same_behind_it(digits):
    x, y = digits[:2]
    models = []
    for scaling in ([], [FeatureScaling()]):
        model = keras.Sequential(
            [*scaling, SampledDense(50, seed=0), keras.layers.Dense(10, "softmax")]
        )
        swim_fit(model, 100 * x, y, l2=1e-3, seed=0, verbose=0)
        models.append(model)
    np.testing.assert_array_equal(models[0].layers[0].pairs, models[1].layers[1].pairs)
    np.testing.assert_allclose(
        models[0].predict(100 * x, verbose=0),
        models[1].predict(100 * x, verbose=0),
        atol=1e-3,
    )


def test_saving(digits, tmp_path):
    x, y = digits[:2]
    model = keras.Sequential(
        [FeatureScaling(), SampledDense(30), keras.layers.Dense(10, "softmax")]
    )
    swim_fit(model, x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert float(again.layers[0].gain[0]) == float(model.layers[0].gain[0]) != 1.0
    np.testing.assert_array_equal(
        again.predict(x, verbose=0), model.predict(x, verbose=0)
    )


def test_constant_rows_and_bad_arguments():
    layer = FeatureScaling()
    layer.adapt(np.ones((5, 3)))
    assert float(layer.gain[0]) == 1.0
    with pytest.raises(ValueError, match="distance"):
        FeatureScaling(distance=0)
