"""Operators that commute with a reflection, by even and odd features.

Let S be the reflection of inputs and R that of outputs. With units `phi`, the sums
`E = phi(u) + phi(S u)` do not change under S, the differences `O = phi(u) - phi(S u)`
change their sign. A readout of E for the part of the output that R leaves alone, and
one of O for the part whose sign it changes, commute with the reflection exactly.
"""

import keras

SIGNS = {"odd": -1.0, "even": 1.0}


@keras.saving.register_keras_serializable(package="keras_swim")
class Reflect(keras.layers.Layer):
    """Mirrors functions on a periodic grid: `u(-x)`, or `-u(-x)`.

    Args:
        kind: `"odd"` for `-u(-x)`, `"even"` for `u(-x)`.
        **kwargs: As for `keras.layers.Layer`.

    Example:

    >>> np.asarray(Reflect("odd")(np.array([[0.0, 1.0, 2.0, 3.0]]))) + 0.0
    array([[ 0., -3., -2., -1.]], dtype=float32)
    """

    def __init__(self, kind="odd", **kwargs):
        super().__init__(**kwargs)
        if kind not in SIGNS:
            raise ValueError(
                '`kind` must be "odd" (-u(-x)) or "even" (u(-x)). Received: '
                f"kind={kind!r}"
            )
        self.kind = kind

    def call(self, inputs):
        axes = list(range(1, len(inputs.shape)))
        # Position 0 is its own mirror image.
        mirrored = keras.ops.flip(inputs, axis=axes)
        for axis in axes:
            mirrored = keras.ops.roll(mirrored, 1, axis=axis)
        return SIGNS[self.kind] * mirrored

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "kind": self.kind}


@keras.saving.register_keras_serializable(package="keras_swim")
class JoinParities(Reflect):
    """Adds the even part of a first function and the odd part of a second one.

    Called on `[even, odd]`. Even is what `Reflect(kind)` leaves alone.

    Args:
        kind: See `Reflect`.
        **kwargs: As for `keras.layers.Layer`.

    Example:

    >>> parts = [np.array([[1.0, 1.0, 0.0, 0.0]]), np.array([[1.0, 1.0, 0.0, 0.0]])]
    >>> np.asarray(JoinParities("even")(parts))
    array([[1., 1., 0., 0.]], dtype=float32)
    """

    predicted_inputs = (0, 1)

    def call(self, inputs):
        even, odd = inputs
        return (even + super().call(even) + odd - super().call(odd)) * 0.5

    def pull_back(self, outputs, inputs):
        mirrored = super().call(outputs)
        return [0.5 * (outputs + mirrored), 0.5 * (outputs - mirrored)]

    def compute_output_shape(self, input_shape):
        return input_shape[0]
