"""`keras-swim fit` for a folder of images: a model and a report come out."""

import shutil
from pathlib import Path

import keras
import numpy as np

from keras_swim._version import __version__
from keras_swim.apps.argument_types import count, positive
from keras_swim.apps.console import (
    CommandError,
    check_output,
    replacing,
    say,
    size,
    some,
)
from keras_swim.apps.fit_images import Settings, fit_images
from keras_swim.apps.folders import scan_folder, split_images
from keras_swim.apps.image_files import thumbnail
from keras_swim.apps.report.findings import findings
from keras_swim.apps.report.page import write_report
from keras_swim.apps.report.scores import class_scores
from keras_swim.apps.wording import counted, seconds

# Ratio of the largest to the smallest class from which weights are worth a word.
_UNBALANCED = 5
# Share of each class to validate on.
_HELD_BACK = 0.2


def add_options(group):
    """Adds what only images need to an `OptionGroup`."""
    group.add(
        "--backbone",
        default="ResNet50",
        help="a model of keras.applications, or a .keras file (default: ResNet50)",
    )
    group.add(
        "--weights",
        default="imagenet",
        help="file with the backbone's weights (default: imagenet, which Keras "
        "downloads once)",
    )
    group.add(
        "--select",
        default=False,
        action="store_true",
        help="choose transform, scale, width (up to --units) and ridge",
    )
    group.add(
        "--fine-tune",
        type=count,
        default=0,
        metavar="EPOCHS",
        help="train the whole network on for some epochs (default: 0)",
    )
    group.add(
        "--units", type=positive, default=2048, help="sampled units (default: 2048)"
    )
    group.add(
        "--hidden-layers",
        type=count,
        default=1,
        help="sampled layers; 0 is plain ridge regression (default: 1)",
    )
    group.add(
        "--bad-files",
        choices=["skip", "refuse"],
        default="skip",
        help="what to do about files that cannot be used (default: skip)",
    )
    group.add(
        "--image-size",
        type=positive,
        metavar="PIXELS",
        help="height and width to resize to (default: the backbone's)",
    )
    group.add(
        "--preprocessing",
        choices=["auto", "none", "caffe", "tf", "torch"],
        default="auto",
        help="how the backbone wants its pixels (default: auto)",
    )
    group.add(
        "--cache",
        metavar="FOLDER",
        help="keep the features there: later fits need no backbone",
    )
    group.add("--batch-size", type=positive, default=32)


def run(arguments):
    """Fits a model to the folder `arguments.data`."""
    out = check_output(arguments.out, ".keras", "--out")
    report = arguments.report and check_output(arguments.report, ".html", "--report")
    settings = _settings(arguments, out)
    training, validation = _images(arguments)
    if settings.fine_tune and validation is None:
        raise CommandError(
            "--fine-tune needs validation images: the best weights are chosen on "
            "them. Leave --validation-split away, or pass --validation."
        )
    fitted = fit_images(settings, training, validation)
    _say_scores(fitted, validation)
    with replacing(out) as temporary:
        # A new model of the same layers: without the optimizer's variables.
        model = fitted.model
        keras.Model(model.inputs, model.output, name=model.name).save(temporary)
    say(f"Wrote {out} ({size(out.stat().st_size)}).")
    if report:
        say("Looking for what to report.")
        write_report(
            report, _findings(fitted, training, validation, arguments.backbone, out)
        )
        say(f"Wrote {report}.")
    if arguments.cache is None:
        shutil.rmtree(settings.cache)
    say(f"{seconds(sum(fitted.stages.values()))} in all. Try it:")
    say(f"  keras-swim predict {out} IMAGE...")


def _settings(arguments, out):
    cache = arguments.cache or out.with_suffix(".features")
    return Settings(
        backbone=arguments.backbone,
        weights=_weights(arguments.weights),
        image_size=arguments.image_size,
        preprocessing=(
            None if arguments.preprocessing == "none" else arguments.preprocessing
        ),
        units=arguments.units,
        hidden_layers=arguments.hidden_layers,
        class_weight=(
            None if arguments.class_weight == "none" else arguments.class_weight
        ),
        select=arguments.select,
        fine_tune=arguments.fine_tune,
        batch_size=arguments.batch_size,
        seed=arguments.seed,
        cache=Path(cache),
        keep_state=arguments.report is not None,
    )


