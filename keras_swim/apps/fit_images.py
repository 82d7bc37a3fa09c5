"""From a folder of images to a fitted model: what `keras-swim fit` does."""

import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_swim.apps.console import CommandError, say, size
from keras_swim.apps.feature_store import FeatureStore
from keras_swim.apps.image_rows import ImageRows, check_equal_sizes, input_kind
from keras_swim.apps.stages import timed
from keras_swim.apps.wording import counted, seconds
from keras_swim.build.backbones import RECIPES, get_backbone
from keras_swim.build.heads import SwimHead, split_head
from keras_swim.build.select_head import select_head
from keras_swim.core.targets import class_weights
from keras_swim.fit.cache import fingerprint
from keras_swim.fit.swim_fit import swim_fit
from keras_swim.fit.tuning import fine_tune

# Images to measure the backbone's speed with, after as many that warm it up.
_TIMED_IMAGES = 16
_SCALES = (0.5, 1.0, 2.0)


@dataclass
class Settings:
    """What the user asks for.

    Attributes:
        backbone: Name of a model of `keras.applications`, or a `.keras` file.
        weights, image_size, preprocessing, units, hidden_layers: See `SwimHead`.
        class_weight: `None` or `"balanced"`.
        select: Whether to choose width, scale, ridge and transform.
        fine_tune: Number of epochs to train on.
        batch_size: Images at a time.
        seed: Integer.
        cache: Folder for features.
        keep_state: Whether the readout's sums are kept, for a report.
    """

    backbone: str
    weights: str | None = "imagenet"
    image_size: int | None = None
    preprocessing: str | None = "auto"
    units: int = 2048
    hidden_layers: int = 1
    class_weight: str | None = None
    select: bool = False
    fine_tune: int = 0
    batch_size: int = 32
    seed: int = 0
    cache: Path | None = None
    keep_state: bool = False


@dataclass
class Fitted:
    """What came out.

    Attributes:
        model: From raw images to probabilities.
        head: The part of it behind the features.
        features: Features of the training images, in their order.
        validation_features: Those of the validation images, if there are any.
        history: That of `swim_fit`, or `None` after a selection.
        selection: `Selection` of the head, or `None`.
        tuning: `FineTune` callback, or `None`.
        stages: Seconds by what they were spent on.
    """

    model: Any
    head: Any
    features: np.ndarray
    validation_features: np.ndarray | None = None
    history: Any = None
    selection: Any = None
    tuning: Any = None
    stages: dict = field(default_factory=dict)


def load_backbone(settings):
    """The backbone as a `Backbone`: model, preprocessing and size."""
    backbone = settings.backbone
    if str(backbone).endswith(".keras"):
        if not Path(backbone).exists():
            raise CommandError(f"--backbone: there is no file {backbone}.")
        backbone = keras.models.load_model(backbone, compile=False)
    elif backbone not in RECIPES:
        near = [name for name in RECIPES if name.lower() == str(backbone).lower()]
        hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(RECIPES)}."
        raise CommandError(
            f"--backbone must be a model of keras.applications or a .keras file. "
            f"Received: {backbone}. {hint}"
        )
    return get_backbone(
        backbone, settings.weights, settings.image_size, settings.preprocessing
    )


def fit_images(settings, training, validation):
    """Fits a head on the features of images, and the whole model if asked to.

    Args:
        settings: `Settings`.
        training: `Images`.
        validation: `Images`, or `None`.

    Returns:
        A `Fitted`.
    """
    stages: dict[str, float] = {}
    parts = [training] if validation is None else [training, validation]
    with timed(stages, "loading the backbone"):
        build = _builder(settings, load_backbone(settings), training.class_names)
        model = build()
        to_features, head = split_head(model)
    store = FeatureStore(
        settings.cache, fingerprint(to_features.layers), to_features.output.shape[-1]
    )
    try:
        with timed(stages, "backbone on all images"):
            features = _features(to_features, parts, store, settings.batch_size)
        fitted = Fitted(model, head, *features, stages=stages)
        _fit_head(fitted, build, training, settings)
        if settings.fine_tune:
            _tune(fitted, training, validation, settings)
    finally:
        # Also after Ctrl-C: the same command goes on from what is done.
        store.close()
    return fitted


