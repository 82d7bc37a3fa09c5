"""`keras-swim predict` and `keras-swim evaluate`."""

import json
from pathlib import Path

from keras_swim.apps import predict_table
from keras_swim.apps.answers import FORMATS, written
from keras_swim.apps.argument_types import positive
from keras_swim.apps.console import CommandError, replacing, say, some, warn
from keras_swim.apps.folders import Problem, find_images, scan_folder
from keras_swim.apps.image_files import ImageError, check_image
from keras_swim.apps.model_files import load
from keras_swim.apps.option_groups import OptionGroup
from keras_swim.apps.predict_images import names_of, predict_images
from keras_swim.apps.report.scores import class_scores, class_table, confusion_counts
from keras_swim.apps.table_files import is_table
from keras_swim.apps.wording import counted
from keras_swim.layers.labeled_dense import class_names
from keras_swim.layers.table_readout import table_readout


def add_to(commands):
    """Adds the commands to a parser's subparsers."""
    predict = commands.add_parser(
        "predict",
        help="say what is in images, or predict the rows of a table",
        description="Prints a label and its probability (or a number, where the model "
        "predicts numbers) for each image, or for each row of a table.",
    )
    predict.add_argument("model", help="file written by keras-swim fit")
    predict.add_argument(
        "data", nargs="+", help="image files, or folders of them; or one CSV file"
    )
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

    evaluate = commands.add_parser(
        "evaluate",
        help="measure a model on a folder of images, or on a table",
        description="Measures a model on a folder with one folder of images for each "
        "class, or on a table with the target.",
    )
    evaluate.add_argument("model", help="file written by keras-swim fit")
    evaluate.add_argument(
        "data", help="folder with one folder of images a class, or a CSV file"
    )
    evaluate.add_argument("--json", action="store_true", help="print JSON")
    for command, of_images, of_table in (
        (predict, run_predict, predict_table.run_predict),
        (evaluate, run_evaluate, predict_table.run_evaluate),
    ):
        tables = OptionGroup(command, "tables")
        predict_table.add_options(tables)
        images = OptionGroup(command, "images")
        images.add(
            "--bad-files",
            choices=["skip", "refuse"],
            default="skip",
            help="what to do about files that cannot be used (default: skip)",
        )
        images.add("--batch-size", type=positive, default=32)
        command.set_defaults(run=_chooser(images, of_images, tables, of_table))


def _chooser(images, of_images, tables, of_table):
    """The function that carries a command out, for images or for a table."""

    def run(arguments):
        data = arguments.data if isinstance(arguments.data, list) else [arguments.data]
        found = [path for path in data if is_table(path)]
        if not found:
            tables.refuse(arguments, f"{data[0]} is no CSV file")
            return of_images(images.completed(arguments))
        if len(data) > 1:
            raise CommandError(
                f"Pass one table at a time, and no images beside it. Received: "
                f"{', '.join(data[:5])}."
            )
        images.refuse(arguments, f"{found[0]} is a table")
        return of_table(tables.completed(arguments), found[0])

    return run


def run_predict(arguments):
    """Carries `predict` out, for images."""
    paths, problems = find_images(arguments.data)
    paths, unreadable = _readable(paths)
    _treat(problems + unreadable, arguments.bad_files)
    if not paths:
        raise CommandError("There is no image to look at.")
    model = _load(arguments.model)
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
    """Carries `evaluate` out, for images."""
    if not Path(arguments.data).is_dir():
        raise CommandError(f"There is no folder {arguments.data}.")
    model = _load(arguments.model)
    known = class_names(model)
    if known is None:
        raise CommandError(
            f"{arguments.model} does not know the names of its classes, so that "
            "folders cannot be told. Fit it with `keras-swim fit`, or build it with "
            "`SwimHead(..., class_names=...)`."
        )
    scan = scan_folder(arguments.data, known)
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


def _load(path):
    model = load(path)
    if table_readout(model) is not None:
        raise CommandError(
            f"{path} is a model for tables. Pass it a CSV file, whose name ends with "
            ".csv, .tsv or .csv.gz."
        )
    return model


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
