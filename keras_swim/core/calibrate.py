"""Probabilities from least-squares scores.

Scores of one-hot targets are ordered well but far too soft for a softmax: they
lie between 0 and 1. One factor, the inverse temperature T, puts that right:
`softmax(T * scores)` with the T of the smallest log loss on held-out rows. T > 0
is common to all classes, so no decision changes. For a sigmoid the scores of 0/1
targets are also moved, `sigmoid(T * (score - 1/2))`, so that the decision at
probability 1/2 is the one at score 1/2.

Held-out rows that are all right would ask for T = infinity. As in Platt's
method, targets are therefore smoothed by one virtual row.
"""

import numpy as np
from scipy import optimize

_LOG_RANGE = (np.log(0.1), np.log(1e4))


def softmax_temperature(scores, targets, weight):
    """Inverse temperature of `softmax(T * scores)`.

    Args:
        scores: `(m, c)` held-out scores.
        targets: `(m, c)` one-hot (or soft) targets.
        weight: `(m,)`.

    Example:

    >>> scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> targets = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> bool(softmax_temperature(scores, targets, np.ones(3)) > 1)
    True
    """
    rows = _number_of_rows(weight)
    smooth = (targets * rows + 1.0 / targets.shape[1]) / (rows + 1.0)
    largest = scores.max(axis=1)
    below = scores - largest[:, None]
    # What is linear in T is summed once.
    slope = weight @ (largest - np.einsum("mc,mc->m", smooth, scores))

    ones = np.ones(scores.shape[1])

    def loss(log_t):
        t = np.exp(log_t)
        return weight @ np.log(np.exp(t * below) @ ones) + t * slope

    return _minimise(loss)


def log_loss(logits, targets):
    """`(m,)` minus the logarithm of the softmax at one-hot targets."""
    largest = logits.max(axis=1)
    # By products with vectors: sums along a short last axis are slow.
    ones = np.ones(logits.shape[1])
    total = np.exp(logits - largest[:, None]) @ ones
    return np.log(total) + largest - (targets * logits) @ ones


def sigmoid_temperatures(scores, targets, weight):
    """`(c,)` inverse temperatures of `sigmoid(T * (scores - 1/2))`."""
    rows = _number_of_rows(weight)
    smooth = (targets * rows + 0.5) / (rows + 1.0)
    found = []
    for column in range(scores.shape[1]):
        centred, target = scores[:, column] - 0.5, smooth[:, column]

        def loss(log_t, centred=centred, target=target):
            logits = np.exp(log_t) * centred
            return weight @ (np.logaddexp(0.0, logits) - target * logits)

        found.append(_minimise(loss))
    return np.array(found)


def fold_softmax(kernel, bias, temperature):
    """Kernel and bias whose softmax is calibrated."""
    # A shift common to all classes does nothing but keep logits small.
    return temperature * kernel, temperature * (bias - bias.mean())


def fold_sigmoid(kernel, bias, temperatures):
    """Kernel and bias whose sigmoid is calibrated."""
    return temperatures * kernel, temperatures * (bias - 0.5)


def _number_of_rows(weight):
    # Whole weights count rows; weights that were made to add up to 1 still
    # stand for as many rows as there are.
    return max(weight.sum(), np.count_nonzero(weight))


def _minimise(loss):
    found = optimize.minimize_scalar(loss, bounds=_LOG_RANGE, method="bounded")
    return float(np.exp(found.x))
