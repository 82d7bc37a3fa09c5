"""SwimMLP: sampled layers and a readout, from rows of numbers."""

from numbers import Integral

import keras
import numpy as np

from keras_swim.layers.sampled_dense import SampledDense

_OUTPUTS = ("softmax", "sigmoid", None)


def SwimMLP(
    num_outputs,
    units=1000,
    hidden_layers=None,
    activation="tanh",
    input_shape=None,
    *,
    output_activation="softmax",
    normalize=True,
    skip=False,
    scale=1.0,
    offset=0.0,
    sampler="gradient",
    seed=None,
    name="swim_mlp",
):
    """Builds a network of sampled layers with a readout, for `swim_fit`.

    Columns are standardised, go through one or more `SampledDense`, and a `Dense`
    reads the result out. It is an ordinary Keras model. Wide comes before deep:
    most problems need one layer. Which depth and width a problem needs,
    `keras_swim.build.select_mlp` finds out.

    Args:
        num_outputs: Number of classes, of yes/no labels, or of real outputs.
        units: Units of each sampled layer, or a list with one integer a layer.
        hidden_layers: Number of sampled layers. With 0 the readout sees the columns
            themselves: plain ridge regression. Defaults to one, or to as many as
            `units` names.
        activation: Activation of the sampled layers.
        input_shape: Number of columns, or the shape of one row, which is flattened.
            Defaults to `None`: `swim_fit` sees it from the data, and until then the
            model has no weights.
        output_activation: `"softmax"` (classes), `"sigmoid"` (yes/no labels), or
            `None` (real outputs).
        normalize: Whether columns are standardised. `swim_fit` computes their means
            and variances, and the model holds them.
        skip: Whether the readout also sees the (standardised) columns. Needs
            `input_shape`.
        scale: See `SampledDense`.
        offset: See `SampledDense`: with hundreds of columns try `"auto"`.
        sampler: `"gradient"`, `"uniform"`, or `"random"` (see `SampledDense`): with
            the last one hidden weights do not depend on data, which is the baseline
            to beat.
        seed: Seed of the sampled layers.
        name: Name of the model.

    Returns:
        A `keras.Model`: functional with `input_shape`, else `keras.Sequential`. Fit
        it with `swim_fit(model, x, y)`.

    Example:

    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(500, 3))
    >>> y = np.sin(3 * x[:, 0]) * x[:, 1]
    >>> model = SwimMLP(1, units=[200, 100], output_activation=None, seed=0)
    >>> history = swim_fit(model, x, y, verbose=0)
    >>> model.predict(x, verbose=0).shape, history.history["cv_r2"][0] > 0.9
    ((500, 1), True)
    """
    check_outputs(num_outputs, output_activation)
    widths = _widths(units, hidden_layers)
    shape = _shape(input_shape)
    if skip and widths and shape is None:
        raise ValueError(
            "`skip=True` leads the columns around the sampled layers, and for that the "
            "model needs their number. Pass `input_shape`."
        )
    front: list = []
    if shape is None or len(shape) > 1:
        front.append(keras.layers.Flatten(name="flatten"))
    if normalize:
        front.append(keras.layers.Normalization(name="normalization"))
    sampled = [
        SampledDense(
            width,
            activation=activation,
            scale=scale,
            offset=offset,
            sampler=sampler,
            seed=seed,
            name=f"sampled_{number}",
        )
        for number, width in enumerate(widths, start=1)
    ]
    readout = keras.layers.Dense(
        int(num_outputs), activation=output_activation, name="predictions"
    )
    if shape is None:
        return keras.Sequential([*front, *sampled, readout], name=name)
    inputs = keras.Input(shape, name="inputs")
    columns = _through(front, inputs)
    features = _through(sampled, columns)
    if skip and widths:
        if not normalize:
            # Or the ridge would penalise large columns less than small ones.
            columns = keras.layers.BatchNormalization(
                center=False, scale=False, name="standardised"
            )(columns)
        features = keras.layers.Concatenate(name="skip")([features, columns])
    return keras.Model(inputs, readout(features), name=name)


def _through(layers, tensor):
    for layer in layers:
        tensor = layer(tensor)
    return tensor


def check_outputs(num_outputs, output_activation):
    """Raises unless there can be so many outputs with this activation."""
    if not _is_count(num_outputs, 1):
        raise ValueError(
            "`num_outputs` must be a positive integer. Received: "
            f"num_outputs={num_outputs!r}"
        )
    if output_activation not in _OUTPUTS:
        raise ValueError(
            '`output_activation` must be "softmax" (classes), "sigmoid" (yes/no '
            "labels) or None (real outputs). Received: "
            f"output_activation={output_activation!r}"
        )
    if output_activation == "softmax" and num_outputs == 1:
        raise ValueError(
            "A softmax needs two or more outputs. Received: num_outputs=1. Pass "
            '`output_activation=None` for a real output, "sigmoid" for a yes or no.'
        )


def _widths(units, hidden_layers):
    """Units of each layer."""
    if hidden_layers is not None and not _is_count(hidden_layers, 0):
        raise ValueError(
            "`hidden_layers` must be an integer, 0 or more. Received: "
            f"hidden_layers={hidden_layers!r}"
        )
    if np.ndim(units) == 0:
        # What is no positive integer the layer itself refuses.
        return [units] * (1 if hidden_layers is None else hidden_layers)
    widths = list(units)
    if hidden_layers not in (None, len(widths)):
        raise ValueError(
            "`units` must be an integer, or one integer a layer. Received: "
            f"units={units!r}, hidden_layers={hidden_layers!r}. Leave out "
            "`hidden_layers`."
        )
    return widths


def _shape(input_shape):
    """The shape of a row as a tuple, or `None`."""
    if input_shape is None:
        return None
    shape = (input_shape,) if np.ndim(input_shape) == 0 else tuple(input_shape)
    if not shape or not all(_is_count(size, 1) for size in shape):
        raise ValueError(
            "`input_shape` must be the number of columns, or the shape of one row in "
            f"positive integers. Received: input_shape={input_shape!r}"
        )
    return shape


def _is_count(value, at_least):
    return (
        isinstance(value, Integral)
        and not isinstance(value, bool)
        and value >= at_least
    )
