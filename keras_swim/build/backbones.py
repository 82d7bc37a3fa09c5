"""Pretrained backbones: their sizes, their preprocessing, their weights."""

from numbers import Integral
from pathlib import Path
from typing import NamedTuple

import keras

from keras_swim.layers.preprocessing import ImagePreprocessing


class Recipe(NamedTuple):
    """How `keras.applications` wants the images of one model.

    Attributes:
        size: Height and width that its weights were trained with.
        mode: See `ImagePreprocessing`; `None` if the model takes raw images.
    """

    size: int
    mode: str | None


RECIPES = {
    **{f"ConvNeXt{kind}": Recipe(224, None) for kind in ("Tiny", "Small", "Base")},
    **{f"ConvNeXt{kind}": Recipe(224, None) for kind in ("Large", "XLarge")},
    **{f"DenseNet{depth}": Recipe(224, "torch") for depth in (121, 169, 201)},
    "EfficientNetB0": Recipe(224, None),
    "EfficientNetB1": Recipe(240, None),
    "EfficientNetB2": Recipe(260, None),
    "EfficientNetB3": Recipe(300, None),
    "EfficientNetB4": Recipe(380, None),
    "EfficientNetB5": Recipe(456, None),
    "EfficientNetB6": Recipe(528, None),
    "EfficientNetB7": Recipe(600, None),
    "EfficientNetV2B0": Recipe(224, None),
    "EfficientNetV2B1": Recipe(240, None),
    "EfficientNetV2B2": Recipe(260, None),
    "EfficientNetV2B3": Recipe(300, None),
    "EfficientNetV2S": Recipe(384, None),
    "EfficientNetV2M": Recipe(480, None),
    "EfficientNetV2L": Recipe(480, None),
    "InceptionResNetV2": Recipe(299, "tf"),
    "InceptionV3": Recipe(299, "tf"),
    "MobileNet": Recipe(224, "tf"),
    "MobileNetV2": Recipe(224, "tf"),
    "MobileNetV3Large": Recipe(224, None),
    "MobileNetV3Small": Recipe(224, None),
    "NASNetLarge": Recipe(331, "tf"),
    "NASNetMobile": Recipe(224, "tf"),
    **{f"ResNet{depth}": Recipe(224, "caffe") for depth in (50, 101, 152)},
    **{f"ResNet{depth}V2": Recipe(224, "tf") for depth in (50, 101, 152)},
    "VGG16": Recipe(224, "caffe"),
    "VGG19": Recipe(224, "caffe"),
    "Xception": Recipe(299, "tf"),
}


class Backbone(NamedTuple):
    """A backbone and what comes before it.

    Attributes:
        model: Frozen Keras model from images to features.
        size: `(height, width)` of its images, or `None` for any.
        preprocessing: `None`, or what to call on images of 0..255 first.
    """

    model: keras.Model
    size: tuple[int, int] | None
    preprocessing: object


def get_backbone(backbone, weights, image_size, preprocessing):
    """Returns the `Backbone` for a name or a model.

    Args:
        backbone: Name of a model of `keras.applications`, or a Keras model.
        weights: `"imagenet"`, `None` (random), or the path of a weights file.
        image_size: `None`, an integer or `(height, width)`.
        preprocessing: `"auto"`, `None`, a mode of `ImagePreprocessing`, a layer,
            or a function of image tensors.
    """
    size = _as_size(image_size)
    if isinstance(backbone, str):
        return _by_name(backbone, weights, size, preprocessing)
    if not isinstance(backbone, keras.Model):
        raise TypeError(
            "`backbone` must be the name of a model of keras.applications, or a "
            f"Keras model. Received: {type(backbone).__name__}."
        )
    if not backbone.built:
        raise ValueError(
            "The backbone has not been built, so the shape of its images is not known. "
            "Begin it with `keras.Input((height, width, 3))`."
        )
    if isinstance(preprocessing, str) and preprocessing == "auto":
        preprocessing = None
    own = _input_size(backbone)
    if own is not None and size is not None and own != size:
        raise ValueError(
            f"The backbone takes images of {own}. Received: image_size={image_size!r}. "
            "Leave out `image_size`."
        )
    layer = _as_layer(preprocessing)
    # Last: a call that is refused changes nothing.
    if weights not in ("imagenet", None):
        backbone.load_weights(weights)
    return Backbone(backbone, own or size, layer)


def _by_name(name, weights, size, preprocessing):
    names = {known.lower(): known for known in RECIPES}
    if name.lower() not in names:
        raise ValueError(
            f"`backbone` must be one of {', '.join(sorted(RECIPES))}, or a Keras "
            f"model. Received: backbone={name!r}."
        )
    name = names[name.lower()]
    recipe = RECIPES[name]
    size = size or (recipe.size, recipe.size)
    if isinstance(preprocessing, str) and preprocessing == "auto":
        preprocessing = recipe.mode
    if weights not in ("imagenet", None) and not Path(weights).is_file():
        raise ValueError(
            f'`weights` must be "imagenet", None or the path of a weights file. '
            f"Received: weights={str(weights)!r}, which does not exist."
        )
    build = getattr(keras.applications, name)
    options = {"include_top": False, "input_shape": (*size, 3)}
    if weights is None:
        return Backbone(build(weights=None, **options), size, _as_layer(preprocessing))
    try:
        model = build(weights=str(weights), **options)
    except Exception as error:
        if weights != "imagenet" or "fetch" not in str(error).lower():
            raise
        raise ConnectionError(
            f"The ImageNet weights of {name} could not be downloaded: {error}. "
            "Fetch them on a machine with a network "
            f'(`keras.applications.{name}(include_top=False).save_weights("{name}'
            '.weights.h5")`) and pass the file: `weights="'
            f'{name}.weights.h5"`.'
        ) from error
    return Backbone(model, size, _as_layer(preprocessing))


def _as_layer(preprocessing):
    if isinstance(preprocessing, str):
        return ImagePreprocessing(preprocessing, name="preprocessing")
    if preprocessing is not None and not callable(preprocessing):
        raise TypeError(
            '`preprocessing` must be "auto", None, "caffe", "tf", "torch", a layer or '
            f"a function. Received: {preprocessing!r}"
        )
    return preprocessing


def _as_size(image_size):
    if image_size is None:
        return None
    one = isinstance(image_size, Integral)
    pair = (image_size,) * 2 if one else tuple(image_size)
    if len(pair) != 2 or not all(isinstance(n, Integral) and n > 0 for n in pair):
        raise ValueError(
            "`image_size` must be an integer or (height, width). Received: "
            f"image_size={image_size!r}"
        )
    return int(pair[0]), int(pair[1])


def _input_size(model):
    """Height and width that a model's input is fixed to, or `None`."""
    inputs = keras.tree.flatten(model.inputs)
    shape = tuple(inputs[0].shape)
    if len(inputs) != 1 or len(shape) != 4 or shape[-1] not in (1, 3, 4):
        raise ValueError(
            "A backbone takes one batch of images, (rows, height, width, channels). "
            f"Received: a model with input(s) of shape "
            f"{[tuple(tensor.shape) for tensor in inputs]}."
        )
    return None if None in shape[1:3] else shape[1:3]
