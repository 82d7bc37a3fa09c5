"""What a backbone expects of its images, as layers that save and export."""

import keras

# (flip to BGR, scale, offset) of 0..255 RGB images, as keras.applications has it.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MODES = {
    "caffe": (True, [1.0, 1.0, 1.0], [-103.939, -116.779, -123.68]),
    "tf": (False, [1 / 127.5] * 3, [-1.0] * 3),
    "torch": (
        False,
        [1 / (255 * std) for std in _STD],
        [-mean / std for mean, std in zip(_MEAN, _STD, strict=True)],
    ),
}


@keras.saving.register_keras_serializable(package="keras_swim")
class ImagePreprocessing(keras.layers.Layer):
    """Scales RGB images of 0..255 as `keras.applications` does.

    The same numbers as `preprocess_input` of a model's module, but as a layer:
    it is saved with the model, exports, and does not change its input.

    Args:
        mode: `"caffe"` (BGR, mean colour subtracted: VGG, ResNet), `"tf"` (-1 to
            1: MobileNet, Xception, Inception, NASNet, ResNetV2) or `"torch"`
            (standardised: DenseNet).

    Example:

    >>> layer = ImagePreprocessing("tf")
    >>> image = np.array([[[[0, 127.5, 255]]]])
    >>> keras.ops.convert_to_numpy(layer(image)).ravel().tolist()
    [-1.0, 0.0, 1.0]
    """

    def __init__(self, mode, **kwargs):
        super().__init__(**kwargs)
        if mode not in MODES:
            raise ValueError(
                f"`mode` must be one of {', '.join(map(repr, MODES))}. "
                f"Received: mode={mode!r}"
            )
        self.mode = mode

    def call(self, inputs):
        flip, scale, offset = MODES[self.mode]
        images = keras.ops.cast(inputs, self.compute_dtype)
        if flip:
            images = keras.ops.flip(images, axis=-1)
        scale = keras.ops.convert_to_tensor(scale, dtype=self.compute_dtype)
        offset = keras.ops.convert_to_tensor(offset, dtype=self.compute_dtype)
        return images * scale + offset

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "mode": self.mode}


@keras.saving.register_keras_serializable(package="keras_swim")
class SignedRoot(keras.layers.Layer):
    """Square root that keeps the sign: makes skewed features less so.

    Pooled ReLU features have long tails; pairs drawn after a square root are
    spread more evenly.
    """

    def call(self, inputs):
        return keras.ops.sign(inputs) * keras.ops.sqrt(keras.ops.abs(inputs))

    def compute_output_shape(self, input_shape):
        return input_shape
