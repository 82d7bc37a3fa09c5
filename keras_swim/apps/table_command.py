"""`keras-swim fit` for a table in a CSV file: a model and a report come out."""

import keras
import numpy as np

from keras_swim._version import __version__
from keras_swim.apps.argument_types import separator
from keras_swim.apps.console import (
    CommandError,
    check_output,
    replacing,
    say,
    size,
    some,
)
from keras_swim.apps.fit_rows import fit_rows
from keras_swim.apps.report.page import write_report
from keras_swim.apps.report.scores import class_scores, regression_scores
from keras_swim.apps.report.table_findings import table_findings
from keras_swim.apps.stages import timed
from keras_swim.apps.table_cells import find_column
from keras_swim.apps.table_data import data_like, shared_rows, split_rows, table_data
from keras_swim.apps.table_files import is_table, read_table
from keras_swim.apps.table_words import say_survey, scores_line
from keras_swim.apps.wording import counted, seconds

# Share of each class to validate on.
_HELD_BACK = 0.2
_FEWEST_ROWS = 4


def add_options(group):
    """Adds what only tables need to an `OptionGroup`."""
    group.add("--target", metavar="COLUMN", help="column to predict; needed")
    group.add(
        "--task",
        choices=["auto", "classification", "regression"],
        default="auto",
        help="auto: classification for text and for few whole numbers (default)",
    )
    group.add(
        "--method",
        choices=["boost", "layer"],
        default="boost",
        help="boost is the more accurate, layer the faster (default: boost)",
    )
    group.add(
        "--drop",
        nargs="+",
        action="extend",
        metavar="COLUMN",
        help="columns to leave out",
    )
    group.add(
        "--categorical",
        nargs="+",
        action="extend",
        metavar="COLUMN",
        help="columns of numbers that are categories",
    )
    add_reading_options(group)


def add_reading_options(group):
    """Adds how a CSV file is to be read to an `OptionGroup`."""
    group.add(
        "--separator",
        type=separator,
        default="auto",
        metavar="CHARACTER",
        help="what separates fields: , ; tab or another character (default: auto)",
    )
    group.add(
        "--bad-rows",
        choices=["refuse", "skip"],
        default="refuse",
        help="what to do about rows with too few or too many fields (default: refuse)",
    )


def run(arguments):
    """Fits a model to the table `arguments.data`."""
    out = check_output(arguments.out, ".keras", "--out")
    report = arguments.report and check_output(arguments.report, ".html", "--report")
    stages: dict[str, float] = {}
    with timed(stages, "reading the table"):
        training, validation = _rows(arguments)
    weight = None if arguments.class_weight == "none" else arguments.class_weight
    if weight and training.class_names is None:
        raise CommandError(
            "--class-weight is for classes, and this is a regression. Leave it away, "
            "or pass --task classification."
        )
    fitted = fit_rows(
        training,
        validation,
        method=arguments.method,
        class_weight=weight,
        seed=arguments.seed,
        stages=stages,
    )
    _say_scores(fitted, training, validation)
    with timed(stages, "saving"), replacing(out) as temporary:
        fitted.network.save(temporary)
    say(f"Wrote {out} ({size(out.stat().st_size)}).")
    if report:
        facts = {
            "File": str(out),
            "Target": training.target,
            "Method": arguments.method,
            "keras-swim": __version__,
        }
        title = f"{out.name}: {training.target}"
        write_report(
            report,
            table_findings(fitted, training, validation, title=title, facts=facts),
        )
        say(f"Wrote {report}.")
    say(f"{seconds(sum(stages.values()))} in all. Try it:")
    say(f"  keras-swim predict {out} NEW.csv")


def read_said(path, arguments, tell=say, alone=()):
    """`read_table` that says which rows were left out."""
    table = read_table(path, arguments.separator, arguments.bad_rows, alone)
    if table.problems:
        count = counted(len(table.problems), "row")
        tell(f"{count} cannot be read and left out:\n{some(table.problems)}")
    return table


def _rows(arguments):
    """The training and the validation rows; says what was found."""
    if arguments.validation and not is_table(arguments.validation):
        raise CommandError(
            f"--validation must be a table as well. Received: {arguments.validation}"
        )
    table = read_said(arguments.data, arguments)
    if arguments.target is None:
        raise CommandError(
            "--target is missing: which column is to be predicted? "
            f"{arguments.data} has: {', '.join(list(table.columns)[:30])}."
        )
    find_column(table, arguments.target, "--target")
    data, survey = table_data(
        table,
        arguments.target,
        task=arguments.task,
        drop=arguments.drop or (),
        categorical=arguments.categorical or (),
    )
    say_survey(table, data, survey, arguments.class_weight)
    if keras.backend.backend() != "tensorflow" and any(data.kinds.values()):
        raise CommandError(
            "Columns of text need the TensorFlow backend. Set "
            f"KERAS_BACKEND=tensorflow, or drop: {', '.join(survey.levels)}."
        )
    if len(data) < _FEWEST_ROWS:
        raise CommandError(
            f"{counted(len(data), 'row')} with a target are too few to learn from. "
            f"{_FEWEST_ROWS} is the least."
        )
    if arguments.validation:
        held, without = data_like(read_said(arguments.validation, arguments), data)
        if without:
            say(f"{counted(without, 'validation row')} without a target left out.")
        shared = shared_rows(data, held)
        if shared:
            say(
                f"{counted(shared, 'validation row')} of {len(held)} are also among "
                "the training rows: the figures below are too good."
            )
        return data, held
    share = arguments.validation_split
    if share == 0:
        return data, None
    training, held = split_rows(
        data, _HELD_BACK if share is None else share, arguments.seed
    )
    if not len(held) or (data.class_names and len(np.unique(training.targets)) < 2):
        raise CommandError(
            "No class has two rows, so that none can be held back. Pass "
            "--validation-split 0."
        )
    return training, held


def _say_scores(fitted, training, validation):
    outputs, rows, what = fitted.left_out, training, "held-out training row"
    if validation is not None:
        outputs, rows, what = fitted.outputs, validation, "validation row"
    make = regression_scores if training.class_names is None else class_scores
    say(scores_line(make(outputs, rows.targets), what))
