"""From what the user passes to rows that a fit can work on."""

import keras

from keras_swim.fit.cache import fingerprint
from keras_swim.fit.dataset import (
    check_inputs,
    output_weights,
    prepare_targets,
    read,
    split,
    weighted_by_class,
)
from keras_swim.fit.hidden import early_statistics
from keras_swim.fit.load import load
from keras_swim.fit.segment import Segment


def open_data(model, x, y, sample_weight, validation_data, validation_split):
    """`Reader`s of the training and of the validation data (or `None`)."""
    reader = read(x, y, sample_weight, model)
    if validation_split:
        return split(reader, validation_split)
    if validation_data is None:
        return reader, None
    return reader, open_validation(model, validation_data)


def open_validation(model, validation_data):
    """`Reader` of `(x, y)`, `(x, y, sample_weight)` or a data set."""
    if isinstance(validation_data, (tuple, list)):
        parts = keras.utils.unpack_x_y_sample_weight(tuple(validation_data))
        return read(*parts, model)
    return read(validation_data, None, None, model)


def check_first(plan, reader, validation, class_weight):
    """Raises for data that cannot be fitted to, before anything runs."""
    check_batches(plan, reader, validation, class_weight)
    if reader.in_memory:
        check_rows(reader.first.rows)


def check_batches(plan, reader, validation, class_weight=None):
    """Raises for data that does not fit the model, by the first batches."""
    for part in (reader, validation):
        if part is not None:
            check_inputs(plan.graph, part.first)
            y = prepare_targets(plan.readouts, part.first)
            weights = output_weights(part.first, plan.readouts)
            if class_weight is not None:
                weighted_by_class(plan.readouts, y, weights, class_weight)


def load_rows(
    plan, reader, options, class_weight, progress, cache=None, augmentation=None
):
    """Reads the data as a `Dataset`, running frozen layers once per row.

    Args:
        cache: `None`, or the `Cache` to keep features in.
        augmentation: `None`, or `Augmentation`.
    """
    total = reader.source.rows
    title = "running frozen layers" if plan.prefix else "reading the data"
    with progress.stage("features", title, total):
        if plan.early:
            early_statistics(plan, reader, options)
        data = load(
            reader,
            plan,
            prefix_segment(plan),
            options.prefix_rows,
            class_weight,
            progress.advance,
            cached=_cached(plan, cache, "train"),
            augmentation=augmentation,
        )
    check_rows(data.count)
    return data


def load_validation(plan, reader, options, progress, cache=None):
    """Reads validation data that a choice is made by, likewise."""
    title = "reading the validation data"
    with progress.stage("features", title, reader.source.rows):
        return load(
            reader,
            plan,
            prefix_segment(plan),
            options.prefix_rows,
            None,
            progress.advance,
            training=False,
            cached=_cached(plan, cache, "validation"),
        )


def _cached(plan, cache, part):
    if cache is None:
        return None
    return cache.rows(part, fingerprint(step.operation for step in plan.prefix))


def prefix_segment(plan):
    """The frozen layers before the first that is fitted; `None` if none."""
    if not plan.prefix:
        return None
    return Segment(plan.prefix, plan.graph.inputs, plan.cut)


def check_rows(count):
    if count < 2:
        raise ValueError(
            f"`swim_fit` needs two or more rows. Received: {count}. Pass more rows."
        )
