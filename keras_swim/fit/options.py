"""What the user asked of a fit, checked."""

from dataclasses import dataclass
from numbers import Integral

import keras
import numpy as np

from keras_swim.core.solvers import SVD_CUTOFF, check_l2, check_solver
from keras_swim.fit.sums import has_accelerator

# Rows at a time where only the head runs: large enough for fast products,
# small enough for a float64 copy of a wide block.
BLOCK_ROWS = 2048
# Rows at a time through frozen layers with weights: `predict`'s own default.
PREFIX_ROWS = 32

# Names of random streams; they keep draws apart from those of the layers.
FOLD_STREAM, POOL_STREAM = 1 << 30, (1 << 30) + 1


@dataclass(frozen=True)
class Options:
    """Checked arguments of `swim_fit` that later stages look at."""

    l2: float | str
    solver: str
    seed: int | None
    sums_dtype: str
    on_device: bool
    block_rows: int
    prefix_rows: int

    @property
    def chooses_l2(self):
        return isinstance(self.l2, str) and self.solver != "svd"

    @property
    def given_l2(self):
        return SVD_CUTOFF if isinstance(self.l2, str) else float(self.l2)

    def generator(self, stream):
        """Random generator of a named stream."""
        return np.random.default_rng(None if self.seed is None else [self.seed, stream])


def check_options(l2, solver, seed, sums_dtype, sums_device, batch_size, model):
    """Returns `Options`, or raises for the first argument that is wrong."""
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"`model` must be a keras.Model. Received: {type(model).__name__}."
        )
    check_solver(solver)
    if isinstance(l2, str):
        if l2 != "auto":
            raise ValueError(f'`l2` must be a number or "auto". Received: {l2!r}')
    else:
        check_l2(l2)
    if seed is not None and not _is_whole(seed, at_least=0):
        raise ValueError(
            f"`seed` must be a non-negative integer. Received: seed={seed!r}"
        )
    if sums_dtype not in ("float64", "float32"):
        raise ValueError(
            '`sums_dtype` must be "float64" or "float32". Received: '
            f"sums_dtype={sums_dtype!r}"
        )
    if sums_device not in ("auto", "host", "device"):
        raise ValueError(
            '`sums_device` must be "auto", "host" or "device". Received: '
            f"sums_device={sums_device!r}"
        )
    if batch_size is not None and not _is_whole(batch_size, at_least=1):
        raise ValueError(
            "`batch_size` must be a positive integer. Received: "
            f"batch_size={batch_size!r}"
        )
    return Options(
        l2=l2,
        solver=solver,
        seed=None if seed is None else int(seed),
        sums_dtype=sums_dtype,
        on_device=sums_device == "device"
        or (sums_device == "auto" and has_accelerator()),
        block_rows=int(batch_size or BLOCK_ROWS),
        prefix_rows=int(batch_size or PREFIX_ROWS),
    )


def refuse_options(others, kind):
    """Raises for arguments that a kind of model has no use for.

    Args:
        others: Dict from a name to the value and the default.
        kind: What to call the model.
    """
    for name, (value, default) in others.items():
        if value is not default and value != default:
            raise ValueError(
                f"`{name}` does not apply to a model {kind}. Received: "
                f"{name}={value!r}. Leave it out."
            )


def plain_options(model, batch_size):
    """`Options` for running or changing a fitted model: nothing is chosen."""
    return check_options("auto", "auto", None, "float64", "host", batch_size, model)


def _is_whole(value, at_least):
    return (
        isinstance(value, Integral)
        and not isinstance(value, bool)
        and value >= at_least
    )
