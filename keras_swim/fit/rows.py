"""The training rows, as often as they are needed, in bounded memory.

Whatever the data is, the fit wants to take rows by number (the pool that pairs
are drawn from) and to go through all of them more than once. Arrays can do that
already. Of a stream, or behind an expensive backbone, rows are kept as they
come: in memory up to a limit, then in a temporary file.
"""

import bisect
import tempfile

import numpy as np

MEMORY_LIMIT = 128 << 20


class ArrayRows:
    """Rows that are in memory anyway.

    Args:
        arrays: List of arrays with the same number of rows.
    """

    def __init__(self, arrays):
        self.arrays = arrays
        self.count = len(arrays[0])

    def take(self, index):
        return [array[index] for array in self.arrays]

    def blocks(self, size, start=0):
        for at in range(start, self.count, size):
            part = slice(at, min(at + size, self.count))
            yield part, [array[part] for array in self.arrays]

    def close(self):
        pass


class Batches:
    """Rows in batches that are loaded when they are needed.

    Subclasses say how: `_load(number)` gives the arrays of a batch.
    """

    def __init__(self):
        self.count = 0
        self._starts = []

    def _add_rows(self, rows):
        """Notes that a batch of so many rows was added."""
        self._starts.append(self.count)
        self.count += rows

    def take(self, index):
        """Rows by number; `index` must be sorted."""
        parts = []
        for number, start in enumerate(self._starts):
            low, high = np.searchsorted(index, (start, self._stop(number)))
            if low < high:
                inside = index[low:high] - start
                parts.append([array[inside] for array in self._load(number)])
        return _joined(parts)

    def blocks(self, size, start=0):
        """Yields slices of row numbers with the arrays of these rows.

        Args:
            size: Number of rows of each block but the last.
            start: Number of the first row.
        """
        held, loaded = -1, None
        for at in range(start, self.count, size):
            stop = min(at + size, self.count)
            first = bisect.bisect_right(self._starts, at) - 1
            parts = []
            for number in range(first, len(self._starts)):
                begin = self._starts[number]
                if begin >= stop:
                    break
                if number != held:
                    # A batch may serve several blocks: read once.
                    held, loaded = number, self._load(number)
                part = slice(max(at - begin, 0), stop - begin)
                parts.append([array[part] for array in loaded])
            yield slice(at, stop), _joined(parts)

    def close(self):
        pass

    def _stop(self, number):
        later = number + 1
        return self._starts[later] if later < len(self._starts) else self.count

    def _load(self, number):
        raise NotImplementedError


class SpooledRows(Batches):
    """Rows kept as they come, as long as the fit lasts.

    Args:
        memory_limit: Bytes to hold in memory before a file is used.
    """

    def __init__(self, memory_limit=MEMORY_LIMIT):
        super().__init__()
        self._limit = memory_limit
        self._bytes = 0
        self._batches = []
        self._file = None

    def append(self, arrays):
        """Adds a batch: a list of arrays with the same number of rows."""
        self._add_rows(len(arrays[0]))
        size = sum(array.nbytes for array in arrays)
        if self._file is None and self._bytes + size <= self._limit:
            self._bytes += size
            self._batches.append([np.array(array) for array in arrays])
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="keras_swim_")
        self._batches.append([_Stored(self._file, array) for array in arrays])

    def close(self):
        """Frees the memory and removes the file."""
        self._batches = []
        if self._file is not None:
            self._file.close()

    def _load(self, number):
        return [
            array.load() if isinstance(array, _Stored) else array
            for array in self._batches[number]
        ]


class _Stored:
    """An array at the end of a file."""

    def __init__(self, file, array):
        self.file, self.shape, self.dtype = file, array.shape, array.dtype
        file.seek(0, 2)
        self.offset = file.tell()
        file.write(np.ascontiguousarray(array).data.cast("B") if array.size else b"")

    def load(self):
        self.file.seek(self.offset)
        count = int(np.prod(self.shape))
        flat = np.frombuffer(
            self.file.read(count * self.dtype.itemsize), dtype=self.dtype
        )
        return flat.reshape(self.shape)


def _joined(parts):
    if len(parts) == 1:
        return parts[0]
    return [np.concatenate(same) for same in zip(*parts, strict=True)]
