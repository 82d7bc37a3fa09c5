"""Options of a command that belong to one kind of input only."""

import argparse

from keras_swim.apps.console import CommandError


class OptionGroup:
    """Options for one kind of input.

    They have no default until it is known that they apply, so that one that does not
    apply can be told from one that was not passed.

    Args:
        parser: Parser to add them to.
        title: What they are for, such as `"images"`.

    Example:

    >>> parser = argparse.ArgumentParser()
    >>> group = OptionGroup(parser, "images")
    >>> group.add("--units", type=int, default=3)
    >>> group.completed(parser.parse_args([])).units
    3
    """

    def __init__(self, parser, title):
        self.title = title
        self._group = parser.add_argument_group(f"options for {title}")
        self._defaults: dict = {}
        self._flags: dict = {}

    def add(self, flag, default=None, **settings):
        """Adds an option, as `add_argument` does."""
        action = self._group.add_argument(flag, default=argparse.SUPPRESS, **settings)
        self._defaults[action.dest] = default
        self._flags[action.dest] = flag

    def refuse(self, arguments, what):
        """Raises if one of these options was passed.

        Args:
            arguments: Parsed arguments.
            what: What the input is, in words.
        """
        given = [flag for name, flag in self._flags.items() if name in arguments]
        if given:
            is_for = "is" if len(given) == 1 else "are"
            raise CommandError(f"{', '.join(given)} {is_for} for {self.title}. {what}.")

    def completed(self, arguments):
        """The arguments, with the defaults of those that were not passed."""
        return argparse.Namespace(**{**self._defaults, **vars(arguments)})
