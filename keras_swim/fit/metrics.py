"""How good the fitted outputs are."""

import keras
import numpy as np

from keras_swim.fit.readouts import CLASSES, LABELS
from keras_swim.fit.segment import as_array


def output_metrics(readout, outputs, y, weight=None):
    """Loss and accuracy of one output, for models that are not compiled.

    Args:
        readout: `ReadoutLayer`.
        outputs: `(m, units)` outputs of the model (probabilities where the
            readout has an activation).
        y: `(m, units)` targets.
        weight: `None` or `(m,)`.

    Returns:
        Dict: `loss` is the log loss for classes and the mean squared error for
        regression; `accuracy` or `r2` beside it.
    """
    outputs = np.asarray(outputs, dtype=np.float64)
    weight = np.ones(len(y)) if weight is None else weight
    weight = weight / max(weight.sum(), np.finfo(float).tiny)
    tiny = 1e-12
    if readout.kind == CLASSES:
        chances = outputs if readout.activation == "softmax" else _softmax(outputs)
        loss = -(y * np.log(np.maximum(chances, tiny))).sum(axis=1)
        right = chances.argmax(axis=1) == y.argmax(axis=1)
        return {"loss": float(weight @ loss), "accuracy": float(weight @ right)}
    if readout.kind == LABELS:
        chances = outputs
        if readout.activation == "linear":
            chances = 1.0 / (1.0 + np.exp(-np.clip(outputs, -500, 500)))
        loss = -(
            y * np.log(np.maximum(chances, tiny))
            + (1 - y) * np.log(np.maximum(1 - chances, tiny))
        ).mean(axis=1)
        right = ((chances > 0.5) == (y > 0.5)).mean(axis=1)
        return {"loss": float(weight @ loss), "accuracy": float(weight @ right)}
    squares = ((outputs - y) ** 2).mean(axis=1)
    spread = weight @ ((y - weight @ y) ** 2).mean(axis=1)
    loss = float(weight @ squares)
    # Constant targets have no spread to explain, only rounding.
    constant = spread <= 1e-12 * (weight @ (y**2).mean(axis=1))
    return {"loss": loss, "r2": 0.0 if constant else float(1 - loss / spread)}


def compiled_metrics(model, outputs, y, weights):
    """Loss and metrics of a compiled model on given outputs.

    Args:
        model: Compiled Keras model.
        outputs: List of arrays, the model's outputs in order.
        y: List of targets in the form that the user gave.
        weights: List of sample weights or `None`, one an output.
    """
    y_pred = [keras.ops.convert_to_tensor(part) for part in outputs]
    y_true = [keras.ops.convert_to_tensor(part) for part in y]
    sample_weight = None
    if any(part is not None for part in weights):
        sample_weight = [
            keras.ops.convert_to_tensor(
                np.ones(len(y[0])) if part is None else part, dtype="float32"
            )
            for part in weights
        ]
    if len(y_pred) == 1:
        y_pred, y_true = y_pred[0], y_true[0]
        sample_weight = None if sample_weight is None else sample_weight[0]
    elif isinstance(getattr(model, "output", None), dict):
        names = model.output_names
        y_pred = dict(zip(names, y_pred, strict=True))
        y_true = dict(zip(names, y_true, strict=True))
        if sample_weight is not None:
            sample_weight = dict(zip(names, sample_weight, strict=True))
    model.reset_metrics()
    loss = model.compute_loss(
        x=None, y=y_true, y_pred=y_pred, sample_weight=sample_weight, training=False
    )
    logs = dict(
        model.compute_metrics(
            x=None, y=y_true, y_pred=y_pred, sample_weight=sample_weight
        )
    )
    logs = {name: float(value) for name, value in logs.items()}
    logs["loss"] = float(loss)
    model.reset_metrics()
    return logs


def held_out_metrics(readout, scores, targets, weight, temperature):
    """Metrics of the held-out scores, as if they had come from the model."""
    if temperature is not None:
        identity = np.eye(scores.shape[1])
        kernel, bias = readout.calibrate(
            identity, np.zeros(scores.shape[1]), temperature
        )
        scores = scores @ kernel + bias
    outputs = activated(readout, scores)
    return output_metrics(readout, outputs, targets, weight)


def activated(readout, scores):
    """Outputs of the model for scores of its readout."""
    if readout.activation == "linear":
        return scores
    function = getattr(keras.activations, readout.activation)
    return as_array(function(keras.ops.convert_to_tensor(scores.astype("float32"))))


def _softmax(logits):
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)
