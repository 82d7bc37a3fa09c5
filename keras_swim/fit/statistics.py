"""Means and variances for normalising layers."""

import keras
import numpy as np

from keras_swim.layers.feature_scaling import FeatureScaling


def set_statistics(layer, values, weight=None):
    """Gives a normalising layer its statistics.

    Args:
        layer: Built BatchNormalization, Normalization or FeatureScaling.
        values: `(n, ...)` array, the layer's input.
        weight: `None` or `(n,)`.
    """
    if isinstance(layer, FeatureScaling):
        layer.adapt(values, weight)
        return
    axes = layer.axis if isinstance(layer.axis, (list, tuple)) else [layer.axis]
    kept = {axis % values.ndim for axis in axes if axis is not None}
    reduced = tuple(axis for axis in range(values.ndim) if axis not in kept)
    values = values.astype(np.float64)
    if weight is None or 0 not in reduced:
        mean, variance = values.mean(axis=reduced), values.var(axis=reduced)
    else:
        shape = (-1, *(1,) * (values.ndim - 1))
        share = np.broadcast_to((weight / weight.mean()).reshape(shape), values.shape)
        mean = (share * values).mean(axis=reduced)
        outer = mean.reshape(
            [size if axis in kept else 1 for axis, size in enumerate(values.shape)]
        )
        variance = (share * (values - outer) ** 2).mean(axis=reduced)
    if isinstance(layer, keras.layers.BatchNormalization):
        layer.moving_mean.assign(mean)
        layer.moving_variance.assign(variance)
    else:
        layer.adapt_mean.assign(mean)
        layer.adapt_variance.assign(variance)
        layer.finalize_state()
