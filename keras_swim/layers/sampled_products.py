"""Units that are products of logistic steps: soft "and" of conditions."""

import keras
import numpy as np

from keras_swim.layers.pairs import HasPairs


@keras.saving.register_keras_serializable(package="keras_swim")
class SampledProducts(HasPairs, keras.layers.Layer):
    """Products of a few logistic units.

    `output_j = prod_t sigmoid(x @ kernel[:, j, t] + bias[j, t])`: near 1 where all
    conditions hold, near 0 where one does not. Boosting samples such units between two
    rows, each condition on a single column (`keras_swim.core.boost_units`); until
    `assign_units` is called the kernel is zero.

    Args:
        units: Number of products.
        terms: Number of conditions of each.

    Attributes:
        pairs: `None`, or `(units, 2)`: the two training rows behind each unit.

    Example:

    >>> layer = SampledProducts(units=1, terms=2)
    >>> kernel = np.array([[[9.0, 0.0]], [[0.0, 9.0]]])
    >>> layer.assign_units(kernel, np.array([[0.0, 0.0]]))
    >>> np.round(np.asarray(layer(np.array([[1.0, 1.0], [1.0, -1.0]]))), 2).ravel()
    array([1., 0.], dtype=float32)
    """

    def __init__(self, units, terms=3, **kwargs):
        super().__init__(**kwargs)
        self.units, self.terms = int(units), int(terms)

    def build(self, input_shape):
        count = self.units * self.terms
        self.kernel = self.add_weight(
            shape=(input_shape[-1], count), initializer="zeros", name="kernel"
        )
        self.bias = self.add_weight(shape=(count,), initializer="zeros", name="bias")

    def assign_units(self, kernel, bias, pairs=None):
        """Gives the layer its units.

        Args:
            kernel: `(d, units, terms)` array.
            bias: `(units, terms)` array.
            pairs: `None` or `(units, 2)`.
        """
        if not self.built:
            self.build((None, len(kernel)))
            self.built = True
        self.kernel.assign(np.reshape(kernel, (len(kernel), -1)))
        self.bias.assign(np.reshape(bias, -1))
        self._pairs = pairs

    def call(self, inputs):
        x = keras.ops.cast(inputs, self.compute_dtype)
        steps = keras.ops.sigmoid(keras.ops.matmul(x, self.kernel) + self.bias)
        # Sums of logarithms would lose what is near 0; products of a few do not.
        product = steps[..., :: self.terms]
        for term in range(1, self.terms):
            product = product * steps[..., term :: self.terms]
        return product

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units, "terms": self.terms}
