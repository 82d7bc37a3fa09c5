"""A readout that knows the names of its classes."""

import keras


@keras.saving.register_keras_serializable(package="keras_swim")
class LabeledDense(keras.layers.Dense):
    """`keras.layers.Dense` with a name for each unit.

    A file that holds the model then holds the names too.

    Args:
        units: Number of classes.
        class_names: `None`, or list of `units` strings.
        **kwargs: The other arguments of `keras.layers.Dense`.

    Example:

    >>> layer = LabeledDense(2, class_names=["cat", "dog"], activation="softmax")
    >>> layer.get_config()["class_names"]
    ['cat', 'dog']
    """

    def __init__(self, units, class_names=None, **kwargs):
        super().__init__(units, **kwargs)
        if class_names is not None:
            class_names = [str(name) for name in class_names]
            if len(class_names) != units or len(set(class_names)) != units:
                raise ValueError(
                    f"`class_names` must be {units} different names, one a class. "
                    f"Received: {class_names}"
                )
        self.class_names = class_names

    def get_config(self):
        return {**super().get_config(), "class_names": self.class_names}


def class_names(model):
    """The names of a model's classes, or `None` if it has none.

    Example:

    >>> layer = LabeledDense(2, class_names=["cat", "dog"])
    >>> class_names(keras.Sequential([keras.Input((3,)), layer]))
    ['cat', 'dog']
    """
    for layer in reversed(model.layers):
        if isinstance(layer, LabeledDense) and layer.class_names is not None:
            return list(layer.class_names)
    return None
