"""Imported before Keras: the command keeps TensorFlow from talking over it."""

import os
import sys


def _import_quietly():
    """Imports Keras while nothing can be written to standard error.

    TensorFlow's libraries report there how they were compiled, whatever the
    level of logging. Exceptions are not affected.
    """
    error = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        import keras  # noqa: F401
    finally:
        os.dup2(error, 2)
        os.close(error)


# Importing any part of a package imports the package first, so that this is the
# only place before the import of Keras.
if os.path.basename(sys.argv[0]).startswith("keras-swim"):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    _import_quietly()
