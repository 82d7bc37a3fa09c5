"""Arrays in a file: plain, versioned, never pickled.

The file is a NumPy archive. It is written beside its place and moved there when
it is complete, so that an interrupted save leaves the old file whole.
"""

import os
import tempfile
import zipfile
from pathlib import Path

import numpy as np

VERSION = 1


def write_arrays(path, kind, arrays):
    """Writes a dict of arrays, atomically.

    Args:
        path: Where to.
        kind: What the arrays are; `read_arrays` asks for the same.
        arrays: Dict from name to array, number or string.
    """
    path = Path(path)
    handle, temporary = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"
    )
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, format=kind, version=VERSION, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_arrays(path, kind, names=None):
    """Reads the dict of arrays back; raises for files that are something else.

    Args:
        path: Where from.
        kind: What the arrays are.
        names: `None`, or the names of the arrays to read.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            wanted = None if names is None else {"format", "version", *names}
            arrays = {
                name: file[name]
                for name in file.files
                if wanted is None or name in wanted
            }
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise ValueError(
            f"{path} is no {kind} file, or it is damaged: {error}"
        ) from error
    if str(arrays.pop("format", "")) != kind:
        raise ValueError(f"{path} is no {kind} file. It was written by something else.")
    version = int(arrays.pop("version"))
    if version > VERSION:
        raise ValueError(
            f"{path} has format version {version}; this keras-swim reads up to "
            f"{VERSION}. Install a newer keras-swim."
        )
    return arrays
