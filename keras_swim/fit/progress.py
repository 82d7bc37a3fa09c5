"""What is going on, and how much of it is left."""

import sys
import time
from contextlib import contextmanager

import keras

_MUCH_MEMORY = 1 << 30


class Progress:
    """Prints stages with a bar each and keeps their seconds.

    Args:
        verbose: 0 silent, 1 bars, 2 one line a stage; `"auto"` is 1.
        stages: Number of stages to come.
    """

    def __init__(self, verbose, stages):
        if verbose not in ("auto", 0, 1, 2, True, False):
            raise ValueError(
                f'`verbose` must be "auto", 0, 1 or 2. Received: {verbose!r}'
            )
        self.verbose = 1 if verbose == "auto" else int(verbose)
        self.stages, self.number = stages, 0
        self.seconds = {}
        self._bar = None
        self._done = 0
        self._start = time.perf_counter()

    def say(self, text):
        if self.verbose:
            _print(text)

    def say_memory(self, needed):
        """Says beforehand how many bytes the sums will take, if they are many."""
        if needed > _MUCH_MEMORY:
            self.say(f"the sums will take up to {needed / 2**30:.1f} GB of memory")

    @contextmanager
    def stage(self, name, title, total=None, unit="row"):
        """One stage; `total` is the number of rows or layers, if known."""
        self.number += 1
        start = time.perf_counter()
        if self.verbose == 1:
            _print(f"[{self.number}/{self.stages}] {title}")
            self._bar = keras.utils.Progbar(total, unit_name=unit)
            self._done = 0
        try:
            yield self
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
            if self._bar is not None and self._bar.target is None and self._done:
                # Keras ends the line by itself only where it knows the total.
                self._bar.update(self._done, finalize=True)
            self._bar = None
        if self.verbose == 2:
            _print(f"[{self.number}/{self.stages}] {title}: {spent:.1f}s")

    def advance(self, amount):
        """So much more of the stage is done."""
        self._done += amount
        if self._bar is not None:
            self._bar.update(self._done)

    @property
    def total_seconds(self):
        return time.perf_counter() - self._start


def _print(text):
    if keras.config.is_interactive_logging_enabled():
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
