"""Image files as batches for a model."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import keras
import numpy as np

from keras_swim.apps.console import CommandError
from keras_swim.apps.image_files import ImageError, read_image
from keras_swim.layers.preprocessing import BicubicResizing


class InputKind(NamedTuple):
    """What a model takes.

    Attributes:
        size: Height and width, or `None` if it takes any.
        channels: 1 or 3.
    """

    size: tuple[int, int] | None
    channels: int


def input_kind(model):
    """The `InputKind` of a model of images.

    Example:

    >>> model = keras.Sequential(
    ...     [keras.Input((None, None, 3)), keras.layers.Resizing(96, 64)]
    ... )
    >>> input_kind(model)
    InputKind(size=(96, 64), channels=3)
    """
    shape = tuple(model.inputs[0].shape)
    if len(model.inputs) != 1 or len(shape) != 4 or shape[-1] not in (1, 3):
        raise CommandError(
            "The model must take images (rows, height, width, 1 or 3 channels). "
            f"Received: one with the inputs {[tuple(i.shape) for i in model.inputs]}."
        )
    if None not in shape[1:3]:
        return InputKind((shape[1], shape[2]), shape[-1])
    for layer in model.layers:
        if isinstance(layer, (BicubicResizing, keras.layers.Resizing)):
            return InputKind((layer.height, layer.width), shape[-1])
    return InputKind(None, shape[-1])


class ImageRows(keras.utils.PyDataset):
    """Batches of image files, decoded and resized while the model is at work.

    Files may have any sizes: each is resized by itself, in the way that the model
    would do it, and not rounded afterwards. So the model gives the same answer for
    the file's own pixels.

    Args:
        paths: Image files.
        labels: `None`, or one label a file.
        kind: `InputKind`.
        batch_size: Images at a time.
        weights: `None`, or one weight a file.
        shuffle: `None`, or a seed to shuffle with before each epoch.
    """

    def __init__(self, paths, labels, kind, batch_size=32, weights=None, shuffle=None):
        super().__init__(workers=1)
        self.paths, self.labels, self.weights = list(paths), labels, weights
        self.kind, self.batch_size = kind, batch_size
        self._rng = None if shuffle is None else np.random.default_rng(shuffle)
        self._order = np.arange(len(self.paths))
        self._resize = None
        if kind.size is not None:
            self._resize = BicubicResizing(*kind.size)
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1)
        self._ahead = {}
        self.on_epoch_end()

    def __len__(self):
        return -(-len(self.paths) // self.batch_size)

    def __getitem__(self, index):
        images = [found.result() for found in self._started(index)]
        if index + 1 < len(self):
            # The next batch is decoded while the model computes this one.
            self._ahead = {index + 1: self._start(index + 1)}
        x, rows = np.stack(images), self._rows(index)
        if self.labels is None:
            return x
        if self.weights is None:
            return x, self.labels[rows]
        return x, self.labels[rows], self.weights[rows]

    def on_epoch_end(self):
        if self._rng is not None:
            self._ahead = {}
            self._order = self._rng.permutation(len(self.paths))

    def _rows(self, index):
        return self._order[index * self.batch_size : (index + 1) * self.batch_size]

    def _started(self, index):
        return self._ahead.pop(index, None) or self._start(index)

    def _start(self, index):
        return [self._pool.submit(self._read, row) for row in self._rows(index)]

    def _read(self, row):
        path = self.paths[row]
        try:
            image = read_image(path, self.kind.channels).astype("float32")
        except ImageError as error:
            raise CommandError(
                f"{path} could be read before, but not now: {error}"
            ) from error
        if self._resize is None or image.shape[:2] == self.kind.size:
            return image
        return keras.ops.convert_to_numpy(self._resize(image[None]))[0]


def check_equal_sizes(paths, kind):
    """Raises if a model without a size of its own would get several."""
    if kind.size is None and len({read_image(path).shape[:2] for path in paths}) > 1:
        raise CommandError(
            "The images have different sizes, and the model does not resize them. "
            "Pass --image-size."
        )
