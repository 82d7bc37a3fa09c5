"""Augmented copies of rows, as extra rows."""

from numbers import Integral

import keras

from keras_swim.fit.segment import as_array


class Augmentation:
    """Makes changed copies of batches.

    Args:
        layers: A Keras layer or model, a list of layers, or a function of a batch:
            called with `training=True` where it takes that.
        copies: Number of copies of every row.
    """

    def __init__(self, layers, copies):
        if not isinstance(copies, Integral) or copies < 1:
            raise ValueError(
                f"`copies` must be a positive integer. Received: copies={copies!r}"
            )
        self.copies = int(copies)
        self._layers = list(layers) if isinstance(layers, (list, tuple)) else [layers]
        if not self._layers or not all(callable(layer) for layer in self._layers):
            raise TypeError(
                "`augmentation` must be a Keras layer, a list of layers, or a "
                f"function of a batch of inputs. Received: {layers!r}"
            )

    def __call__(self, arrays):
        """A changed copy of a batch, given as a list of one array."""
        if len(arrays) != 1:
            raise ValueError(
                "`augmentation` is for models with one input. Received: "
                f"{len(arrays)} arrays in x."
            )
        values = keras.ops.convert_to_tensor(arrays[0], dtype="float32")
        for layer in self._layers:
            if isinstance(layer, keras.layers.Layer):
                values = layer(values, training=True)
            else:
                values = layer(values)
        changed = as_array(values)
        if len(changed) != len(arrays[0]):
            raise ValueError(
                f"`augmentation` must keep the number of rows, {len(arrays[0])}. "
                f"Received: {len(changed)} after it."
            )
        return [changed]


def as_augmentation(layers, copies):
    """`Augmentation`, or `None` if there are no layers."""
    return None if layers is None else Augmentation(layers, copies)


def refuse_cached_copies(cache, augmentation):
    """Raises if both are given."""
    if cache is not None and augmentation is not None:
        raise ValueError(
            "`cache_dir` and `augmentation` do not go together: augmented copies "
            "differ each time. Leave one of them out."
        )
