"""A readout that knows the table that its model was fitted to."""

import keras

from keras_swim.layers.labeled_dense import LabeledDense


@keras.saving.register_keras_serializable(package="keras_swim")
class TableReadout(LabeledDense):
    """`LabeledDense` that also holds the names of the columns and of the target.

    A file with the model is then all it takes to read new rows.

    Args:
        units: Number of classes, or of real targets.
        columns: `None`, or a list of dicts, one a column: `name`, `input` (the name
            of the model's input) and `categories` (whether it holds text).
        target: `None`, or the name of the column that the model predicts.
        **kwargs: The other arguments of `LabeledDense`.

    Example:

    >>> age = {"name": "age", "input": "age", "categories": False}
    >>> layer = TableReadout(1, columns=[age], target="price")
    >>> TableReadout.from_config(layer.get_config()).target
    'price'
    """

    def __init__(self, units, columns=None, target=None, **kwargs):
        super().__init__(units, **kwargs)
        if columns is not None:
            columns = [
                {
                    "name": str(column["name"]),
                    "input": str(column["input"]),
                    "categories": bool(column["categories"]),
                }
                for column in columns
            ]
        self.columns = columns
        self.target = None if target is None else str(target)

    def get_config(self):
        own = {"columns": self.columns, "target": self.target}
        return {**super().get_config(), **own}


def table_readout(model):
    """The `TableReadout` of a model, or `None` if it has none.

    Example:

    >>> table_readout(keras.Sequential([keras.Input((3,)), TableReadout(2)])).units
    2
    """
    for layer in reversed(model.layers):
        if isinstance(layer, TableReadout):
            return layer
    return None
