"""The command `keras-swim`: arguments in, exit code out.

Exit codes: 0 done, 1 something is wrong with the data or the files, 2 wrong
arguments, 130 interrupted.
"""

import argparse
import logging
import sys
import traceback

from keras_swim._version import __version__
from keras_swim.apps import demo_command, fit_command, predict_command
from keras_swim.apps.console import CommandError, warn

_EXAMPLES = """examples:
  keras-swim demo
  keras-swim fit photos --backbone ResNet50 --out model.keras --report report.html
  keras-swim predict model.keras new/*.jpg
  keras-swim evaluate model.keras test_photos
  keras-swim fit table.csv --target price --out model.keras --report report.html
  keras-swim predict model.keras new.csv --format csv
"""


def main(arguments=None):
    """Runs the command; returns its exit code.

    Args:
        arguments: List of strings. Defaults to those of the process.
    """
    # Names of files may hold what a terminal's encoding does not.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    parsed = _parser().parse_args(arguments)
    # Warnings about retracing are for people who write training loops.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    try:
        return parsed.run(parsed) or 0
    except KeyboardInterrupt:
        warn("keras-swim: interrupted")
        return 130
    except BrokenPipeError:
        # Whoever reads the output has had enough of it: `keras-swim ... | head`.
        sys.stderr.close()
        return 0
    except Exception as error:
        if parsed.traceback:
            traceback.print_exc()
        elif _is_explained(error):
            warn(f"keras-swim: {error}")
        else:
            warn(f"keras-swim: unexpected {type(error).__name__}: {error}")
            warn("Run it again with --traceback to see where, and please report it.")
        return 1


def _is_explained(error):
    """Whether the text of an error was written for the user."""
    return isinstance(error, (CommandError, ValueError, ImportError, OSError))


def _parser():
    parser = argparse.ArgumentParser(
        prog="keras-swim",
        description="Models of images and of tables in seconds, without gradient "
        "descent: sampled units, a solved readout, calibrated probabilities.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(
        title="commands", dest="command", required=True, metavar="COMMAND"
    )
    for module in (fit_command, predict_command, demo_command):
        module.add_to(commands)
    for command in commands.choices.values():
        command.add_argument(
            "--traceback", action="store_true", help="show where an error came from"
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
