"""A fitted model of a table as one Keras model, preprocessing included.

The numeric core keeps centred columns (`x - share`) and one matrix a view. In the
Keras model columns come in another order (all numbers, all that are missing, then
each category with one column for what it does not know), and are not centred: the
kernels' rows are put in that order, and the shares go into the biases.
"""

import re
from typing import NamedTuple

import keras
import numpy as np

from keras_swim.core.boost_units import ProductUnits
from keras_swim.core.table_columns import NumberColumn
from keras_swim.core.table_units import Columns, PairUnits
from keras_swim.layers.number_columns import NumberColumns
from keras_swim.layers.sampled_dense import SampledDense
from keras_swim.layers.sampled_products import SampledProducts
from keras_swim.layers.table_readout import TableReadout

# What a missing category is called in the model's input.
MISSING_TEXT = ""
# Names of the model's layers, which its inputs must not have.
_LAYERS = re.compile(
    r"hidden|predictions|(numbers_)?(standard|normal)|numbers|category_\d+|units_\d+_\d+"
)


class _Rows(NamedTuple):
    """Where the columns of a view are in the Keras model.

    Attributes:
        at: `(d,)` number of the column there.
        shares: `(d,)` what is subtracted from it in the core.
        width: Number of columns there.
    """

    at: np.ndarray
    shares: np.ndarray
    width: int

    def kernel(self, kernel):
        """The rows of a `(d, ...)` kernel in their new places."""
        placed = np.zeros((self.width, *kernel.shape[1:]))
        placed[self.at] = kernel
        return placed

    def bias(self, kernel, bias):
        """The bias for columns that are not centred."""
        return bias - np.tensordot(self.shares, kernel, (0, 0))


def table_model(
    model, kinds, *, named=True, class_names=None, target=None, name="swim_table"
):
    """Builds the Keras model.

    Args:
        model: `keras_swim.core.table_model.TableModel`.
        kinds: Dict from the name of each column to whether it has categories.
        named: Whether the model takes a dict of columns (see `input_names`);
            otherwise one `(n, d)` array of numbers.
        class_names: `None`, or a name for each class.
        target: `None`, or the name of what is predicted.
        name: Name of the model.

    Returns:
        A `keras.Model`. Its last layer, a `TableReadout`, names the columns.
    """
    texts = [column for column, categories in kinds.items() if categories]
    if texts and keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"Column {texts[0]!r} has text, which only models on TensorFlow take. Set "
            "KERAS_BACKEND=tensorflow, or encode the column before the fit."
        )
    if texts and not named:
        raise ValueError(
            "A model with text columns takes a dict of columns: fit it to a data frame."
        )
    names = input_names(kinds)
    inputs, numbers, categories = _inputs(kinds, names if named else None)
    views, rows = _views(model.columns, kinds, numbers, categories)
    features, kernels = [], []
    bias = np.array(model.target_mean, dtype=float)
    for number, member in enumerate(model.members):
        kernel = model.target_spread * member.kernel
        bias = bias + model.target_spread * member.bias
        start = 0
        for place, part in enumerate(member.parts):
            layer_name = f"units_{number + 1}_{place + 1}"
            tensor, count = _part(part, views, rows, layer_name)
            own = kernel[start : start + count]
            start += count
            if isinstance(part, Columns):
                own = part.factor * own
                bias = rows[part.view].bias(own, bias)
                own = rows[part.view].kernel(own)
            features.append(tensor)
            kernels.append(own)
    if not features:
        # Nothing was found to learn from: the bias is the answer to all rows.
        features = [views["standard"]]
        kernels = [np.zeros((rows["standard"].width, len(bias)))]
    hidden = features[0]
    if len(features) > 1:
        hidden = keras.layers.Concatenate(name="hidden")(features)
    columns = None
    if named:
        columns = [
            {"name": column, "input": names[column], "categories": text}
            for column, text in kinds.items()
        ]
    readout = TableReadout(
        len(bias),
        columns=columns,
        target=target,
        class_names=class_names,
        activation=None if model.classes is None else "softmax",
        name="predictions",
    )
    outputs = readout(hidden)
    readout.set_weights([np.concatenate(kernels), bias])
    return keras.Model(inputs, outputs, name=name)


def input_names(columns):
    """The names of a model's inputs, which are those of the columns where they can be.

    Keras allows no slash in a name, and no name twice, those of layers included: a
    slash becomes an underscore, and a name that is taken gets one at its end.

    Args:
        columns: Names of the columns.

    Returns:
        Dict from column to name.

    Example:

    >>> input_names(["age", "km/h", "km_h", "numbers"])
    {'age': 'age', 'km/h': 'km_h', 'km_h': 'km_h_', 'numbers': 'numbers_'}
    """
    names: dict = {}
    for column in columns:
        name = str(column).replace("/", "_") or "_"
        while name in names.values() or _LAYERS.fullmatch(name):
            name += "_"
        names[column] = name
    return names


