"""A scalar that brings features to a standard scale."""

import keras


@keras.saving.register_keras_serializable(package="keras_swim")
class FeatureScaling(keras.layers.Layer):
    """Multiplies its input by one number: rows then are about 1 apart.

    A sampled layer gives the same units behind it as without it: kernels grow as
    distances shrink. But its kernel then has entries of the usual size, and an
    optimizer whose steps have a fixed size (Adam) changes it as little, in
    proportion, as any other. Without it, features far apart mean tiny kernel
    entries, which the first steps of fine-tuning would destroy.

    `swim_fit` computes the number; until then it is 1.

    Example:

    >>> layer = FeatureScaling()
    >>> layer.adapt(np.array([[0.0, 0.0], [3.0, 4.0]]))
    >>> round(float(layer.gain), 3)
    0.283
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.gain = self.add_weight(
            shape=(), initializer="ones", trainable=False, name="gain"
        )
        self.built = True

    def adapt(self, x, sample_weight=None):
        """Sets the number from rows: 1 over their root mean square distance.

        Args:
            x: `(n, ..., d)` array.
            sample_weight: `None` or `(n,)`.
        """
        x = keras.ops.convert_to_numpy(x).astype("float64")
        weight = None
        if sample_weight is not None:
            weight = sample_weight.reshape(-1, *(1,) * (x.ndim - 1)) / (
                sample_weight.mean()
            )
        axes = tuple(range(x.ndim - 1))
        mean = (x if weight is None else weight * x).mean(axis=axes)
        squares = (x - mean) ** 2
        variance = (squares if weight is None else weight * squares).mean(axis=axes)
        # Two rows differ by twice the variance in each column. (Two rows of a
        # sample of n do so by n / (n - 1) more; that is of no matter here.)
        square = 2 * variance.sum()
        self.gain.assign(1.0 / square**0.5 if square > 0 else 1.0)

    def call(self, inputs):
        return inputs * keras.ops.cast(self.gain, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape
