"""SwimHead: a pretrained backbone with a sampled head, raw images in."""

from numbers import Integral, Real

import keras

from keras_swim.build.backbones import get_backbone
from keras_swim.layers.feature_scaling import FeatureScaling
from keras_swim.layers.labeled_dense import LabeledDense
from keras_swim.layers.preprocessing import BicubicResizing, SignedRoot
from keras_swim.layers.sampled_dense import SampledDense

# Of tokens (a transformer's output), and of feature maps.
_POOLINGS = {
    "avg": (keras.layers.GlobalAveragePooling1D, keras.layers.GlobalAveragePooling2D),
    "max": (keras.layers.GlobalMaxPooling1D, keras.layers.GlobalMaxPooling2D),
    "flatten": (keras.layers.Flatten, keras.layers.Flatten),
}
_TRANSFORMS = (None, "sqrt")
# Where a head may begin: the first of these that it has.
_HEAD_LAYERS = ("sqrt", "dropout", "scaling", "predictions")


def SwimHead(
    backbone,
    num_classes,
    units=2048,
    hidden_layers=1,
    activation="tanh",
    pooling="avg",
    weights="imagenet",
    image_size=None,
    *,
    preprocessing="auto",
    transform=None,
    skip=False,
    scale=1.0,
    offset="auto",
    dropout=0.3,
    classifier_activation="softmax",
    class_names=None,
    seed=None,
    name="swim_head",
):
    """Builds a model from raw images to probabilities, for `swim_fit`.

    Images are resized (bicubic), preprocessed as the backbone expects, and run
    through the frozen backbone; pooled features go through one or more
    `SampledDense` and a readout. All of it is in one Keras model: a saved file
    takes raw images of any size.

    Args:
        backbone: Name of any model of `keras.applications` ("ResNet50", "VGG19",
            "Xception", ...), or a Keras model from images to features. It is
            frozen.
        num_classes: Number of classes, of yes/no labels, or of real outputs.
        units: Units of each sampled layer.
        hidden_layers: Number of sampled layers. With 0 the readout sees the
            features themselves: plain ridge regression.
        activation: Activation of the sampled layers.
        pooling: `"avg"`, `"max"` or `"flatten"`: what to make of feature maps, or
            of a transformer's tokens.
        weights: `"imagenet"`, `None` (random), or the path of a weights file.
        image_size: Height and width to resize to. Defaults to the size that the
            backbone's weights were trained with.
        preprocessing: `"auto"`: that of the named backbone, and none for a model
            that is passed. Otherwise `None`, `"caffe"`, `"tf"`, `"torch"`, a
            layer, or a function of image tensors such as a `preprocess_input`.
        transform: `None`, or `"sqrt"`: square root of the features, which are
            often skewed.
        skip: Whether the readout also sees the (standardised) features.
        scale, offset: See `SampledDense`.
        dropout: Share of the features that `model.fit` drops while it trains, 0 for
            none. `swim_fit` and predictions use all of them. The readout fits its
            training rows far better than others; without dropout their gradients
            say little, and the first epochs of fine-tuning are no gain.
        classifier_activation: `"softmax"`, `"sigmoid"` (several yes/no labels),
            or `None` (real outputs).
        class_names: `None`, or a name for each class; saved with the model.
        seed: Seed of the sampled layers.
        name: Name of the model.

    Returns:
        A `keras.Model`. Fit it with `swim_fit(model, images, labels)`.

    Example:

    >>> images = np.random.default_rng(0).integers(0, 256, size=(40, 48, 48, 3))
    >>> labels = np.arange(40) % 2
    >>> model = SwimHead(
    ...     "MobileNetV2", 2, units=64, weights=None, image_size=32, seed=0
    ... )
    >>> history = swim_fit(model, images.astype("uint8"), labels, verbose=0)
    >>> model.predict(images, verbose=0).shape
    (40, 2)
    """
    _check(num_classes, hidden_layers, pooling, transform, dropout, class_names)
    base = get_backbone(backbone, weights, image_size, preprocessing)
    base.model.trainable = False
    channels = base.model.inputs[0].shape[-1]
    # Any size, and any dtype: Keras casts what it is fed.
    images = keras.Input((None, None, channels), dtype="float32", name="images")
    features = images
    if base.size is not None:
        features = BicubicResizing(*base.size, name="resizing")(features)
    if base.preprocessing is not None:
        features = base.preprocessing(features)
    features = base.model(features, training=False)
    features = _pooled(features, pooling)
    if transform == "sqrt":
        features = SignedRoot(name="sqrt")(features)
    if hidden_layers and dropout:
        features = keras.layers.Dropout(dropout, seed=seed, name="dropout")(features)
    # Kernel entries of the usual size, which fine-tuning does not destroy.
    hidden = FeatureScaling(name="scaling")(features) if hidden_layers else features
    for number in range(hidden_layers):
        hidden = SampledDense(
            units,
            activation=activation,
            scale=scale,
            offset=offset,
            seed=seed,
            name=f"sampled_{number + 1}",
        )(hidden)
    if skip and hidden_layers:
        standardised = keras.layers.BatchNormalization(
            center=False, scale=False, name="standardised"
        )(features)
        hidden = keras.layers.Concatenate(name="skip")([hidden, standardised])
    outputs = LabeledDense(
        int(num_classes),
        class_names=class_names,
        activation=classifier_activation,
        name="predictions",
    )(hidden)
    return keras.Model(images, outputs, name=name)


