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
class BicubicResizing(keras.layers.Layer):
    """Resizes images as the paper does: bicubic, no antialiasing, not rounded.

    `keras.layers.Resizing` gives other pixels on torch than on TensorFlow and JAX:
    its kernel there is a sharper one, up to 20 of 255 grey values off. A model that was
    fitted on one backend and loaded on another would see other images. Here all three
    have Keys' kernel.

    Args:
        height, width: Size to resize to.

    Example:

    >>> layer = BicubicResizing(32, 48)
    >>> tuple(layer(np.zeros((1, 20, 30, 3))).shape)
    (1, 32, 48, 3)
    """

    def __init__(self, height, width, **kwargs):
        super().__init__(**kwargs)
        self.height, self.width = int(height), int(width)

    def call(self, inputs):
        images = keras.ops.cast(inputs, self.compute_dtype)
        if keras.backend.backend() != "torch":
            size = (self.height, self.width)
            return keras.ops.image.resize(
                images, size, interpolation="bicubic", data_format="channels_last"
            )
        _, height, width, _ = keras.ops.shape(images)
        rows = self._weights(self.height, height)
        columns = self._weights(self.width, width)
        return keras.ops.einsum("ih,nhwc,jw->nijc", rows, images, columns)

    def _weights(self, new, old):
        """`(new, old)`: what each new line takes of the old ones."""
        # Centres of pixels, not their corners, lie on top of each other.
        centres = (keras.ops.arange(new, dtype="float32") + 0.5) * (old / new) - 0.5
        lines = keras.ops.arange(old, dtype="float32")
        far = keras.ops.abs(centres[:, None] - lines)
        near = (1.5 * far - 2.5) * far**2 + 1.0
        outer = ((-0.5 * far + 2.5) * far - 4.0) * far + 2.0
        weights = keras.ops.where(far < 1, near, keras.ops.where(far < 2, outer, 0.0))
        # At the border some lines are missing.
        weights = weights / keras.ops.sum(weights, axis=1, keepdims=True)
        return keras.ops.cast(weights, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.height, self.width, input_shape[-1])

    def get_config(self):
        size = {"height": self.height, "width": self.width}
        return {**super().get_config(), **size}


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
