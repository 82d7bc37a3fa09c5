"""Seconds by what they were spent on."""

import time
from contextlib import contextmanager


@contextmanager
def timed(stages, name):
    """Adds the seconds of a block to a dict.

    Example:

    >>> stages = {}
    >>> with timed(stages, "nothing"):
    ...     pass
    >>> list(stages)
    ['nothing']
    """
    start = time.perf_counter()
    try:
        yield
    finally:
        spent = time.perf_counter() - start
        stages[name] = stages.get(name, 0.0) + spent
