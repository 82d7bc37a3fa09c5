"""Model files that `keras-swim fit` has written."""

import zipfile
from pathlib import Path

import keras

# Tables have layers of their own, which a file can name once they are imported.
import keras_swim.build.tables  # noqa: F401
from keras_swim.apps.console import CommandError


def load(path):
    """A saved model; nothing in the file is run as code.

    Args:
        path: A `.keras` file.
    """
    path = Path(path)
    if not path.is_file():
        raise CommandError(f"There is no model file {path}.")
    if not zipfile.is_zipfile(path):
        raise CommandError(
            f"{path} is no Keras model file, or it is damaged. Pass the .keras file "
            "that `keras-swim fit` has written."
        )
    try:
        return keras.models.load_model(path, compile=False, safe_mode=True)
    except (ValueError, TypeError, KeyError, OSError) as error:
        first = str(error).strip().splitlines()[0]
        raise CommandError(f"{path} cannot be loaded: {first}") from error
