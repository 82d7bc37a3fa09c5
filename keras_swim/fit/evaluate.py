"""Metrics of the whole model after a fit."""

import numpy as np

from keras_swim.data.pool import pool_indices
from keras_swim.fit.dataset import (
    check_inputs,
    feed,
    forward,
    joined,
    output_weights,
    prepare_targets,
)
from keras_swim.fit.metrics import compiled_metrics, output_metrics
from keras_swim.fit.options import FOLD_STREAM
from keras_swim.fit.segment import Segment

# Rows that training metrics are computed on when no rows were held out.
_METRIC_ROWS = 2048


def training_metrics(model, plan, data, folds, outputs, options):
    """Logs of some training rows: those held out for choosing, if any.

    Args:
        outputs: The readouts' outputs on the rows of `folds`.
    """
    if folds:
        index = np.concatenate(folds)
        outputs = [
            output.reshape(len(index), *y.shape[1 : y.ndim - (y.dtype.kind == "f")], -1)
            for output, y in zip(outputs, data.y, strict=True)
        ]
    else:
        index = pool_indices(data.count, _METRIC_ROWS, options.generator(FOLD_STREAM))
        outputs = _outputs(plan, data.rows.take(index), options)
    return _metrics(
        model,
        plan,
        outputs,
        [y[index] for y in data.y],
        [y[index] for y in data.raw_y],
        [None if weight is None else weight[index] for weight in data.weights],
    )


def validation_metrics(model, plan, reader, options, advance):
    """Logs of validation data, which goes through the whole model."""
    segment = Segment(plan.graph.steps, plan.graph.inputs, plan.graph.outputs)
    rows = options.prefix_rows if plan.prefix else options.block_rows
    parts = []
    seen = 0
    for batch in reader.batches(rows):
        check_inputs(plan.graph, batch)
        outputs = segment.arrays(feed(plan.graph, plan.graph.inputs, batch.x))
        y = prepare_targets(plan.readouts, batch, seen)
        weights = output_weights(batch, plan.readouts)
        parts.append((outputs, y, batch.y, weights))
        seen += batch.rows
        advance(batch.rows)
    return _metrics(model, plan, *(joined(part) for part in zip(*parts, strict=True)))


def _outputs(plan, arrays, options):
    rest = [step for step in plan.graph.steps if step not in plan.prefix]
    segment = Segment(rest, plan.cut, plan.graph.outputs)
    return forward(segment, plan.graph, plan.cut, arrays, options.block_rows)


def _metrics(model, plan, outputs, y, raw_y, weights):
    if model.compiled:
        return compiled_metrics(model, outputs, raw_y, weights)
    logs = {}
    losses = []
    for i, readout in enumerate(plan.readouts):
        targets = readout.targets(y[i])
        weight = weights[i]
        if weight is not None:
            weight = np.repeat(weight, len(targets) // len(weight))
        found = output_metrics(
            readout, outputs[i].reshape(len(targets), -1), targets, weight
        )
        losses.append(found["loss"])
        prefix = plan.log_prefix(readout)
        logs.update({f"{prefix}{name}": value for name, value in found.items()})
    logs["loss"] = float(np.sum(losses))
    return logs
