"""Predictions as text, JSON or CSV: what `keras-swim predict` prints."""

import csv
import io
import json

import numpy as np

FORMATS = ("text", "json", "csv")


def written(items, outputs, names, activation, how="text", top=1, key="file"):
    """Predictions as text, JSON or CSV.

    Args:
        items: What each prediction is about: image files, or lines of a table.
        outputs: `(n, classes)`.
        names: Name of each class.
        activation: Name of the last layer's activation: one label for `"softmax"`,
            any number of labels for `"sigmoid"`, numbers otherwise.
        how: One of `FORMATS`.
        top: Number of classes in the text, for `"softmax"`.
        key: What the items are: `"file"` or `"line"`.

    Example:

    >>> print(written(["a.png"], np.array([[0.1, 0.9]]), ["cat", "dog"], "softmax"))
    a.png	dog 0.900
    """
    answers = [_answer(row, names, activation) for row in outputs]
    if how == "json":
        return json.dumps(
            [
                {key: _plain(item), **answer, "outputs": _named(row, names)}
                for item, row, answer in zip(items, outputs, answers, strict=True)
            ],
            indent=1,
            ensure_ascii=False,
        )
    if how == "csv":
        return _csv(key, items, outputs, names, answers)
    before = "" if key == "file" else f"{key} "
    return "\n".join(
        f"{before}{item}\t{_text(row, names, activation, top)}"
        for item, row in zip(items, outputs, strict=True)
    )


def _plain(item):
    """An item as JSON has it."""
    return int(item) if isinstance(item, (int, np.integer)) else str(item)


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
        # Real numbers, of any size.
        return ", ".join(
            f"{name} {value:.6g}" for name, value in zip(names, row, strict=True)
        )
    return ", ".join(f"{names[i]} {row[i]:.3f}" for i in order)


def _csv(key, items, outputs, names, answers):
    file = io.StringIO()
    heads = [head for head in answers[0] if head != "outputs"] if answers else []
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([key, *heads, *names])
    for item, row, answer in zip(items, outputs, answers, strict=True):
        cells = [
            ";".join(value) if isinstance(value, list) else value
            for value in answer.values()
        ]
        writer.writerow([item, *cells, *(_rounded(value) for value in row)])
    return file.getvalue().rstrip("\n")
