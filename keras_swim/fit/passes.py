"""A pass over all rows: the features of a readout, block by block."""

import numpy as np

from keras_swim.fit.dataset import feed
from keras_swim.fit.segment import Segment, block_count


def feature_blocks(plan, data, number, options):
    """Yields what a readout sees, a block of rows at a time.

    Args:
        plan: `Plan`.
        data: `Dataset`.
        number: Number of the readout.
        options: `Options`.

    Yields:
        The slice of row numbers, features `(m, k)`, targets `(m, c)` and
        weights `(m,)`, where m counts rows, or rows times positions.
    """
    readout = plan.readouts[number]
    blocks = block_count(data.count, options.block_rows)
    segment = Segment(plan.trunk, plan.cut, [readout.features], blocks)
    for part, arrays in data.rows.blocks(options.block_rows):
        (features,) = segment.arrays(feed(plan.graph, plan.cut, arrays))
        targets, weight = block_targets(readout, data, number, part)
        yield part, features.reshape(-1, features.shape[-1]), targets, weight


def feature_rows(plan, data, number, options):
    """The same without the slices, as solvers take them."""
    for _, features, targets, weight in feature_blocks(plan, data, number, options):
        yield features, targets, weight


def block_targets(readout, data, number, part):
    """Targets and weights of a block, one for each position."""
    targets = readout.targets(data.y[number][part])
    weight = data.weights[number]
    if weight is None:
        return targets, np.ones(len(targets))
    weight = weight[part]
    return targets, np.repeat(weight, len(targets) // len(weight))
