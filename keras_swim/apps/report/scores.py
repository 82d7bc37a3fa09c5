"""How good predictions are: counts, intervals and calibration, as plain numbers.

Shapes: n rows, c classes.
"""

import math

import numpy as np

_Z = 1.959964  # Two-sided 95 % point of the normal distribution.


def wilson(share, rows):
    """The 95 % interval of a share, by Wilson's formula.

    It stays between 0 and 1, and has a width even where all answers are right.

    Args:
        share: Share of right answers.
        rows: Number of answers.

    Example:

    >>> low, high = wilson(0.9, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    square = _Z**2 / rows
    middle = (share + square / 2) / (1 + square)
    half = _Z * math.sqrt(share * (1 - share) / rows + square / (4 * rows))
    half /= 1 + square
    return max(0.0, middle - half), min(1.0, middle + half)


def class_scores(probabilities, labels):
    """Accuracy with its interval, log loss, and what guessing would give.

    Args:
        probabilities: `(n, c)`.
        labels: `(n,)` integers.

    Returns:
        Dict: `rows`, `accuracy`, `low`, `high`, `loss`; `baseline_accuracy` of
        always the most frequent class, `baseline_loss` of the classes' shares.
    """
    n, classes = probabilities.shape
    accuracy = float(np.mean(probabilities.argmax(axis=1) == labels))
    low, high = wilson(accuracy, n)
    own = probabilities[np.arange(n), labels]
    shares = np.bincount(labels, minlength=classes) / n
    present = shares[shares > 0]
    return {
        "rows": n,
        "accuracy": accuracy,
        "low": low,
        "high": high,
        "loss": float(-np.log(np.maximum(own, 1e-12)).mean()),
        "baseline_accuracy": float(shares.max()),
        "baseline_loss": float(-(present * np.log(present)).sum()) + 0.0,
    }


def confusion_counts(labels, predicted, classes):
    """`(c, c)` counts: true classes down, predicted ones across.

    Example:

    >>> confusion_counts(np.array([0, 0, 1]), np.array([0, 1, 1]), 2)
    array([[1, 1],
           [0, 1]])
    """
    flat = np.bincount(labels * classes + predicted, minlength=classes**2)
    return flat.reshape(classes, classes)


def most_confused(counts, names, limit):
    """The commonest mistakes: dicts with `true`, `predicted`, `count`, `rows`."""
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:limit]
    totals = counts.sum(axis=1)
    return [
        {
            "true": names[i],
            "predicted": names[j],
            "count": int(wrong[i, j]),
            "rows": int(totals[i]),
        }
        for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True)
        if wrong[i, j]
    ]


def class_table(counts, names):
    """A dict for each class: `name`, `rows`, `precision`, `recall`, `f1`.

    `None` stands for what cannot be told: recall of a class without rows,
    precision of one that was never predicted.

    Example:

    >>> class_table(np.array([[8, 2], [0, 0]]), ["cat", "dog"])[0]["recall"]
    0.8
    """
    table = []
    for i, name in enumerate(names):
        right, rows, predicted = counts[i, i], counts[i].sum(), counts[:, i].sum()
        table.append(
            {
                "name": name,
                "rows": int(rows),
                "precision": _share(right, predicted),
                "recall": _share(right, rows),
                "f1": _share(2 * right, rows + predicted),
            }
        )
    return table


def calibration(probabilities, labels, bins=10):
    """How often the model is right, by how sure it was.

    Args:
        probabilities: `(n, c)`.
        labels: `(n,)` integers.
        bins: Number of equally wide bins.

    Returns:
        Dict: `rows`; `error`, the expected calibration error: the mean over rows
        of the gap between how sure the model was and how often it was right in
        the row's bin; and `bins`, for the bins with rows in them.

    Example:

    >>> chances = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    >>> found = calibration(chances, np.array([0, 1, 1]))
    >>> round(found["error"], 3), [part["rows"] for part in found["bins"]]
    (0.4, [1, 1, 1])
    """
    n = len(labels)
    sure = probabilities.max(axis=1).astype(np.float64)
    right = probabilities.argmax(axis=1) == labels
    # Softmax may round a little above 1, and a bin includes its upper edge.
    place = np.clip(np.ceil(np.round(sure * bins, 6)).astype(int) - 1, 0, bins - 1)
    found, error = [], 0.0
    for number in np.unique(place):
        inside = place == number
        rows = int(inside.sum())
        confidence, accuracy = float(sure[inside].mean()), float(right[inside].mean())
        low, high = wilson(accuracy, rows)
        error += rows / n * abs(confidence - accuracy)
        found.append(
            {
                "low": float(number / bins),
                "high": float((number + 1) / bins),
                "rows": rows,
                "confidence": confidence,
                "accuracy": accuracy,
                "accuracy_low": low,
                "accuracy_high": high,
            }
        )
    return {"rows": n, "error": error, "bins": found}


def regression_scores(predicted, targets):
    """`rows`, `r2`, `rmse` and `mae`, over all of `(n, c)` values.

    Example:

    >>> found = regression_scores(np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]]))
    >>> found["r2"], found["mae"]
    (0.5, 0.5)
    """
    gaps = predicted - targets
    square = float(np.mean(gaps**2))
    spread = float(np.mean((targets - targets.mean(axis=0)) ** 2))
    return {
        "rows": len(targets),
        # Constant targets have no spread to explain.
        "r2": 1 - square / spread if spread > 0 else None,
        "rmse": math.sqrt(square),
        "mae": float(np.mean(np.abs(gaps))),
    }


def _share(part, whole):
    return float(part / whole) if whole else None
