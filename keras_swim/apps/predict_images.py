"""What a saved model says about images: `keras-swim predict` and `evaluate`."""

import csv
import io
import json
import zipfile
from pathlib import Path

import keras
import numpy as np

from keras_swim.apps.console import CommandError
from keras_swim.apps.image_rows import ImageRows, check_equal_sizes, input_kind
from keras_swim.layers.labeled_dense import class_names

FORMATS = ("text", "json", "csv")


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


def names_of(model):
    """The names of a model's outputs, numbers if it has none."""
    return class_names(model) or [str(i) for i in range(model.output.shape[-1])]


def predict_images(model, paths, batch_size=32, verbose=1):
    """`(n, classes)` outputs for image files."""
    kind = input_kind(model)
    check_equal_sizes(paths, kind)
    rows = ImageRows(paths, None, kind, batch_size)
    return np.asarray(model.predict(rows, verbose=verbose))


def written(paths, outputs, names, activation, how="text", top=1):
    """Predictions as text, JSON or CSV.

    Args:
        paths: Image files.
        outputs: `(n, classes)`.
        names: Name of each class.
        activation: Name of the last layer's activation: one label for `"softmax"`,
            any number of labels for `"sigmoid"`, numbers otherwise.
        how: One of `FORMATS`.
        top: Number of classes in the text, for `"softmax"`.

    Example:

    >>> print(written(["a.png"], np.array([[0.1, 0.9]]), ["cat", "dog"], "softmax"))
    a.png	dog 0.900
    """
    answers = [_answer(row, names, activation) for row in outputs]
    if how == "json":
        return json.dumps(
            [
                {"file": str(path), **answer, "outputs": _named(row, names)}
                for path, row, answer in zip(paths, outputs, answers, strict=True)
            ],
            indent=1,
            ensure_ascii=False,
        )
    if how == "csv":
        return _csv(paths, outputs, names, answers)
    return "\n".join(
        f"{path}\t{_text(row, names, activation, top)}"
        for path, row in zip(paths, outputs, strict=True)
    )


def _answer(row, names, activation):
    if activation == "softmax":
        best = int(np.argmax(row))
        return {"label": names[best], "probability": _rounded(row[best])}
    if activation == "sigmoid":
        return {"labels": [names[i] for i in np.flatnonzero(row >= 0.5)]}
    return {}


def _named(row, names):
    return {name: _rounded(value) for name, value in zip(names, row, strict=True)}


def _rounded(value):
    return float(f"{value:.6g}")


def _text(row, names, activation, top):
    order = np.argsort(-row, kind="stable")
    if activation == "softmax":
        order = order[:top]
    elif activation == "sigmoid":
        order = order[row[order] >= 0.5]
        if not len(order):
            return "none"
    else:
        order = np.arange(len(row))
    return ", ".join(f"{names[i]} {row[i]:.3f}" for i in order)


def _csv(paths, outputs, names, answers):
    file = io.StringIO()
    heads = [head for head in answers[0] if head != "outputs"] if answers else []
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["file", *heads, *names])
    for path, row, answer in zip(paths, outputs, answers, strict=True):
        cells = [
            ";".join(value) if isinstance(value, list) else value
            for value in answer.values()
        ]
        writer.writerow([path, *cells, *(_rounded(value) for value in row)])
    return file.getvalue().rstrip("\n")
