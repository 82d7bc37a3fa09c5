"""What the command says, and how it ends when something is wrong."""

import os
import sys
from contextlib import contextmanager
from pathlib import Path


class CommandError(Exception):
    """Something that the user can put right. Its text is all that is shown."""


def say(text=""):
    """Prints a line now: long work may follow."""
    print(text, flush=True)


def warn(text):
    """Prints a line that does not belong to the results."""
    print(text, file=sys.stderr, flush=True)


def size(count):
    """Bytes as people say them.

    Example:

    >>> size(900), size(25_000_000), size(3_000_000_000)
    ('900 bytes', '25 MB', '3.0 GB')
    """
    if count < 10_000:
        return f"{count:.0f} bytes"
    if count < 1e9:
        return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
    return f"{count / 1e9:.1f} GB"


def some(names, most=10):
    """The first of many names, one a line.

    Example:

    >>> print(some(["a", "b", "c"], most=2))
      a
      b
      ... and 1 more
    """
    lines = [f"  {name}" for name in names[:most]]
    if len(names) > most:
        lines.append(f"  ... and {len(names) - most} more")
    return "\n".join(lines)


def check_output(path, suffix, option):
    """Raises unless a file can be written there."""
    path = Path(path)
    if path.suffix != suffix:
        raise CommandError(f"{option} must end with {suffix}. Received: {path}")
    if path.is_dir():
        raise CommandError(f"{option} must be a file. {path} is a folder.")
    if not path.parent.is_dir():
        raise CommandError(
            f"{option}: there is no folder {path.parent}. Make it first."
        )
    if not os.access(path.parent, os.W_OK):
        raise CommandError(f"{option}: the folder {path.parent} cannot be written to.")
    return path


@contextmanager
def replacing(path):
    """Yields a place to write to, and moves what is there when it is complete."""
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
