"""The sums of an unfinished pass, in a file.

A pass over many rows writes its sums now and then. If it is interrupted, the
next one with the same rows, layers and folds goes on from there, with the same
blocks, and so comes to the same sums.
"""

import hashlib
import time

import numpy as np

from keras_swim.core.readout import ReadoutState
from keras_swim.core.state_file import read_arrays, write_arrays
from keras_swim.fit.cache import data_digest, fingerprint

FORMAT = "keras-swim unfinished sums"

# Writing sums takes a second for wide layers: seldom enough not to matter.
_SECONDS = 30.0


class Checkpoint:
    """Where the sums of a pass are kept while it goes on.

    Args:
        path: The file.
        plan: `Plan`, its layers sampled.
        data: `Dataset`.
        group: `(n,)` fold of each row.
        options: `Options`.
    """

    def __init__(self, path, plan, data, group, options):
        self.path = path
        digest = hashlib.blake2b(digest_size=16)
        trunk = fingerprint(step.operation for step in plan.trunk)
        for part in (trunk, data_digest(data), options.sums_dtype):
            digest.update(part.encode())
        digest.update(group.tobytes())
        digest.update(f"{options.block_rows} {options.solver}".encode())
        self._identity = digest.hexdigest()
        self._since = time.monotonic()

    def load(self):
        """The states of each readout, and the number of the next row.

        Returns:
            `None` if there is nothing to go on from.
        """
        if not self.path.exists():
            return None
        arrays = read_arrays(self.path, FORMAT)
        if str(arrays["identity"]) != self._identity:
            # Of another fit: it will be written over.
            return None
        states = []
        for readout in range(int(arrays["readouts"])):
            states.append(
                [
                    ReadoutState.from_arrays(_part(arrays, f"{readout}.{number}."))
                    for number in range(int(arrays["states"]))
                ]
            )
        return states, int(arrays["next_row"])

    def save(self, states, next_row):
        """Writes the states, if enough time has passed.

        Args:
            states: For each readout, a list of `ReadoutState`s.
            next_row: Number of the first row that is not in them.
        """
        if time.monotonic() - self._since < _SECONDS:
            return
        arrays = {
            "identity": self._identity,
            "readouts": len(states),
            "states": len(states[0]),
            "next_row": next_row,
        }
        for readout, parts in enumerate(states):
            for number, state in enumerate(parts):
                for name, value in state.to_arrays().items():
                    arrays[f"{readout}.{number}.{name}"] = np.asarray(value)
        write_arrays(self.path, FORMAT, arrays)
        self._since = time.monotonic()

    def remove(self):
        """The pass is finished."""
        self.path.unlink(missing_ok=True)


def _part(arrays, prefix):
    return {
        name.removeprefix(prefix): value
        for name, value in arrays.items()
        if name.startswith(prefix)
    }
