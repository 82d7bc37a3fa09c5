"""The small pretrained backbone of `keras-swim demo`.

It is there so that a demonstration needs no download. It has 300 thousand
parameters and was trained for minutes on letters that were drawn in 18 fonts
(`examples/train_demo_backbone.py`); of letters in fonts that it has not seen it
knows 91 %. It has seen no digit and no photograph. For work of your own take a
backbone of `keras.applications`.
"""

from pathlib import Path

import keras
import numpy as np

WEIGHTS = Path(__file__).with_name("demo_backbone.npz")
_WIDTHS = (24, 48, 96, 192)


def demo_backbone():
    """The backbone of `keras-swim demo`, with its weights, frozen.

    Of 900 handwritten digits of scikit-learn a sampled head on its features gets
    97 % right after 200 labelled ones, and 94 % on the pixels alone. Letters and
    digits are both made of strokes: expect nothing of the kind for photographs.

    Returns:
        A Keras model from images `(32, 32, 3)` of 0..255 to 192 features, for
        `SwimHead(demo_backbone(), num_classes)`.

    Example:

    >>> backbone = demo_backbone()
    >>> images = np.random.default_rng(0).integers(0, 256, size=(5, 32, 32, 3))
    >>> backbone.predict(images, verbose=0).shape
    (5, 192)
    """
    model = build_demo_backbone()
    variables = _variables(model)
    with np.load(WEIGHTS, allow_pickle=False) as file:
        for name in file.files:
            variables[name].assign(file[name].astype("float32"))
    model.trainable = False
    return model


def build_demo_backbone():
    """Builds the network with random weights, for the recipe that trains it.

    Five 3 x 3 convolutions with BatchNormalization and ReLU, one of them residual,
    three poolings, and a mean over what is left.

    Returns:
        A Keras model from images `(32, 32, 3)` of 0..255 to 192 features.
    """
    images = keras.Input((32, 32, 3), name="images")
    x = keras.layers.Rescaling(1 / 127.5, offset=-1.0, name="rescaling")(images)
    x = _convolved(x, _WIDTHS[0], "block_1")
    x = keras.layers.MaxPooling2D(name="pool_1")(x)
    x = _convolved(x, _WIDTHS[1], "block_2")
    x = keras.layers.MaxPooling2D(name="pool_2")(x)
    x = _convolved(x, _WIDTHS[2], "block_3")
    x = keras.layers.Add(name="add")([x, _convolved(x, _WIDTHS[2], "block_4")])
    x = keras.layers.MaxPooling2D(name="pool_3")(x)
    x = _convolved(x, _WIDTHS[3], "block_5")
    features = keras.layers.GlobalAveragePooling2D(name="features")(x)
    return keras.Model(images, features, name="demo_backbone")


def save_demo_weights(model, path):
    """Writes the weights of a trained backbone as plain arrays.

    Args:
        model: What `build_demo_backbone` returned, trained.
        path: File name, ending in `.npz`.
    """
    arrays = {}
    for name, variable in _variables(model).items():
        array = keras.ops.convert_to_numpy(variable)
        # Kernels are nearly all of the file. Statistics stay as they are: a
        # variance may be too small for half precision.
        arrays[name] = array.astype("float16" if array.ndim > 1 else "float32")
    np.savez_compressed(path, **arrays)


def _convolved(x, filters, name):
    x = keras.layers.Conv2D(
        filters, 3, padding="same", use_bias=False, name=f"{name}_conv"
    )(x)
    # Momentum for a training of a few thousand steps.
    x = keras.layers.BatchNormalization(momentum=0.9, name=f"{name}_norm")(x)
    return keras.layers.ReLU(name=f"{name}_relu")(x)


def _variables(model):
    return {
        f"{layer.name}/{variable.name}": variable
        for layer in model.layers
        for variable in layer.weights
    }
