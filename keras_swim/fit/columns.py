"""What each column of a tensor comes from: its unit, and the unit's rows.

Columns are followed backwards through layers that treat each one for itself
(activations, normalisations, sums of equal widths) or put them side by side.
"""

import keras
import numpy as np

from keras_swim.layers.feature_scaling import FeatureScaling

# Each output column depends on the same input column (and on common factors).
_COLUMNWISE = (
    keras.layers.Activation,
    keras.layers.ReLU,
    keras.layers.LeakyReLU,
    keras.layers.Dropout,
    keras.layers.GaussianDropout,
    keras.layers.GaussianNoise,
    keras.layers.BatchNormalization,
    keras.layers.LayerNormalization,
    keras.layers.Normalization,
    keras.layers.Rescaling,
    keras.layers.Identity,
    FeatureScaling,
)
_OVER_COLUMNS = keras.layers.LayerNormalization
_MERGES = (
    keras.layers.Add,
    keras.layers.Subtract,
    keras.layers.Multiply,
    keras.layers.Average,
    keras.layers.Maximum,
    keras.layers.Minimum,
)


def unit_rows(plan, key):
    """Row numbers behind each column of a tensor.

    Args:
        plan: `Plan` whose layers have been sampled.
        key: Key of the tensor.

    Returns:
        `(columns, p)` row numbers, -1 for none, or `None` where columns
        cannot be told apart.
    """

    def rows(step):
        layer = step.operation
        if layer.pairs is None:
            return np.full((layer.units, 1), -1)
        positions = plan.graph.tensors[step.outputs[0]].shape[1:-1]
        if None in positions:
            return None
        return layer.pairs // int(np.prod(positions or (1,)))

    return _followed(plan, key, rows)


def units_in(plan, key, layer):
    """Units of a sampled layer behind each column of a tensor.

    Returns:
        `(columns, p)` unit numbers, -1 for none, or `None` where columns cannot
        be told apart.
    """
    return _followed(plan, key, _numbers_of(layer))


def unit_numbers(plan, key, layer):
    """The last of a sampled layer's units that each column needs.

    Returns:
        `(columns,)` unit numbers, -1 for columns that do not depend on the
        layer, or `None` where a column depends on all units, or they cannot be
        told apart.
    """
    # Normalising over the columns of a row makes each depend on all others.
    alone = tuple(kind for kind in _COLUMNWISE if kind is not _OVER_COLUMNS)
    found = _followed(plan, key, _numbers_of(layer), alone)
    return None if found is None else found.max(axis=1)


def _numbers_of(layer):
    def numbers(step):
        if step.operation is layer:
            return np.arange(layer.units)[:, None]
        return np.full((step.operation.units, 1), -1)

    return numbers


def _followed(plan, key, of_sampled, columnwise=_COLUMNWISE):
    """`(columns, p)` integers behind the columns of a tensor, or `None`.

    Args:
        of_sampled: Function from the step of a sampled layer to the integers
            of its units.
        columnwise: Kinds of layers to follow columns through.
    """
    reached = _behind_sampled(plan)
    found: dict = {}

    def followed(key):
        # Once a tensor: in a chain of residual blocks paths grow exponentially.
        if key not in found:
            found[key] = look(key)
        return found[key]

    def look(key):
        if key not in reached:
            width = plan.graph.tensors[key].shape[-1]
            return np.full((width, 1), -1) if width else None
        step = plan.graph.producer(key)
        layer = step.operation
        if any(layer is sampled.operation for sampled in plan.sampled):
            return of_sampled(step)
        if isinstance(layer, columnwise) or (
            isinstance(layer, keras.layers.Flatten)
            and len(plan.graph.tensors[step.inputs[0]].shape) == 2
        ):
            return followed(step.inputs[0])
        if not isinstance(layer, (keras.layers.Concatenate, *_MERGES)):
            return None
        parts = [followed(source) for source in step.inputs]
        if any(part is None for part in parts):
            return None
        if isinstance(layer, keras.layers.Concatenate):
            rank = len(plan.graph.tensors[key].shape)
            return _stacked(parts) if layer.axis in (-1, rank - 1) else None
        widths = {len(part) for part in parts}
        return np.concatenate(parts, axis=1) if len(widths) == 1 else None

    return followed(key)


def _behind_sampled(plan):
    """Keys of the tensors that depend on a sampled layer."""
    sampled = [step.operation for step in plan.sampled]
    reached: set = set()
    for step in plan.graph.steps:
        is_sampled = any(step.operation is layer for layer in sampled)
        if is_sampled or reached.intersection(step.inputs):
            reached.update(step.outputs)
    return reached


def _stacked(parts):
    width = max(part.shape[1] for part in parts)
    return np.concatenate(
        [
            np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=-1)
            for part in parts
        ]
    )
