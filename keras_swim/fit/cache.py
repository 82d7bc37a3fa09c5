"""Features on disk, under a name that the user gives.

A folder holds what came out of the frozen layers, in files of some thousand
rows. A fit that was interrupted finds there what is done already, and another
fit on the same data need not run the frozen layers at all.

Nothing is believed without a check. The folder knows the frozen layers' weights
and what they gave for the first rows; every row has a digest of its inputs. A
folder that belongs to other layers or other data is refused.
"""

import hashlib
import json
import os
import time
from pathlib import Path

import keras
import numpy as np

from keras_swim.core.state_file import read_arrays, write_arrays
from keras_swim.fit.rows import Batches

FORMAT, VERSION = "keras-swim feature cache", 1
ROWS_FORMAT = "keras-swim feature rows"

# A file is written when so many bytes or seconds have come together: an
# interruption costs no more than that.
_FILE_BYTES = 32 << 20
_FILE_SECONDS = 20.0
# What a configuration says about names and connections.
_NAMES_OF_LAYERS = (
    "name",
    "registered_name",
    "inbound_nodes",
    "input_layers",
    "output_layers",
    "trainable",
)
# Rows that the frozen layers run again on to see that they are the same.
_PROBE_ROWS = 4


class Cache:
    """A folder for the features of one data set behind one set of layers.

    Args:
        folder: Path. Made if it does not exist.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self._notes = self.folder / "cache.json"
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"`cache_dir` must be a folder. Received: {folder}")
        self.notes = {"format": FORMAT, "version": VERSION}
        if self._notes.exists():
            self.notes = self._read()
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise ValueError(
                f"`cache_dir` {folder} has files in it and is no feature cache. "
                "Name an empty or a new folder."
            )

    def _read(self):
        try:
            notes = json.loads(self._notes.read_text())
            if notes["format"] != FORMAT:
                raise KeyError("format")
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(
                f"{self._notes} is no feature cache, or it is damaged. Delete its "
                "folder, or name another `cache_dir`."
            ) from error
        if notes["version"] > VERSION:
            raise ValueError(
                f"{self._notes} has format version {notes['version']}; this "
                f"keras-swim reads up to {VERSION}. Install a newer keras-swim."
            )
        return notes

    def note(self, name, value):
        """Adds to what the folder knows of itself."""
        self.notes[name] = value
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / f".cache.json.{os.getpid()}.tmp"
        temporary.write_text(json.dumps(self.notes, indent=1))
        os.replace(temporary, self._notes)

    def seed(self):
        """A seed that stays the same whenever the folder is used."""
        if "seed" not in self.notes:
            self.note("seed", int(np.random.default_rng().integers(1 << 31)))
        return self.notes["seed"]

    def rows(self, part, layers):
        """The `CachedRows` of a part of the data: "train" or "validation".

        Args:
            part: Its name.
            layers: `fingerprint` of the frozen layers.
        """
        if self.notes.setdefault("layers", layers) != layers:
            raise ValueError(
                f"The features in {self.folder} come from other frozen layers: "
                "their kinds or weights differ from those of this model. Delete the "
                "folder, or name another `cache_dir`."
            )
        self.note("layers", layers)
        return CachedRows(self.folder / part)

    @property
    def sums(self):
        """Where a fit keeps its sums while it goes on."""
        return self.folder / "sums.npz"


class CachedRows(Batches):
    """Rows in the files of a folder, in their order.

    Attributes:
        digests: `(count,)`, one of each row.
    """

    def __init__(self, folder):
        super().__init__()
        self._folder = folder
        self._paths = []
        self._pending, self._pending_bytes = [], 0
        self._since = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        digests = [np.zeros(0, np.uint64)]
        for path in sorted(folder.glob("rows-*.npz")):
            arrays = read_arrays(path, ROWS_FORMAT, ("start", "digests"))
            if int(arrays["start"]) != self.count:
                raise ValueError(
                    f"{path} does not begin at row {self.count}: files of the cache "
                    "are missing. Delete the folder, or name another `cache_dir`."
                )
            digests.append(arrays["digests"])
            self._paths.append(path)
            self._add_rows(len(arrays["digests"]))
        self.digests = np.concatenate(digests)

    def check(self, start, digests):
        """Raises unless rows from number `start` on are those of the cache."""
        known = self.digests[start : start + len(digests)]
        wrong = np.flatnonzero(known != digests[: len(known)])
        if len(wrong):
            raise ValueError(
                f"Row {start + wrong[0]} is not the row that the features in "
                f"{self._folder} were made from. A cache needs the same rows in the "
                "same order: switch off shuffling, delete the folder, or name "
                "another `cache_dir`."
            )

    def append(self, arrays, digests):
        """Adds rows that the frozen layers have run on."""
        self._pending.append((arrays, digests))
        self._pending_bytes += sum(array.nbytes for array in arrays)
        late = time.monotonic() - self._since > _FILE_SECONDS
        if self._pending_bytes >= _FILE_BYTES or late:
            self.flush()

    def flush(self):
        """Writes what is not in a file yet."""
        if not self._pending:
            return
        batches, digests = zip(*self._pending, strict=True)
        arrays = {
            f"values_{i}": np.concatenate(same)
            for i, same in enumerate(zip(*batches, strict=True))
        }
        arrays["digests"] = np.concatenate(digests)
        path = self._folder / f"rows-{self.count:012d}.npz"
        write_arrays(path, ROWS_FORMAT, {**arrays, "start": self.count})
        self._paths.append(path)
        self._add_rows(len(arrays["digests"]))
        self.digests = np.concatenate([self.digests, arrays["digests"]])
        self._pending, self._pending_bytes = [], 0
        self._since = time.monotonic()

    def close(self):
        self.flush()

    def _load(self, number):
        arrays = read_arrays(self._paths[number], ROWS_FORMAT)
        return [arrays[f"values_{i}"] for i in range(len(arrays) - 2)]


def row_digests(arrays):
    """`(n,)` digests of the rows of some arrays taken together."""
    arrays = [np.ascontiguousarray(array) for array in arrays]
    found = np.empty(len(arrays[0]), np.uint64)
    for i in range(len(found)):
        digest = hashlib.blake2b(digest_size=8)
        for array in arrays:
            digest.update(array[i].tobytes())
        found[i] = int.from_bytes(digest.digest(), "little")
    return found


def data_digest(data):
    """Digest of everything in a `Dataset`."""
    digest = hashlib.blake2b(digest_size=16)
    rows = data.rows
    if isinstance(rows, CachedRows):
        digest.update(rows.digests.tobytes())
    else:
        for _, arrays in rows.blocks(4096):
            digest.update(row_digests(arrays).tobytes())
    for array in [*data.y, *data.weights]:
        digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def fingerprint(operations):
    """Digest of the kinds, settings and weights of layers."""
    digest = hashlib.blake2b(digest_size=16)
    for operation in operations:
        digest.update(type(operation).__name__.encode())
        digest.update(_settings(operation).encode())
        for weight in getattr(operation, "weights", []):
            value = keras.ops.convert_to_numpy(weight.value)
            digest.update(f"{value.shape}{value.dtype}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


def _settings(operation):
    """The configuration of a layer, without names: these differ each time."""

    def unnamed(value):
        if isinstance(value, dict):
            return {
                key: unnamed(part)
                for key, part in value.items()
                if key not in _NAMES_OF_LAYERS
            }
        return [unnamed(part) for part in value] if _is_list(value) else value

    try:
        config = operation.get_config()
    except (NotImplementedError, TypeError, AttributeError):
        return ""
    return json.dumps(unnamed(config), default=lambda other: type(other).__name__)


def _is_list(value):
    return isinstance(value, (list, tuple))


def check_probe(rows, make, arrays):
    """Raises unless the frozen layers give what the cache holds.

    Weights alone do not tell: preprocessing may have changed.

    Args:
        rows: `CachedRows`.
        make: Function from arrays of inputs to arrays of features.
        arrays: The first inputs.
    """
    count = min(_PROBE_ROWS, rows.count, len(arrays[0]))
    made = make([array[:count] for array in arrays])
    for new, old in zip(made, rows.take(np.arange(count)), strict=True):
        scale = np.abs(old).max(initial=0.0)
        if new.shape != old.shape or np.abs(new - old).max() > 1e-2 * scale:
            raise ValueError(
                "The frozen layers no longer give the features in the cache for the "
                "same rows: something before or in them has changed. Delete the "
                "folder, or name another `cache_dir`."
            )
