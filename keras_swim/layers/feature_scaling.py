"""A scalar that brings features to a standard scale."""

import keras
import numpy as np

_ROWS = 256


@keras.saving.register_keras_serializable(package="keras_swim")
class FeatureScaling(keras.layers.Layer):
    """Multiplies its input by one number: rows then are a given distance apart.

    A sampled layer gives the same units behind it as without it: kernels grow as
    distances shrink. But an optimizer whose steps have a fixed size (Adam) changes
    large kernel entries less, in proportion. Features far apart mean tiny entries,
    which the first steps of fine-tuning would destroy. At a distance of 1 entries
    are about as large as those of a usual initializer, at the default of 0.1 ten
    times as large.

    `swim_fit` computes the number; until then it is 1.

    Args:
        distance: Root mean square distance of two rows after the layer.

    Example:

    >>> layer = FeatureScaling(distance=1.0)
    >>> layer.adapt(np.array([[0.0, 0.0], [3.0, 4.0]]))
    >>> round(float(layer.gain[0]), 3)
    0.283
    """

    def __init__(self, distance=0.1, **kwargs):
        super().__init__(**kwargs)
        if not 0 < distance < float("inf"):
            raise ValueError(
                f"`distance` must be a positive number. Received: {distance!r}"
            )
        self.distance = float(distance)
        # Not a scalar: TensorFlow's mirrored variables cannot give a scalar's value.
        self.gain = self.add_weight(
            shape=(1,), initializer="ones", trainable=False, name="gain"
        )
        self.built = True

    def adapt(self, x, sample_weight=None):
        """Sets the number from rows.

        Args:
            x: `(n, ..., d)` array.
            sample_weight: `None` or `(n,)`.
        """
        x = keras.ops.convert_to_numpy(x)
        weight = np.ones(len(x)) if sample_weight is None else sample_weight
        weight = np.repeat(weight, x[0, ..., 0].size)
        weight = weight / weight.sum()
        x = x.reshape(len(weight), -1)
        # In blocks: a float64 copy of all rows would cost more than the sums.
        parts = [slice(at, at + _ROWS) for at in range(0, len(x), _ROWS)]
        mean = sum(weight[part] @ x[part].astype("float64") for part in parts)
        variance = 0.0
        for part in parts:
            gaps = x[part] - mean
            variance += weight[part] @ np.einsum("nd,nd->n", gaps, gaps)
        # Two rows differ by twice the variance in each column. (Two rows of a
        # sample of n do so by n / (n - 1) more; that is of no matter here.)
        square = 2 * variance
        self.gain.assign([self.distance / float(square) ** 0.5 if square > 0 else 1.0])

    def call(self, inputs):
        return inputs * keras.ops.cast(self.gain, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "distance": self.distance}
