"""Functions and what an equation makes of them: data for learning operators.

Solving takes a minute or two, so that the arrays are kept on disk, under a name
made from the arguments.
"""

import hashlib
import json
import math
import operator
import os
import sys
import time as clock
import warnings
from pathlib import Path

import numpy as np

from keras_swim.core.periodic_pde import burgers, kuramoto_sivashinsky
from keras_swim.core.state_file import read_arrays, write_arrays

# Part of a file's name: to be raised when the same arguments give other numbers.
_FORMAT = 1
_KIND = "keras-swim operator pairs"
# The published setting draws the modes of `rfft(norm="ortho")` on so many points.
_ORTHO_POINTS = 256
_MIN_POINTS = 16
# On the way to the attractor, accuracy does not matter. Later, steps of 0.01 leave
# an error of about 1e-8 after 2 units of time.
_TRANSIENT_STEP, _RECORDED_STEP = 0.05, 0.01


def burgers_pairs(
    count=15000,
    points=256,
    seed=0,
    viscosity=0.1,
    time=1.0,
    modes=5,
    deviation=5.0,
    steps=200,
    cache_dir=None,
    verbose=1,
    progress=None,
):
    """Pairs of `u(x, 0)` and `u(x, time)` with `u_t + u u_x = viscosity u_xx`.

    The setting of Bolager et al., "Sampling weights of deep neural networks": `x` on
    (0, 2 pi), the modes `c_k / (k + 1)^2` of `rfft(u, norm="ortho")` on 256 points,
    with normal real and imaginary parts of `c_k` and a real `c_0`. Other numbers of
    points sample the same functions. The first rows do not depend on `count`.

    Args:
        count: Number of pairs.
        points: Points of the grid: even, at least 16.
        seed: Seed of the starts.
        viscosity: Positive number.
        time: Time between the two.
        modes: Number of modes that starts have, with the mean.
        deviation: Standard deviation of the parts of `c_k`.
        steps: Time steps of the solver. 200 leave an error of about 1e-9.
        cache_dir: Folder for the arrays; `None` is `$KERAS_SWIM_CACHE` or
            `~/.cache/keras_swim_data`, `False` keeps nothing.
        verbose: 0 silent, 1 a line while solving.
        progress: `None`, or a function `(done, total)`, called while solving.

    Returns:
        Two arrays `(count, points)` of float64: before and after.

    Example:

    >>> u0, u1 = burgers_pairs(3, points=64, steps=20, cache_dir=False, verbose=0)
    >>> u0.shape, bool(np.allclose(u0.mean(axis=1), u1.mean(axis=1)))
    ((3, 64), True)
    """
    settings = {
        "count": _whole("count", count, 1),
        "points": _grid_points(points),
        "seed": _whole("seed", seed, 0),
        "viscosity": float(viscosity),
        "time": float(time),
        "modes": _whole("modes", modes, 1),
        "deviation": float(deviation),
        "steps": _whole("steps", steps, 1),
    }
    if modes > points // 2:
        raise ValueError(
            "`modes` must be at most half of `points`. Received: "
            f"modes={modes}, points={points}. Use points={max(16, 2 * modes)}."
        )

    def make():
        u0 = _random_starts(count, points, modes, deviation, seed)
        line = _Line("Burgers", verbose, progress)
        return {"u0": u0, "u1": burgers(u0, time, viscosity, steps, progress=line)}

    arrays = _cached("burgers", settings, ("u0", "u1"), cache_dir, make)
    return arrays["u0"], arrays["u1"]


def kuramoto_sivashinsky_pairs(
    trajectories=100,
    snapshots=100,
    step=2.0,
    points=64,
    length=22.0,
    transient=200.0,
    seed=0,
    cache_dir=None,
    verbose=1,
    progress=None,
):
    """States of `u_t + u u_x + u_xx + u_xxxx = 0`, and the same `step` later.

    Small random starts without mean are solved until they are on the attractor,
    then recorded. States of one trajectory resemble each other: split training
    and test data by the first axis.

    Args:
        trajectories: Number of starts.
        snapshots: Pairs of each trajectory.
        step: Time between two states.
        points: Points of the grid: even, at least 16.
        length: Length of the periodic interval.
        transient: Time solved before the first state is recorded.
        seed: Seed of the starts.
        cache_dir: Folder for the arrays; `None` is `$KERAS_SWIM_CACHE` or
            `~/.cache/keras_swim_data`, `False` keeps nothing.
        verbose: 0 silent, 1 a line while solving.
        progress: `None`, or a function `(done, total)`, called while solving.

    Returns:
        Two arrays `(trajectories, snapshots, points)` of float64, before and after;
        the second is the first, one state on.

    Example:

    >>> u0, u1 = kuramoto_sivashinsky_pairs(
    ...     2, snapshots=3, step=0.5, transient=5.0, cache_dir=False, verbose=0
    ... )
    >>> u0.shape, bool(np.array_equal(u0[:, 1:], u1[:, :-1]))
    ((2, 3, 64), True)
    """
    settings = {
        "trajectories": _whole("trajectories", trajectories, 1),
        "snapshots": _whole("snapshots", snapshots, 1),
        "step": float(step),
        "points": _grid_points(points),
        "length": float(length),
        "transient": float(transient),
        "seed": _whole("seed", seed, 0),
    }
    if not (math.isfinite(step) and step > 0 and 0 <= transient < math.inf):
        raise ValueError(
            "`step` must be positive and `transient` at least 0, both finite. "
            f"Received: step={step}, transient={transient}. 2 and 200 are usual."
        )

    def make():
        return {"states": _ks_states(progress=progress, verbose=verbose, **settings)}

    arrays = _cached("kuramoto_sivashinsky", settings, ("states",), cache_dir, make)
    states = arrays["states"]
    # Copies: else changing the first in place would change the second.
    return states[:, :-1].copy(), states[:, 1:].copy()


