"""What a saved model says about images."""

import numpy as np

from keras_swim.apps.image_rows import ImageRows, check_equal_sizes, input_kind
from keras_swim.layers.labeled_dense import class_names


def names_of(model):
    """The names of a model's outputs, numbers if it has none."""
    return class_names(model) or [str(i) for i in range(model.output.shape[-1])]


def predict_images(model, paths, batch_size=32, verbose=1):
    """`(n, classes)` outputs for image files."""
    kind = input_kind(model)
    check_equal_sizes(paths, kind)
    rows = ImageRows(paths, None, kind, batch_size)
    return np.asarray(model.predict(rows, verbose=verbose))
