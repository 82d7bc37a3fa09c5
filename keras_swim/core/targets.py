"""Labels and targets: what a pair of rows differs by.

Class labels count as one-hot: two rows differ by 1 where their classes differ
and by 0 elsewhere, however the classes are numbered.
"""

from collections.abc import Mapping
from numbers import Integral, Real

import numpy as np


def encode(y):
    """Turns targets into what pairs are compared by.

    Args:
        y: Integer, boolean or string labels of shape `(n,)` or `(n, ...)`, or
            real targets of shape `(n,)` or `(n, ...)`. Integers mean classes:
            pass floats for a regression on whole numbers.

    Returns:
        `(n,)` class codes (int64), or `(n, c)` real targets (float64).

    Example:

    >>> encode(np.array(["cat", "dog", "cat"]))
    array([0, 1, 0])
    >>> encode(np.array([0.5, 1.5])).shape
    (2, 1)
    """
    y = np.asarray(y)
    if y.dtype.kind in "biuOSU":
        # Several columns: rows differ as soon as one of their labels does.
        y = y.reshape(len(y), -1) if y.ndim > 1 else y
        y = y[:, 0] if y.ndim > 1 and y.shape[1] == 1 else y
        axis = None if y.ndim == 1 else 0
        codes = np.unique(y, axis=axis, return_inverse=True)[1]
        return codes.ravel().astype(np.int64)
    return y.reshape(len(y), -1).astype(np.float64)


def differences(codes, i, j, norm=np.inf):
    """|y_j - y_i| of the rows `i` and `j`; 0 or 1 for class codes."""
    if codes.ndim == 1:
        return (codes[i] != codes[j]).astype(np.float64)
    if codes.shape[1] == 1:
        return np.abs(codes[j, 0] - codes[i, 0])
    gaps = np.empty(len(i))
    size = max(1, (1 << 21) // codes.shape[1])
    for start in range(0, len(i), size):
        part = slice(start, start + size)
        gaps[part] = np.linalg.norm(codes[j[part]] - codes[i[part]], ord=norm, axis=1)
    return gaps


def side_by_side(codes):
    """Several encoded targets as one, each divided by its own spread.

    A single target is returned as it is.
    """
    if len(codes) == 1:
        return codes[0]
    parts = []
    for part in codes:
        if part.ndim == 1:
            part = one_hot(part, part.max() + 1)
        spread = part.std(axis=0).max()
        parts.append(part / (spread if spread > 0 else 1.0))
    return np.concatenate(parts, axis=1)


def one_hot(labels, classes):
    """`(n, classes)` float64 array of zeros and ones.

    Example:

    >>> one_hot(np.array([1, 0]), 2)
    array([[0., 1.],
           [1., 0.]])
    """
    codes = np.zeros((len(labels), classes))
    codes[np.arange(len(labels)), labels] = 1.0
    return codes


def class_weights(labels, classes, class_weight):
    """The weight of every row, from the weight of its class.

    Args:
        labels: `(n,)` integer labels.
        classes: Number of classes.
        class_weight: Dict from label to weight, or `"balanced"`:
            `n / (classes that occur * rows of the class)`.

    Example:

    >>> class_weights(np.array([0, 0, 1]), 2, {0: 1.0, 1: 2.0})
    array([1., 1., 2.])
    """
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(
                '`class_weight` must be a dict or "balanced". Received: '
                f"class_weight={class_weight!r}"
            )
        counts = np.bincount(labels, minlength=classes)
        present = counts > 0
        table = np.ones(classes)
        table[present] = len(labels) / (present.sum() * counts[present])
        return table[labels]
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            '`class_weight` must be a dict or "balanced". Received: '
            f"class_weight={class_weight!r}"
        )
    table = np.ones(classes)
    for label, weight in class_weight.items():
        if not isinstance(label, Integral) or not 0 <= label < classes:
            raise ValueError(
                "`class_weight` must map labels to weights. Received the "
                f"label {label!r}, expected 0 to {classes - 1}."
            )
        if not (isinstance(weight, Real) and np.isfinite(weight) and weight >= 0):
            raise ValueError(
                "`class_weight` must hold finite, non-negative weights. "
                f"Received: {weight!r} for class {label!r}."
            )
        table[int(label)] = weight
    return table[labels]
