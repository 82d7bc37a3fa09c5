"""What the tests of SampledDense share."""

import keras
import numpy as np

from keras_swim import SampledDense


def adapted(x, y=None, sample_weight=None, *, depth=0, units=16, seed=0, **kwargs):
    layer = SampledDense(units, seed=seed, **kwargs)
    layer.adapt(x, y, sample_weight, depth=depth)
    return layer


def outputs(layer, x):
    # Half types come out of ml_dtypes, which assert_allclose does not know.
    return keras.ops.convert_to_numpy(layer(x)).astype("float64")


def state(layer):
    return [*layer.get_weights(), layer.pairs]


def assert_same(left, right):
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


def one_hot(labels, classes=3):
    return np.eye(classes, dtype="float32")[labels]