def _inputs(kinds, names):
    """The model's inputs, the numbers as one tensor, categories by name."""
    if names is None:
        array = keras.Input((len(kinds),), dtype="float32", name="columns")
        return array, array, {}
    inputs, numbers, categories = {}, [], {}
    for column, text in kinds.items():
        # Keras wants the keys as names.
        name = names[column]
        tensor = keras.Input((1,), dtype="string" if text else "float32", name=name)
        inputs[name] = tensor
        if text:
            categories[column] = tensor
        else:
            numbers.append(tensor)
    joined = None
    if numbers:
        joined = numbers[0]
        if len(numbers) > 1:
            joined = keras.layers.Concatenate(name="numbers")(numbers)
    return inputs, joined, categories


def _views(columns, kinds, numbers, categories):
    """Tensor and `_Rows` of each view."""
    if columns is None:
        width = len(kinds)
        plain = _Rows(np.arange(width), np.zeros(width), width)
        views = dict.fromkeys(("standard", "normal"), numbers)
        return views, dict.fromkeys(views, plain)
    lookups = {
        column.name: keras.layers.StringLookup(
            vocabulary=[
                MISSING_TEXT if level is None else level for level in column.levels
            ],
            mask_token=None,
            oov_token=_unknown(column.levels),
            output_mode="multi_hot",
            name=f"category_{place}",
        )(categories[column.name])
        for place, column in enumerate(columns.columns)
        if not isinstance(column, NumberColumn)
    }
    place_of = {
        name: place
        for place, name in enumerate(name for name, text in kinds.items() if not text)
    }
    views, rows = {}, {}
    for view in ("standard", "normal"):
        parts = []
        if place_of:
            parts.append(_number_layer(columns, place_of, view)(numbers))
        parts += lookups.values()
        views[view] = parts[0]
        if len(parts) > 1:
            views[view] = keras.layers.Concatenate(name=view)(parts)
        rows[view] = _rows(columns, place_of)
    return views, rows


def _unknown(levels):
    """What Keras calls levels that it does not know: none of those that it does."""
    name = "[UNK]"
    while name in levels:
        name = f"[{name}]"
    return name


def _number_layer(columns, place_of, view):
    """`NumberColumns` for all columns of numbers, those that say nothing included."""
    d = len(place_of)
    fill, mean, spread = np.zeros(d), np.zeros(d), np.ones(d)
    quantiles = [(np.array([0.0, 1.0]), np.zeros(2))] * d
    for column in columns.columns:
        if isinstance(column, NumberColumn):
            at = place_of[column.name]
            fill[at], mean[at] = column.fill, column.mean
            spread[at] = column.spread
            if len(column.knots) > 1:
                quantiles[at] = column.knots, column.quantiles
    knots = max(len(one) for one, _ in quantiles)
    layer = NumberColumns(d, view=view, knots=knots, name=f"numbers_{view}")
    layer.assign_columns(fill, mean, spread, quantiles)
    return layer


def _rows(columns, place_of):
    at, shares = [], []
    d = len(place_of)
    width = 2 * d
    for column in columns.columns:
        if isinstance(column, NumberColumn):
            if column.varies:
                at.append(place_of[column.name])
                shares.append(0.0)
            if column.missing is not None:
                at.append(d + place_of[column.name])
                shares.append(column.missing)
        else:
            # The first column of a lookup is for what it does not know.
            at += list(width + 1 + np.arange(column.width))
            shares += list(column.shares)
            width += 1 + column.width
    return _Rows(np.array(at, dtype=int), np.array(shares), width)


def _part(part, views, rows, name):
    """Tensor of a part's features, and how many there are in the core."""
    if isinstance(part, Columns):
        return views[part.view], len(rows[part.view].at)
    own = rows[part.view]
    if isinstance(part, PairUnits):
        units = len(part.bias)
        layer = SampledDense(
            units,
            activation="tanh",
            scale=part.scale,
            subset_sizes=list(part.subset_sizes),
            name=name,
        )
        kernel = part.kernel.astype(float)
        layer.assign_units(own.kernel(kernel), own.bias(kernel, part.bias), part.pairs)
        return layer(views[part.view]), units
    assert isinstance(part, ProductUnits)
    units, terms = part.columns.shape
    kernel = np.zeros((len(own.at), units, terms))
    unit, term = np.indices((units, terms))
    kernel[part.columns, unit, term] = part.slopes
    layer = SampledProducts(units, terms, name=name)
    layer.assign_units(own.kernel(kernel), own.bias(kernel, part.offsets), part.pairs)
    return layer(views[part.view]), units
