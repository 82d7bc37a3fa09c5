"""The columns of numbers of a table, as a layer that saves and exports."""

import keras
import numpy as np

from keras_swim.core.table_columns import CLIP, FURTHEST


@keras.saving.register_keras_serializable(package="keras_swim")
class NumberColumns(keras.layers.Layer):
    """Fills in missing numbers and brings columns to a common scale.

    Missing numbers (NaN) take a value of their column. Then numbers are standardised
    and softly clipped, `z / sqrt(1 + (z / 3)^2)` (`view="standard"`), or mapped
    piecewise linearly to normal quantiles (`view="normal"`). Behind the d columns come
    d more that say where numbers were missing, 0 or 1.

    Args:
        columns: Number d of columns.
        view: `"standard"` or `"normal"`.
        knots: Number of knots of the quantile map.

    Example:

    >>> layer = NumberColumns(1)
    >>> layer.assign_columns([2.0], [0.0], [1.0])
    >>> np.round(np.asarray(layer(np.array([[3.0], [np.nan]]))), 2).tolist()
    [[2.119999885559082, 0.0], [1.659999966621399, 1.0]]
    """

    def __init__(self, columns, view="standard", knots=2, **kwargs):
        super().__init__(**kwargs)
        self.columns, self.view, self.knots = int(columns), view, int(knots)

        def weight(name, *shape, initializer="zeros"):
            return self.add_weight(
                shape=shape, initializer=initializer, trainable=False, name=name
            )

        d, q = self.columns, self.knots
        self.fill, self.mean = weight("fill", d), weight("mean", d)
        self.spread = weight("spread", d, initializer="ones")
        if view == "normal":
            # Of standardised numbers, whose digits float32 has.
            self.starts = weight("starts", d, q - 1)
            self.widths = weight("widths", d, q - 1, initializer="ones")
            self.rises = weight("rises", d, q - 1)
            self.first = weight("first", d)
        self.built = True

    def assign_columns(self, fill, mean, spread, quantiles=None):
        """Gives the layer what is known of the columns.

        Args:
            fill, mean, spread: `(d,)` each.
            quantiles: `None`, or for each column its knots and their normal
                quantiles.
        """
        mean, spread = np.asarray(mean, float), np.asarray(spread, float)
        self.fill.assign(fill)
        self.mean.assign(mean)
        self.spread.assign(spread)
        if self.view != "normal":
            return
        shape = (self.columns, self.knots - 1)
        starts, widths, rises = np.zeros(shape), np.ones(shape), np.zeros(shape)
        first = np.zeros(self.columns)
        for column, (knots, values) in enumerate(quantiles):
            z = (knots - mean[column]) / spread[column]
            count = len(z) - 1
            starts[column, :count], widths[column, :count] = z[:-1], np.diff(z)
            rises[column, :count] = np.diff(values)
            first[column] = values[0]
        for variable, value in (
            (self.starts, starts),
            (self.widths, widths),
            (self.rises, rises),
            (self.first, first),
        ):
            variable.assign(value)

    def call(self, inputs):
        ops = keras.ops
        x = ops.cast(inputs, self.compute_dtype)
        missing = ops.isnan(x)
        # JAX takes no variables in `where`.
        fill = ops.convert_to_tensor(self.fill)
        z = (ops.where(missing, fill, x) - self.mean) / self.spread
        if self.view == "normal":
            # A sum of ramps: what interpolation is, without looking anything up.
            ramps = ops.clip((z[..., None] - self.starts) / self.widths, 0.0, 1.0)
            z = self.first + ops.sum(ramps * self.rises, axis=-1)
        else:
            z = ops.clip(z, -FURTHEST, FURTHEST)
            z = z / ops.sqrt(1.0 + (z / CLIP) ** 2)
        return ops.concatenate([z, ops.cast(missing, z.dtype)], axis=-1)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 2 * self.columns)

    def get_config(self):
        config = super().get_config()
        config.update(columns=self.columns, view=self.view, knots=self.knots)
        return config
