"""Reading the data once: rows behind the prefix, targets and weights."""

import numpy as np

from keras_swim.fit.cache import CachedRows, check_probe, row_digests
from keras_swim.fit.dataset import (
    Dataset,
    check_inputs,
    feed,
    joined,
    output_weights,
    prepare_targets,
    weighted_by_class,
)
from keras_swim.fit.rows import ArrayRows, SpooledRows


def load(
    reader,
    plan,
    segment,
    batch_size,
    class_weight,
    advance,
    training=True,
    cached=None,
    augmentation=None,
):
    """Reads all data, running the prefix once per row.

    Args:
        reader: `Reader`.
        plan: `Plan`.
        segment: `Segment` of the prefix, or `None` if there is none.
        batch_size: Rows per call of the prefix.
        class_weight: See `swim_fit`.
        advance: Called with the number of rows that were read.
        training: Whether the rows must be enough to train on: two classes.
        cached: `None`, or `CachedRows` to read from and to add to.
        augmentation: `None`, or `Augmentation`: adds copies of every row.
    """
    readouts = plan.readouts
    origin = None
    if reader.in_memory and segment is None and augmentation is None:
        data = reader.source.data
        check_inputs(plan.graph, data)
        index = [plan.graph.inputs.index(key) for key in plan.cut]
        rows = ArrayRows([data.x[number] for number in index])
        y, raw_y = prepare_targets(readouts, data), data.y
        weights = output_weights(data, readouts)
        advance(data.rows)
    else:
        rows = SpooledRows() if cached is None else cached
        made = _features(reader, plan, segment, batch_size, rows, augmentation)
        parts, origins = [], []
        try:
            for start, number, batch in made:
                prepared = prepare_targets(readouts, batch, start)
                parts.append((prepared, batch.y, output_weights(batch, readouts)))
                origins.append(np.arange(start, start + batch.rows))
                advance(0 if number else batch.rows)
        except BaseException:
            # A cache writes what it has: the next fit goes on from there.
            rows.close()
            raise
        if augmentation is not None:
            origin = np.concatenate(origins)
        y, raw_y, weights = (joined(column) for column in zip(*parts, strict=True))
    try:
        if training:
            for readout, targets in zip(readouts, y, strict=True):
                readout.check_whole(targets)
        if class_weight is not None:
            weights = weighted_by_class(readouts, y, weights, class_weight)
        if any(weight is not None and not weight.any() for weight in weights):
            raise ValueError(
                "Expected rows of positive weight. Received: all weights are 0."
            )
    except BaseException:
        rows.close()
        raise
    return Dataset(rows, y, raw_y, weights, origin)


def _features(reader, plan, segment, batch_size, rows, augmentation):
    """Reads all batches and adds what the prefix makes of them to `rows`.

    Yields:
        For each batch that has been added: the number of its first row, the
        number of the copy (0 for the batch itself), and the batch.
    """
    index = [plan.graph.inputs.index(key) for key in plan.cut if segment is None]

    def make(arrays):
        if segment is None:
            return [arrays[number] for number in index]
        return segment.arrays(feed(plan.graph, plan.graph.inputs, arrays))

    cached = isinstance(rows, CachedRows)
    known = rows.count
    seen = 0
    for batch in reader.batches(batch_size):
        check_inputs(plan.graph, batch)
        if not cached:
            rows.append(make(batch.x))
        else:
            if known and not seen:
                check_probe(rows, make, batch.x)
            digests = row_digests(batch.x)
            rows.check(seen, digests)
            skip = max(0, known - seen)
            if skip < batch.rows:
                rows.append(make([array[skip:] for array in batch.x]), digests[skip:])
        yield seen, 0, batch
        if augmentation is not None:
            for copy in range(augmentation.copies):
                rows.append(make(augmentation(batch.x)))
                yield seen, copy + 1, batch
        seen += batch.rows
    if cached:
        rows.flush()
        if seen < known:
            raise ValueError(
                f"The cache holds features of {known} rows. Received: {seen} rows. It "
                "was made from other data: delete its folder, or name another "
                "`cache_dir`."
            )