def split_head(model):
    """Splits a `SwimHead` where the pooled features come out.

    Both parts share their layers with the model: fit the head on features that
    were computed before, and the model is fitted.

    Args:
        model: A model built by `SwimHead`.

    Returns:
        A model from images to features, and one from features to predictions.

    Example:

    >>> model = SwimHead("MobileNetV2", 2, units=8, weights=None, image_size=32)
    >>> features, head = split_head(model)
    >>> features.output.shape, head.output.shape
    ((None, 1280), (None, 2))
    """
    names = [layer.name for layer in model.layers]
    first = next((name for name in _HEAD_LAYERS if name in names), None)
    if first is None:
        raise ValueError(
            "Only a model built by `SwimHead` can be split. Received: a model with "
            f"the layers {', '.join(names)}."
        )
    features = model.get_layer(first).input
    return (
        keras.Model(model.inputs, features, name="features"),
        keras.Model(features, model.output, name="head"),
    )


def _pooled(features, pooling):
    if isinstance(features, (dict, list, tuple)):
        raise ValueError(
            "The backbone must have one output. Received: "
            f"{len(features)} outputs. Pass `keras.Model(inputs, one_of_them)`."
        )
    if len(features.shape) == 2:
        return features
    if len(features.shape) not in (3, 4):
        raise ValueError(
            "The backbone must give features (rows, columns), tokens (rows, tokens, "
            "columns) or feature maps (rows, height, width, channels). Received: shape "
            f"{tuple(features.shape)}."
        )
    if pooling == "flatten" and None in features.shape[1:]:
        raise ValueError(
            '`pooling="flatten"` needs images of one size. Pass `image_size`.'
        )
    return _POOLINGS[pooling][len(features.shape) - 3](name="pooling")(features)


def _check(num_classes, hidden_layers, pooling, transform, dropout, class_names):
    if not isinstance(num_classes, Integral) or num_classes < 1:
        raise ValueError(
            f"`num_classes` must be a positive integer. Received: {num_classes!r}"
        )
    if not isinstance(hidden_layers, int) or hidden_layers < 0:
        raise ValueError(
            "`hidden_layers` must be an integer, 0 or more. Received: "
            f"{hidden_layers!r}"
        )
    if pooling not in _POOLINGS:
        raise ValueError(
            f"`pooling` must be one of {', '.join(map(repr, _POOLINGS))}. Received: "
            f"pooling={pooling!r}"
        )
    if transform not in _TRANSFORMS:
        raise ValueError(
            f'`transform` must be None or "sqrt". Received: transform={transform!r}'
        )
    if not isinstance(dropout, Real) or not 0 <= dropout < 1:
        raise ValueError(
            "`dropout` must be a number from 0 (none) to below 1. Received: "
            f"dropout={dropout!r}"
        )
    if isinstance(class_names, str) or (
        class_names is not None and len(class_names) != num_classes
    ):
        raise ValueError(
            f"`class_names` must be a list of {num_classes} names. Received: "
            f"class_names={class_names!r}."
        )
    if keras.config.image_data_format() != "channels_last":
        raise ValueError(
            "SwimHead works with channels last. Call "
            '`keras.config.set_image_data_format("channels_last")`.'
        )
