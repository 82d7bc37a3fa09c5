"""SwimBoost: residual blocks of sampled units, for rows of numbers."""

from numbers import Integral

import keras

from keras_swim.build.mlp import check_outputs
from keras_swim.layers.boost_readout import BoostReadout
from keras_swim.layers.number_columns import NumberColumns
from keras_swim.layers.sampled_dense import SampledDense
from keras_swim.layers.sampled_products import SampledProducts


def SwimBoost(
    num_outputs,
    input_shape,
    blocks=8,
    rounds=15,
    bags=4,
    *,
    pair_units=16,
    product_units=16,
    output_activation="softmax",
    name="swim_boost",
):
    """Builds a network of residual blocks that `swim_fit` fits by boosting.

    Each block has sampled units of two kinds, `SampledDense` between two rows and
    products of conditions on single columns, and a linear readout; blocks are added
    up, bags of them averaged. `swim_fit` fits round after round in closed form:
    gradient boosting of the log loss or of the squared error. It stops when rows that
    were held out (or the validation data) get no better; what is left of the blocks
    stays zero.

    Args:
        num_outputs: Number of classes, of yes/no labels, or of real outputs.
        input_shape: Number of columns.
        blocks: Blocks of each bag.
        rounds: Rounds of boosting in each block.
        bags: Number of bags, each fitted to its own share of the rows.
        pair_units, product_units: Units of each kind in each round.
        output_activation: `"softmax"` (classes), `"sigmoid"` (yes/no labels), or
            `None` (real outputs).
        name: Name of the model.

    Returns:
        A functional `keras.Model` for complete rows of numbers. Tables with
        categories and missing values are for `SwimClassifier` and `SwimRegressor`.

    Example:

    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(400, 4))
    >>> y = ((x[:, 0] > 0) & (x[:, 1] > 0)).astype(int)
    >>> model = SwimBoost(2, input_shape=4, blocks=2, bags=2)
    >>> history = swim_fit(model, x, y, seed=0, verbose=0)
    >>> history.history["cv_accuracy"][0] > 0.95
    True
    """
    check_outputs(num_outputs, output_activation)
    columns = input_shape[0] if isinstance(input_shape, (tuple, list)) else input_shape
    counts = {
        "input_shape": columns,
        "blocks": blocks,
        "rounds": rounds,
        "bags": bags,
        "pair_units": pair_units,
    }
    for argument, value in counts.items():
        _check_count(argument, value, 1)
    _check_count("product_units", product_units, 0)
    inputs = keras.Input((int(columns),), name="inputs")
    x = NumberColumns(int(columns), name="columns")(inputs)
    averaged = []
    for bag in range(1, bags + 1):
        parts = [
            _block(x, bag, block, num_outputs, rounds, pair_units, product_units)
            for block in range(1, blocks + 1)
        ]
        total = parts[0]
        if len(parts) > 1:
            total = keras.layers.Add(name=f"bag_{bag}")(parts)
        averaged.append(total)
    scores = averaged[0]
    if len(averaged) > 1:
        scores = keras.layers.Average(name="scores")(averaged)
    outputs = keras.layers.Activation(
        output_activation or "linear", name="predictions"
    )(scores)
    return keras.Model(inputs, outputs, name=name)


def _block(x, bag, block, num_outputs, rounds, pair_units, product_units):
    name = f"bag_{bag}_block_{block}"
    hidden = SampledDense(rounds * pair_units, name=f"{name}_pairs")(x)
    if product_units:
        products = SampledProducts(rounds * product_units, name=f"{name}_products")(x)
        hidden = keras.layers.Concatenate(name=f"{name}_units")([hidden, products])
    readout = BoostReadout(
        int(num_outputs), bag=bag, block=block, rounds=rounds, name=name
    )
    return readout(hidden)


def _check_count(name, value, least):
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(
            f"`{name}` must be an integer, {least} or more. Received: {name}={value!r}"
        )