def _weights(weights):
    if weights == "imagenet":
        return weights
    if weights == "none":
        return None
    if not Path(weights).is_file():
        raise CommandError(f"--weights: there is no file {weights}.")
    return weights


def _images(arguments):
    """The training and the validation images; says what was found."""
    scan = _scanned(arguments.data, None, arguments.bad_files)
    images = scan.images
    _say_classes(images)
    if arguments.validation:
        held = _scanned(arguments.validation, images.class_names, arguments.bad_files)
        shared = np.isin(held.images.digests, images.digests).sum()
        if shared:
            say(
                f"{counted(shared, 'validation image')} of {len(held.images)} are also "
                "among the training images: the figures below are too good."
            )
        return images, held.images
    held_back = arguments.validation_split
    if held_back == 0:
        return images, None
    training, validation = split_images(
        images, _HELD_BACK if held_back is None else held_back, arguments.seed
    )
    if not len(validation):
        raise CommandError(
            "No class has two images, so that none can be held back. Pass "
            "--validation-split 0."
        )
    return training, validation


def _scanned(folder, class_names, bad_files):
    say(f"Looking through {folder}.")
    bar: list = []

    def advance(total, done):
        if not bar:
            bar.append(keras.utils.Progbar(total, unit_name="file"))
        bar[0].update(done)

    scan = scan_folder(folder, class_names, advance)
    if scan.problems:
        what = f"{counted(len(scan.problems), 'file')} cannot be used:"
        lines = some([str(problem) for problem in scan.problems])
        if bad_files == "refuse":
            raise CommandError(
                f"{what}\n{lines}\nMend or remove them, or pass --bad-files skip."
            )
        say(f"{what}\n{lines}")
    return scan


def _say_classes(images):
    counts = images.counts
    each = [
        f"{name} {number}"
        for name, number in zip(images.class_names, counts, strict=True)
    ]
    names = ", ".join(each[:10]) + (", ..." if len(each) > 10 else "")
    classes = counted(len(each), "class")
    say(f"{counted(len(images), 'image')} in {classes}: {names}.")
    if counts.max() >= _UNBALANCED * counts.min():
        say(
            "The classes are unbalanced. If the small ones matter as much, pass "
            "--class-weight balanced."
        )


def _say_scores(fitted, validation):
    if validation is None:
        logs = fitted.selection.metrics if fitted.selection else _held_out(fitted)
        say(
            f"Accuracy on held-out training images: {logs['accuracy']:.3f}, log loss "
            f"{logs['loss']:.3f}."
        )
        return
    outputs = fitted.head.predict(fitted.validation_features, verbose=0)
    scores = class_scores(outputs, validation.labels)
    say(
        f"Accuracy on {counted(len(validation), 'validation image')}: "
        f"{scores['accuracy']:.3f} ({scores['low']:.3f} to {scores['high']:.3f} with "
        f"95 % confidence), log loss {scores['loss']:.3f}."
    )


def _held_out(fitted):
    logs = fitted.history.history
    return {"accuracy": logs["cv_accuracy"][-1], "loss": logs["cv_loss"][-1]}


def _findings(fitted, training, validation, backbone, out):
    parts = {"train": training, "validation": validation}
    held = None
    if validation is not None:
        held = fitted.validation_features, validation.labels
    return findings(
        fitted.head,
        fitted.features,
        training.labels,
        validation_data=held,
        class_names=training.class_names,
        names=_names(training),
        validation_names=None if validation is None else _names(validation),
        thumbnail=lambda part, row: thumbnail(parts[part].paths[row]),
        history=fitted.history,
        selection=fitted.selection,
        tuning=fitted.tuning,
        stages=fitted.stages,
        title=f"{out.name}: {', '.join(training.class_names[:4])}"
        + (", ..." if len(training.class_names) > 4 else ""),
        facts={
            "Backbone": Path(backbone).name,
            "File": str(out),
            "keras-swim": __version__,
        },
    )


def _names(images):
    return ["/".join(path.parts[-2:]) for path in images.paths]
