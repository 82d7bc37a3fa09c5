"""`keras-swim demo`."""

from keras_swim.apps.console import say
from keras_swim.apps.demo import run_demo


def add_to(commands):
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "demo",
        help="see it at work, without data of your own and without network",
        description="Fits a head for handwritten digits on a small backbone that "
        "comes with the package, compares it with other heads on the same features, "
        "and writes the model and a report.",
    )
    parser.add_argument(
        "--out",
        default="keras-swim-demo",
        metavar="FOLDER",
        help="where to write to (default: keras-swim-demo)",
    )
    parser.set_defaults(run=run)


def run(arguments):
    """Carries the command out."""
    run_demo(arguments.out, say=say)
