"""A fitted model again, with fewer units or more outputs.

Keras fixes shapes when a layer is built, so another width means another model.
Layers that the change does not touch (a frozen backbone) are shared with the
first model; those that are fitted, and all that come behind the changed layer,
are made anew.
"""

import keras
import numpy as np

from keras_swim.fit.columns import unit_numbers


def check_rebuildable(model):
    """Raises unless Keras can build the model again."""
    if isinstance(model, keras.Sequential) or getattr(model, "operations", None):
        return
    raise ValueError(
        "A subclassed model cannot be built again with another width or more "
        f"classes. Received: {type(model).__name__}. Use the Sequential or the "
        "functional API."
    )


def cut(model, plan, layer, kept):
    """A new model in which a sampled layer has only some of its units.

    Args:
        model: Model with a graph.
        plan: Its `Plan`.
        layer: `SampledDense` of the plan, with no sampled layer behind it.
        kept: Sorted numbers of the units to keep.

    Returns:
        The new model, and a dict from the layers of the old one that were made
        anew to those in their place. All weights are copied but those of the
        readouts.
    """
    kept = np.asarray(kept)
    new, made = _rebuilt(model, plan, layer, {"units": len(kept)})
    readouts = {readout.layer for readout in plan.readouts}
    for step in plan.graph.steps:
        old = step.operation
        if old not in made or old in readouts:
            continue
        columns = kept if old is layer else _columns(plan, step, layer, kept)
        copy_weights(old, made[old], columns)
    if layer.pairs is not None:
        made[layer]._pairs = layer.pairs[kept]
    return new, made


def with_outputs(model, plan, readout, more, names=None):
    """A new model whose readout has more units; its weights are not set.

    Args:
        model: Model with a graph.
        plan: Its `Plan`.
        readout: `ReadoutLayer` to change.
        more: Number of units to add.
        names: `None`, or names of the new classes.
    """
    config = {"units": readout.units + int(more)}
    known = getattr(readout.layer, "class_names", None)
    if known is not None:
        more_names = names or [f"class_{i}" for i in range(len(known), config["units"])]
        if set(known) & set(more_names) or len(set(more_names)) < len(more_names):
            raise ValueError(
                "`new_classes` must be names that the model does not have yet. "
                f"Received: {more_names}; it has {known}."
            )
        config["class_names"] = [*known, *more_names]
    elif names is not None:
        raise ValueError(
            "`new_classes` are names, but the model has no names for its classes. "
            f"Received: {names}. Pass their number."
        )
    new, made = _rebuilt(model, plan, readout.layer, config)
    for old, layer in made.items():
        if old is not readout.layer:
            copy_weights(old, layer)
    return new


def _columns(plan, step, layer, kept):
    """Columns of a step's input that stay, or `None` if all do."""
    if not step.inputs:
        return None
    numbers = unit_numbers(plan, step.inputs[0], layer)
    if numbers is None or not (numbers >= 0).any():
        return None
    return np.flatnonzero((numbers < 0) | np.isin(numbers, kept))


def _rebuilt(model, plan, changed, config):
    """The model with one layer changed, and the layers that are new."""
    anew = set(plan.fitted_layers) | _behind(plan, changed)
    made: dict = {}

    def clone(layer):
        if layer in made:
            return made[layer]
        if isinstance(layer, keras.Model) and any(
            part in anew for part in layer._flatten_layers(include_self=False)
        ):
            check_rebuildable(layer)
            return keras.models.clone_model(layer, clone_function=clone)
        if layer not in anew:
            return layer
        made[layer] = type(layer).from_config(
            {**layer.get_config(), **(config if layer is changed else {})}
        )
        return made[layer]

    check_rebuildable(model)
    new = keras.models.clone_model(model, clone_function=clone)
    return new, made


def _behind(plan, layer):
    """Layers that depend on a layer's outputs."""
    reached, layers = set(), set()
    for step in plan.graph.steps:
        if step.operation is layer or reached.intersection(step.inputs):
            reached.update(step.outputs)
            if isinstance(step.operation, keras.layers.Layer):
                layers.add(step.operation)
    return layers


def copy_weights(old, new, columns=None):
    """Gives a layer the weights of another, and the rows behind its units.

    Args:
        old, new: Layers of one kind.
        columns: What to take of axes that are shorter in the new one.
    """
    for source, target in zip(old.weights, new.weights, strict=True):
        value = keras.ops.convert_to_numpy(source.value)
        for axis, size in enumerate(target.shape):
            if value.shape[axis] != size:
                value = np.take(value, columns, axis=axis)
        target.assign(value)
    if hasattr(old, "pairs"):
        new._pairs = old.pairs
    if hasattr(new, "finalize_state"):
        new.finalize_state()
