"""`keras-swim demo`."""


def add_to(commands):
    """Adds the command to a parser's subparsers."""
