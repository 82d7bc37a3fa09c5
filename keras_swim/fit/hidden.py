"""Sampling the hidden layers, one after the other, on a pool of rows.

Pairs need the features of a bounded number of rows only. These go through the
model up to the first layer that is to be fitted; it is fitted, they go through
it, and so on.
"""

import math
from dataclasses import replace

from keras_swim.core.targets import side_by_side
from keras_swim.data.pool import pool_indices, pool_size
from keras_swim.fit.dataset import forward, ranked
from keras_swim.fit.options import POOL_STREAM
from keras_swim.fit.rows import ArrayRows
from keras_swim.fit.segment import Segment, block_count
from keras_swim.fit.statistics import set_statistics

# Features of all rows that are kept, if they take no more.
_KEPT_BYTES = 512 << 20


def sample_hidden(plan, data, options, progress, carry=False):
    """Samples every hidden layer of the plan and fills in statistics.

    Args:
        carry: Whether later passes may go on from where the pool has come to.

    Returns:
        A `Plan` and a `Dataset` for later passes: the given ones, or with `carry`,
        and if the pool has all rows, those that begin at the last layer that was
        fitted (behind it, if this takes little memory).
    """
    to_do = [
        step for step in plan.trunk if step in plan.sampled or step in plan.statistics
    ]
    title = "sampling layers from pairs" if to_do else "no layers to sample"
    with progress.stage("sampling", title, len(to_do), "layer"):
        if not to_do:
            return plan, data
        units = [step.operation.units for step in plan.sampled]
        index = pool_indices(
            data.count,
            pool_size(max(units, default=0)),
            options.generator(POOL_STREAM),
            data.pool_weight(slice(None)),
        )
        weight = data.pool_weight(index)
        values = {
            key: ranked(array, plan.graph.tensors[key])
            for key, array in zip(plan.cut, data.rows.take(index), strict=True)
        }
        pending = []
        depth = 0
        for number, step in enumerate(plan.trunk):
            if step in to_do:
                _advance_pool(plan, pending, plan.trunk[number:], values, options)
                pending = []
                (key,) = step.inputs
                if step in plan.statistics:
                    set_statistics(step.operation, values[key], weight)
                else:
                    _sample_layer(
                        plan, data, step, values[key], weight, index, depth, options
                    )
                    depth += 1
                progress.advance(1)
            pending.append(step)
        if not carry or len(index) < data.count:
            return plan, data
        if not options.on_device and _feature_bytes(plan, data) <= _KEPT_BYTES:
            _advance_pool(plan, pending, [], values, options)
            pending = []
    done = [step for step in plan.trunk if step not in pending]
    further = replace(plan, prefix=plan.prefix + done, trunk=pending, cut=list(values))
    return further, replace(data, rows=ArrayRows(list(values.values())))


def early_statistics(plan, reader, options):
    """Statistics of Normalization layers that a backbone comes after."""
    if not reader.in_memory:
        names = [step.path for step in plan.early]
        raise ValueError(
            f"The layer(s) {names} need statistics before the frozen layers "
            "behind them can run, and the data is a stream. Call "
            "`layer.adapt(data)` on them first."
        )
    index = pool_indices(
        reader.source.rows, pool_size(0), options.generator(POOL_STREAM)
    )
    arrays = [array[index] for array in reader.source.data.x]
    for step in plan.early:
        segment = Segment(plan.graph.steps, plan.graph.inputs, step.inputs)
        keys = plan.graph.inputs
        (values,) = forward(segment, plan.graph, keys, arrays, options.block_rows)
        set_statistics(step.operation, values)


def _advance_pool(plan, pending, later, values, options):
    """Brings the pool's values up to date; forgets what is not needed."""
    wanted = {key for step in later for key in step.inputs}
    wanted.update(readout.features for readout in plan.readouts)
    made = [key for step in pending for key in step.outputs if key in wanted]
    if made:
        sources = list(values)
        arrays = [values[key] for key in sources]
        blocks = block_count(len(arrays[0]), options.block_rows)
        segment = Segment(pending, sources, made, blocks)
        found = forward(segment, plan.graph, sources, arrays, options.block_rows)
        values.update(zip(made, found, strict=True))
    for key in list(values):
        if key not in wanted:
            del values[key]


def _feature_bytes(plan, data):
    """What the features of all rows take; infinite where shapes are not known."""
    total = 0.0
    for key in {readout.features for readout in plan.readouts}:
        tensor = plan.graph.tensors[key]
        if None in tensor.shape[1:]:
            return math.inf
        # Half precision becomes float32 on the host.
        size = 8 if tensor.dtype == "float64" else 4
        total += math.prod(tensor.shape[1:]) * size
    return total * data.count


def _sample_layer(plan, data, step, values, weight, index, depth, options):
    layer = step.operation
    codes = [
        readout.codes(data.y[plan.readouts.index(readout)][index], values.shape[1:-1])
        for readout in plan.readouts_after(step)
    ]
    if len({len(part) for part in codes}) > 1:
        # Some targets have positions and some have not: compare whole rows.
        codes = [part.reshape(len(index), -1).astype(float) for part in codes]
    try:
        layer.sample(
            values,
            side_by_side(codes),
            weight,
            rng=layer.generator(depth, options.seed),
            numbers=data.origins[index],
            depth=depth,
        )
    except ValueError as error:
        raise ValueError(f"Cannot sample the layer {step.path!r}: {error}") from error
