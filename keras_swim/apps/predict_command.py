"""`keras-swim predict` and `keras-swim evaluate`."""

import json
from pathlib import Path

from keras_swim.apps.argument_types import positive
from keras_swim.apps.console import CommandError, replacing, say, some, warn
from keras_swim.apps.folders import Problem, find_images, scan_folder
from keras_swim.apps.image_files import ImageError, check_image
from keras_swim.apps.predict_images import (
    FORMATS,
    load,
    names_of,
    predict_images,
    written,
)
from keras_swim.apps.report.scores import class_scores, class_table, confusion_counts
from keras_swim.apps.wording import counted
from keras_swim.layers.labeled_dense import class_names


def add_to(commands):
    """Adds the commands to a parser's subparsers."""
    predict = commands.add_parser(
        "predict",
        help="say what is in images",
        description="Prints a label and its probability for each image.",
    )
    predict.add_argument("model", help="file written by keras-swim fit")
    predict.add_argument("images", nargs="+", help="image files, or folders of them")
    predict.add_argument(
        "--format", choices=FORMATS, default="text", help="(default: text)"
    )
    predict.add_argument(
        "--top",
        type=positive,
        default=1,
        help="classes to name in the text (default: 1)",
    )
    predict.add_argument("--out", metavar="FILE", help="write there instead")
    predict.set_defaults(run=run_predict)

    evaluate = commands.add_parser(
        "evaluate",
        help="measure a model on a folder with one folder of images a class",
        description="Measures a model on a folder with one folder of images for each "
        "class.",
    )
    evaluate.add_argument("model", help="file written by keras-swim fit")
    evaluate.add_argument("folder", help="folder with one folder of images a class")
    evaluate.add_argument("--json", action="store_true", help="print JSON")
    evaluate.set_defaults(run=run_evaluate)
    for command in (predict, evaluate):
        command.add_argument(
            "--bad-files",
            choices=["skip", "refuse"],
            default="skip",
            help="what to do about files that cannot be used (default: skip)",
        )
        command.add_argument("--batch-size", type=positive, default=32)


def run_predict(arguments):
    """Carries `predict` out."""
    paths, problems = find_images(arguments.images)
    paths, unreadable = _readable(paths)
    _treat(problems + unreadable, arguments.bad_files)
    if not paths:
        raise CommandError("There is no image to look at.")
    model = load(arguments.model)
    outputs = predict_images(model, paths, arguments.batch_size, verbose=0)
    activation = getattr(model.layers[-1].activation, "__name__", "linear")
    text = written(
        paths, outputs, names_of(model), activation, arguments.format, arguments.top
    )
    if arguments.out is None:
        say(text)
        return
    with replacing(arguments.out) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    say(f"Wrote {arguments.out}: {counted(len(paths), 'image')}.")


def run_evaluate(arguments):
    """Carries `evaluate` out."""
    if not Path(arguments.folder).is_dir():
        raise CommandError(f"There is no folder {arguments.folder}.")
    model = load(arguments.model)
    known = class_names(model)
    if known is None:
        raise CommandError(
            f"{arguments.model} does not know the names of its classes, so that "
            "folders cannot be told. Fit it with `keras-swim fit`, or build it with "
            "`SwimHead(..., class_names=...)`."
        )
    scan = scan_folder(arguments.folder, known)
    _treat(scan.problems, arguments.bad_files)
    images = scan.images
    outputs = predict_images(
        model, images.paths, arguments.batch_size, verbose=0 if arguments.json else 1
    )
    scores = class_scores(outputs, images.labels)
    counts = confusion_counts(images.labels, outputs.argmax(axis=1), len(known))
    table = class_table(counts, known)
    if arguments.json:
        say(
            json.dumps(
                {**scores, "classes": table, "confusion": counts.tolist()}, indent=1
            )
        )
        return
    width = max(map(len, known))
    for line in table:
        if line["rows"]:
            say(
                f"  {line['name']:{width}}  {counted(line['rows'], 'image')}, recall "
                f"{_share(line['recall'])}, precision {_share(line['precision'])}"
            )
    say(
        f"Accuracy on {counted(len(images), 'image')}: {scores['accuracy']:.4f} "
        f"({scores['low']:.4f} to {scores['high']:.4f} with 95 % confidence), log loss "
        f"{scores['loss']:.4f}."
    )


def _share(value):
    return "unknown" if value is None else f"{value:.3f}"


def _readable(paths):
    """The files that can be decoded, and problems with the others."""
    found, problems = [], []
    for path in paths:
        try:
            check_image(path.read_bytes())
        except ImageError as error:
            problems.append(Problem(path, str(error)))
        except OSError as error:
            problems.append(Problem(path, error.strerror or str(error)))
        else:
            found.append(path)
    return found, problems


def _treat(problems, bad_files):
    if not problems:
        return
    text = f"{counted(len(problems), 'file')} cannot be used:\n"
    text += some([str(problem) for problem in problems])
    if bad_files == "refuse":
        raise CommandError(f"{text}\nRemove them, or pass --bad-files skip.")
    warn(text)
