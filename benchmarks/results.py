"""Results that are kept as they come, so that a run that was cut goes on."""

import json
import os
from pathlib import Path

CACHE = Path(os.environ.get("KERAS_SWIM_CACHE", Path.home() / ".cache/keras_swim_data"))


class Results:
    """A JSON file in the data cache, from a run's name to what it found."""

    def __init__(self, name):
        self.path = CACHE / "benchmarks" / f"{name}.json"

    def known(self):
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def keep(self, name, result):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps({**self.known(), name: result}))
        os.replace(temporary, self.path)

    def run(self, name, function, *arguments):
        """What is known of a run, or what it finds now."""
        if name not in self.known():
            self.keep(name, function(*arguments))
        return self.known()[name]
