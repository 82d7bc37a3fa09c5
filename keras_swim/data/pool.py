"""A bounded, uniform sample of rows, from arrays and from streams alike.

Every row gets a random priority, in the order in which rows come; the rows of
lowest priority are the pool. So the same seed gives the same pool for any batch
size, for a stream and for the array of the same rows.
"""

import numpy as np

from keras_swim.data.sources import ArraySource, Batch


def pool_size(units):
    """Rows to draw pairs from: enough for `units` pairs, never all of a stream."""
    return max(4 * units, 10_000)


def pool_indices(rows, size, rng, weight=None):
    """Sorted numbers of `size` of `rows` rows, or of all that have weight."""
    priority = _priorities(rows, rng, weight)
    usable = np.flatnonzero(np.isfinite(priority))
    if len(usable) <= size:
        return usable
    return np.sort(np.argpartition(priority, size - 1)[:size])


def draw_pool(source, size, rng):
    """Returns the row numbers of the pool and its rows as a `Batch`."""
    if isinstance(source, ArraySource):
        weight = source.data.weight[0] if source.data.weight else None
        index = pool_indices(source.rows, size, rng, weight)
        return index, _take(source.data, index)
    kept = _Lowest(size)
    seen = 0
    for batch in source.batches():
        weight = batch.weight[0] if batch.weight else None
        priority = _priorities(batch.rows, rng, weight)
        kept.add(np.arange(seen, seen + batch.rows), priority, batch)
        seen += batch.rows
    return kept.result()


def _priorities(rows, rng, weight):
    priority = rng.random(rows)
    if weight is not None:
        # Rows that count for nothing take no place.
        priority[weight == 0] = np.inf
    return priority


class _Lowest:
    """The `size` rows of lowest priority so far, and some more."""

    def __init__(self, size):
        self.size = size
        self.limit = np.inf
        self.parts = []
        self.count = 0

    def add(self, numbers, priority, batch):
        hopeful = np.flatnonzero(priority < self.limit)
        self.parts.append((numbers[hopeful], priority[hopeful], _take(batch, hopeful)))
        self.count += len(hopeful)
        # Seldom enough that the copying stays cheaper than the reading.
        if self.count > 2 * self.size:
            self._thin_out()

    def _thin_out(self):
        numbers = np.concatenate([part[0] for part in self.parts])
        priority = np.concatenate([part[1] for part in self.parts])
        rows = _joined([part[2] for part in self.parts])
        if len(numbers) > self.size:
            index = np.sort(np.argpartition(priority, self.size - 1)[: self.size])
            numbers, priority = numbers[index], priority[index]
            rows = _take(rows, index)
            self.limit = priority.max()
        self.parts = [(numbers, priority, rows)]
        self.count = len(numbers)

    def result(self):
        self._thin_out()
        numbers, _, rows = self.parts[0]
        return numbers, rows


def _take(batch, index):
    return Batch(*([array[index] for array in arrays] for arrays in batch))


def _joined(batches):
    return Batch(
        *(
            [np.concatenate(same) for same in zip(*arrays, strict=True)]
            for arrays in zip(*batches, strict=True)
        )
    )
