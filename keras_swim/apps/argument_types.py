"""Numbers in arguments: a message of one line where they are wrong."""

import argparse


def positive(text):
    """An integer from 1 on."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a positive integer is needed, not {text!r}")
    return int(text)


def count(text):
    """An integer from 0 on."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"0 or more is needed, not {text!r}")
    return int(text)


def share(text):
    """A number from 0 to below 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"0 or more and below 1, not {text!r}")
    return value


def separator(text):
    """What separates the fields of a table: `auto`, `tab`, or one character."""
    found = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if found != "auto" and (len(found) != 1 or found in '"\r\n'):
        raise argparse.ArgumentTypeError(f"auto, tab or one character, not {text!r}")
    return found
