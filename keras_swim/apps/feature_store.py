"""Features of image files on disk, known by the bytes of each file.

A folder holds the features behind one backbone: a plain file of float32 rows, and
an archive with the digest of the image file that each row came from. A fit that
was interrupted finds what is done already, and files that were added later are
the only ones that the backbone runs on.
"""

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np

from keras_swim.apps.console import CommandError
from keras_swim.core.state_file import read_arrays, write_arrays

FORMAT = "keras-swim image features"
_INDEX, _ROWS = "index.npz", "features.f32"
# An interruption costs no more than this.
_SAVE_SECONDS = 20.0


class FeatureStore:
    """Features by digest, in a folder.

    Args:
        folder: Path. Made if it does not exist.
        layers: Digest of all that features are made with: a folder that knows
            another one is refused.
        columns: Number of features.
    """

    def __init__(self, folder, layers, columns):
        self.folder = Path(folder)
        self.columns = columns
        self._layers = layers
        self._row_of: dict[str, int] = {}
        self._saved = time.monotonic()
        if self.folder.exists() and not self.folder.is_dir():
            raise CommandError(f"The cache must be a folder. {folder} is a file.")
        index = self.folder / _INDEX
        if index.exists():
            self._read_index(index)
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise CommandError(
                f"{folder} has files in it and is no feature cache. Name an empty or a "
                "new folder."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / _ROWS
        path.touch()
        # Rows that were written after the index last was are lost.
        os.truncate(path, len(self._row_of) * self._row_bytes)
        self._file = open(path, "r+b")
        self._file.seek(0, os.SEEK_END)

    @property
    def _row_bytes(self):
        return 4 * self.columns

    def missing(self, digests):
        """Numbers of the files whose features are not there, each file once."""
        new = dict.fromkeys(d for d in digests if d not in self._row_of)
        first = {}
        for row, digest in enumerate(digests):
            if digest in new:
                first.setdefault(digest, row)
        return np.array(sorted(first.values()), int)

    def append(self, digests, features):
        """Adds the features of some files."""
        features = np.ascontiguousarray(features, "<f4")
        if features.shape != (len(digests), self.columns):
            raise ValueError(
                f"Expected {len(digests)} rows of {self.columns} features. Received: "
                f"shape {features.shape}."
            )
        self._file.write(features.tobytes())
        for digest in digests:
            self._row_of[str(digest)] = len(self._row_of)
        if time.monotonic() - self._saved > _SAVE_SECONDS:
            self.save()

    def save(self):
        """Makes what was appended last."""
        self._file.flush()
        os.fsync(self._file.fileno())
        arrays = {
            "digests": np.array(list(self._row_of), dtype="U32"),
            "notes": json.dumps({"layers": self._layers, "columns": self.columns}),
        }
        write_arrays(self.folder / _INDEX, FORMAT, arrays)
        self._saved = time.monotonic()

    def read(self, digests):
        """`(n, columns)` features of files; not in memory where they lie in order."""
        self._file.flush()
        rows = np.array([self._row_of[str(digest)] for digest in digests], int)
        shape = (len(self._row_of), self.columns)
        everything = np.memmap(self.folder / _ROWS, "<f4", "r", shape=shape)
        if np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
            return everything[rows[0] : rows[0] + len(rows)]
        return np.asarray(everything[rows])

    def close(self):
        """Saves, and closes the file."""
        self.save()
        self._file.close()

    def delete(self):
        """Removes the folder."""
        self._file.close()
        shutil.rmtree(self.folder)

    def _read_index(self, index):
        try:
            arrays = read_arrays(index, FORMAT)
            notes = json.loads(str(arrays["notes"]))
        except (ValueError, KeyError) as error:
            raise CommandError(
                f"{error} Delete {self.folder}, or name another folder."
            ) from error
        if notes != {"layers": self._layers, "columns": self.columns}:
            raise CommandError(
                f"The features in {self.folder} come from another backbone, other "
                "weights or another preprocessing. Delete the folder, or name another."
            )
        rows = self.folder / _ROWS
        known = arrays["digests"]
        if not rows.exists() or rows.stat().st_size < len(known) * self._row_bytes:
            raise CommandError(
                f"{rows} is shorter than its index says. Delete {self.folder}."
            )
        self._row_of = {str(digest): row for row, digest in enumerate(known)}
