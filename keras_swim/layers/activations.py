"""Activations by name, for those that Keras knows no name for."""

import keras


@keras.saving.register_keras_serializable(package="keras_swim")
def sin(x):
    """Sine, as an activation: `SampledDense(64, activation="sin")`."""
    return keras.ops.sin(x)


def get_activation(activation):
    """`keras.activations.get`, and `"sin"`."""
    if isinstance(activation, str) and activation in ("sin", "keras_swim>sin"):
        return sin
    return keras.activations.get(activation)


def activation_name(activation):
    """The name that constants are listed under, or the callable's own."""
    if activation is None:
        return "linear"
    if isinstance(activation, keras.layers.Layer):
        # LeakyReLU() -> "leaky_re_lu"; only the plain functions are listed.
        return activation.name
    return getattr(activation, "__name__", type(activation).__name__)
