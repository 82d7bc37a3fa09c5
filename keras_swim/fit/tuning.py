"""fine_tune: the second phase of transfer learning."""

from numbers import Integral

import keras
import numpy as np

from keras_swim.fit.dataset import prepare_targets
from keras_swim.fit.finetune import FineTune
from keras_swim.fit.plan import make_plan
from keras_swim.fit.prepare import open_data
from keras_swim.fit.readouts import CLASSES, LABELS


def fine_tune(
    model,
    x,
    y=None,
    validation_data=None,
    *,
    epochs=3,
    layers=None,
    learning_rate=1e-5,
    batch_size=32,
    sample_weight=None,
    resolve=True,
    callbacks=None,
    verbose="auto",
):
    """Unfreezes the backbone of a fitted model and trains it further.

    The second phase of transfer learning: `swim_fit` first, then this. Every
    BatchNormalization stays frozen, so its statistics do not move; the sampled
    layers are trained too. The optimizer is Adam; `FineTune` sees to it that the
    result is never worse on the validation data than before. Afterwards the backbone
    stays trainable (and is the same object in all models that share it): freeze it
    before another `swim_fit`.

    Args:
        model: A model fitted by `swim_fit`, with its frozen backbone as one layer
            (`SwimHead` makes such).
        x, y: The training data, as for `model.fit`: arrays, `tf.data.Dataset`,
            `keras.utils.PyDataset` or a torch `DataLoader`.
        validation_data: `(x, y)` or a data set.
        epochs: Number of epochs.
        layers: `None` trains all layers of the backbone, a number only its last
            ones.
        learning_rate: Adam's. More than 1e-5 seldom pays with little data.
        batch_size: Images at a time, for arrays.
        sample_weight: One weight a training row, or `None`.
        resolve: Whether to solve the readout again after each epoch.
        callbacks: More callbacks for `model.fit`.
        verbose: As for `model.fit`.

    Returns:
        The `keras.callbacks.History` of the training, with the `FineTune`
        callback as `history.fine_tune`.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> images = rng.integers(0, 256, size=(60, 32, 32, 3)).astype("uint8")
    >>> labels = np.arange(60) % 2
    >>> model = SwimHead("MobileNetV2", 2, units=32, weights=None, image_size=32)
    >>> history = swim_fit(model, images[:40], labels[:40], verbose=0)
    >>> history = fine_tune(
    ...     model,
    ...     images[:40],
    ...     labels[:40],
    ...     validation_data=(images[40:], labels[40:]),
    ...     epochs=1,
    ...     verbose=0,
    ... )
    >>> len(history.fine_tune.records)
    2
    """
    if validation_data is None:
        raise ValueError(
            "`fine_tune` needs `validation_data`: the best weights are chosen on it. "
            "Received: validation_data=None."
        )
    tune = FineTune(
        x,
        y,
        validation_data,
        sample_weight=sample_weight,
        resolve=resolve,
        verbose=0 if verbose == 0 else 1,
    )
    # Before anything is changed: data that does not fit is refused here.
    losses = _losses(model, x, y)
    unfreeze(model, layers)
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss=losses,
        weighted_metrics=[],
    )
    arrays = {}
    if y is not None:
        y = keras.tree.map_structure_up_to(model.output, np.asarray, y)
        arrays = {"batch_size": batch_size}
    try:
        history = model.fit(
            x,
            y,
            epochs=epochs,
            sample_weight=sample_weight,
            callbacks=[tune, *(callbacks or [])],
            verbose=verbose,
            **arrays,
        )
    except BaseException:
        # Also on Ctrl-C, of which callbacks are not told.
        tune.restore()
        raise
    history.fine_tune = tune
    return history


def unfreeze(model, layers=None):
    """Makes the backbone of a model trainable, all but its BatchNormalization.

    Args:
        model: Model with a frozen model inside.
        layers: `None`, or the number of its last layers.
    """
    backbones = [
        layer
        for layer in model.layers
        if isinstance(layer, keras.Model) and layer.weights
    ]
    if not backbones:
        raise ValueError(
            "There is no backbone to unfreeze: none of the model's layers is a model. "
            "Compile the model yourself and call `fit` with the `FineTune` callback."
        )
    if layers is not None and (not isinstance(layers, Integral) or layers < 1):
        raise ValueError(f"`layers` must be a positive integer. Received: {layers!r}")
    for backbone in backbones:
        backbone.trainable = True
        inner = list(backbone._flatten_layers(include_self=False, recursive=True))
        frozen = [] if layers is None else backbone.layers[:-layers]
        for layer in frozen:
            layer.trainable = False
        for layer in inner:
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.trainable = False


def _losses(model, x, y):
    """A loss for each output, by its activation and its targets."""
    reader, _ = open_data(model, x, y, None, None, 0.0)
    plan = make_plan(model, reader.specs(), readouts_only=True)
    prepared = prepare_targets(plan.readouts, reader.first)
    losses = []
    for readout, targets in zip(plan.readouts, prepared, strict=True):
        logits = readout.activation == "linear"
        if readout.kind == CLASSES and targets.dtype.kind == "i":
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=logits)
        elif readout.kind == CLASSES:
            loss = keras.losses.CategoricalCrossentropy(from_logits=logits)
        elif readout.kind == LABELS:
            loss = keras.losses.BinaryCrossentropy(from_logits=logits)
        else:
            loss = keras.losses.MeanSquaredError()
        losses.append(loss)
    return losses[0] if len(losses) == 1 else losses
