"""`keras-swim fit`: images or a table in, a model and a report out."""

from pathlib import Path

from keras_swim.apps import image_command, table_command
from keras_swim.apps.argument_types import count, share
from keras_swim.apps.console import CommandError
from keras_swim.apps.option_groups import OptionGroup
from keras_swim.apps.table_files import SUFFIXES, is_table


def add_to(commands):
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "fit",
        help="fit a model to a folder of images, or to a table",
        description="Fits a classifier to a folder with one folder of images for "
        "each class, or a classifier or regression to a table in a CSV file.",
    )
    parser.add_argument(
        "data", help="folder with one folder of images a class, or a CSV file"
    )
    parser.add_argument(
        "--out", default="model.keras", help="file to write (default: model.keras)"
    )
    parser.add_argument("--report", metavar="FILE", help="write an HTML report, too")
    parser.add_argument(
        "--validation", metavar="DATA", help="folder or CSV file to validate on"
    )
    parser.add_argument(
        "--validation-split",
        type=share,
        metavar="SHARE",
        help="share of each class to validate on (default: 0.2 without --validation)",
    )
    parser.add_argument(
        "--class-weight",
        choices=["none", "balanced"],
        default="none",
        help="balanced: all classes count the same",
    )
    parser.add_argument("--seed", type=count, default=0)
    tables = OptionGroup(parser, "tables")
    table_command.add_options(tables)
    images = OptionGroup(parser, "images")
    image_command.add_options(images)
    parser.set_defaults(run=lambda arguments: _run(arguments, images, tables))


def _run(arguments, images, tables):
    """Carries the command out."""
    data = arguments.data
    if arguments.validation and arguments.validation_split is not None:
        raise CommandError("Pass --validation or --validation-split, not both.")
    if is_table(data):
        images.refuse(arguments, f"{data} is a table")
        table_command.run(tables.completed(arguments))
        return
    if Path(data).is_file():
        raise CommandError(
            f"{data} is neither a folder of images nor a table, whose name ends with "
            f"{', '.join(SUFFIXES)}."
        )
    tables.refuse(arguments, f"{data} is no CSV file")
    image_command.run(images.completed(arguments))