def _random_starts(count, points, modes, deviation, seed):
    # Both parts of all modes of a row are drawn before the next row's.
    parts = np.random.default_rng(seed).normal(0.0, deviation, (count, modes, 2))
    c = (parts[..., 0] + 1j * parts[..., 1]) / np.arange(1, modes + 1) ** 2
    # `norm="ortho"` on 256 points, whatever the number of points. Of the mean's mode
    # it takes the real part.
    return np.fft.irfft(c / math.sqrt(_ORTHO_POINTS), points, norm="forward")


def _ks_states(
    trajectories,
    snapshots,
    step,
    points,
    length,
    transient,
    seed,
    verbose,
    progress,
):
    parts = np.random.default_rng(seed).normal(0.0, 0.05, (trajectories, 4, 2))
    c = np.zeros((trajectories, 5), dtype=np.complex128)
    c[:, 1:] = parts[..., 0] + 1j * parts[..., 1]
    states = np.empty((trajectories, snapshots + 1, points))
    states[:, 0] = np.fft.irfft(c, points, norm="forward")
    line = _Line("Kuramoto-Sivashinsky", verbose, progress)
    before = math.ceil(transient / _TRANSIENT_STEP)
    after = snapshots * math.ceil(step / _RECORDED_STEP)
    total = trajectories * (before + after)
    if before:
        states[:, 0] = kuramoto_sivashinsky(
            states[:, 0],
            transient,
            length,
            before,
            progress=lambda done, _: line(done, total),
        )
    states[:, 1:] = kuramoto_sivashinsky(
        states[:, 0],
        snapshots * step,
        length,
        after,
        snapshots=snapshots,
        progress=lambda done, _: line(trajectories * before + done, total),
    )
    return states


def _cached(name, settings, arrays, cache_dir, make):
    """The named arrays, from their file or else made and written there."""
    if cache_dir is False:
        return make()
    if cache_dir is None:
        default = Path.home() / ".cache" / "keras_swim_data"
        cache_dir = os.environ.get("KERAS_SWIM_CACHE") or default
    text = json.dumps({"data": name, "format": _FORMAT, **settings}, sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    path = Path(cache_dir).expanduser() / f"{name}_{digest}.npz"
    try:
        found = read_arrays(path, _KIND)
        if str(found["settings"]) != text:
            raise ValueError(f"it holds {found['settings']}")
        return {key: found[key] for key in arrays}
    except (FileNotFoundError, NotADirectoryError):
        pass
    # Damage shows in many ways, and none is worse than solving once more.
    except Exception as error:
        warnings.warn(
            f"{path} cannot be read and is made again: {error!r}", stacklevel=3
        )
    made = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(path, _KIND, {"settings": text, **made})
    except OSError as error:
        warnings.warn(
            f"The arrays could not be kept in {path}: {error}. Pass a `cache_dir` that "
            "can be written, or `False`.",
            stacklevel=3,
        )
    return made


class _Line:
    """Tells how much is solved: on one line of a terminal, rarely in a log."""

    def __init__(self, title, verbose, progress):
        self.title, self.verbose, self.progress = title, verbose, progress
        self.start = self.told = clock.perf_counter()

    def __call__(self, done, total):
        if self.progress is not None:
            self.progress(done, total)
        terminal = sys.stdout.isatty()
        now = clock.perf_counter()
        pause = 0.2 if terminal else 10.0
        if not self.verbose or (done < total and now - self.told < pause):
            return
        self.told = now
        text = f"{self.title}: {100 * done // total:3d} % in {now - self.start:.0f} s"
        sys.stdout.write(
            "\r" * terminal + text + "\n" * (done == total or not terminal)
        )
        sys.stdout.flush()


def _grid_points(points):
    points = _whole("points", points, _MIN_POINTS)
    if points % 2:
        raise ValueError(
            f"`points` must be even. Received: {points}. Use {points + 1}."
        )
    return points


def _whole(name, value, least):
    if not hasattr(value, "__index__") or operator.index(value) < least:
        raise ValueError(
            f"`{name}` must be a whole number of at least {least}. Received: "
            f"{value!r}. Pass an integer."
        )
    return operator.index(value)