def _builder(settings, backbone, class_names):
    return partial(
        SwimHead,
        backbone.model,
        len(class_names),
        units=settings.units,
        hidden_layers=settings.hidden_layers,
        image_size=backbone.size,
        preprocessing=backbone.preprocessing,
        class_names=class_names,
        seed=settings.seed,
    )


def _features(to_features, parts, store, batch_size):
    """Features of the images of all parts; the backbone runs on new files only."""
    paths = [path for images in parts for path in images.paths]
    digests = np.concatenate([images.digests for images in parts])
    kind = input_kind(to_features)
    new = store.missing(digests)
    if known := len(set(digests)) - len(new):
        say(f"Features of {counted(known, 'image')} are there already.")
    if len(new):
        check_equal_sizes([paths[row] for row in new], kind)
        rows = ImageRows([paths[row] for row in new], None, kind, batch_size)
        _announce(to_features, rows, store, settled=len(digests) - len(new))
        bar = keras.utils.Progbar(len(new), unit_name="image")
        for start in range(0, len(new), batch_size):
            batch = rows[start // batch_size]
            done = digests[new[start : start + batch_size]]
            store.append(done, keras.ops.convert_to_numpy(_run(to_features, batch)))
            bar.update(start + len(done))
    return [store.read(images.digests) for images in parts]


def _run(model, batch):
    return model.predict_on_batch(batch)


def _announce(to_features, rows, store, settled):
    """Says how long the backbone will take, from a measurement."""
    images = rows[0][:_TIMED_IMAGES]
    _run(to_features, images)
    start = time.perf_counter()
    _run(to_features, images)
    rate = len(images) / (time.perf_counter() - start)
    count = len(rows.paths)
    say(
        f"The backbone runs on {counted(count, 'image')}: about "
        f"{seconds(count / rate)} at {rate:.1f} images a second; "
        f"{size((count + settled) * store.columns * 4)} on disk."
    )


def _fit_head(fitted, build, training, settings):
    options = {"class_weight": settings.class_weight, "seed": settings.seed}
    if settings.select:
        say("Choosing transform, skip, scale, width and ridge by honest folds.")
        with timed(fitted.stages, "selection"):
            choice = select_head(
                build,
                fitted.features,
                training.labels,
                scales=_SCALES,
                report=_say_candidate,
                verbose=0,
                **options,
            )
        fitted.selection, fitted.model = choice.selection, choice.model
        _, fitted.head = split_head(choice.model)
        say(f"Chosen: {_words(choice.settings, choice.selection)}.")
        return
    with timed(fitted.stages, "sampling and solving"):
        fitted.history = swim_fit(
            fitted.head,
            fitted.features,
            training.labels,
            keep_state=settings.keep_state,
            **options,
        )


def _say_candidate(settings, selection):
    accuracy = selection.metrics["accuracy"]
    say(f"  {_words(settings, selection)}: held-out accuracy {accuracy:.4f}")


def _words(settings, selection):
    parts = [
        "square root" if settings.get("transform") else "plain features",
        *(["linear skip"] if settings.get("skip") else []),
        f"scale {selection.scale:g}",
        counted(selection.width, "unit"),
        f"l2 {selection.l2:.2g}",
    ]
    return ", ".join(parts)


def _tune(fitted, training, validation, settings):
    model = fitted.model
    kind = input_kind(model)
    say(f"Fine-tuning for {counted(settings.fine_tune, 'epoch')}.")
    with timed(fitted.stages, "fine-tuning"):
        history = fine_tune(
            model,
            _rows(training, kind, settings, shuffle=True),
            validation_data=_rows(validation, kind, settings),
            epochs=settings.fine_tune,
        )
    fitted.tuning = history.fine_tune
    # The report is about the model as it is now.
    to_features, fitted.head = split_head(model)
    with timed(fitted.stages, "features after fine-tuning"):
        fitted.features, fitted.validation_features = (
            to_features.predict(ImageRows(part.paths, None, kind, settings.batch_size))
            for part in (training, validation)
        )


def _rows(images, kind, settings, shuffle=False):
    weights = None
    if shuffle and settings.class_weight is not None:
        classes = len(images.class_names)
        weights = class_weights(images.labels, classes, settings.class_weight)
    return ImageRows(
        images.paths,
        images.labels,
        kind,
        settings.batch_size,
        weights=weights,
        shuffle=settings.seed if shuffle else None,
    )
