"""Hidden units on the columns of a table, and sums of readouts of them.

A `Member` is a hidden layer with a readout of its own. Members are added up, and a
sum of readouts is one readout: whatever is fitted here is one hidden layer and one
linear layer in the end.

Shapes: n rows, d columns of the matrix, k units, c outputs.
"""

from dataclasses import dataclass, replace

import numpy as np

from keras_swim.core.activations import constants_for
from keras_swim.core.sampling import pair_parameters, sample_pairs


@dataclass
class PairUnits:
    """`tanh(x @ kernel + bias)`, each unit between two rows.

    Attributes:
        view: View of the table that the units look at.
        kernel: `(d, k)` float32.
        bias: `(k,)` float32.
        pairs: `(k, 2)` numbers of the rows behind each unit.
        scale: Steepness, see `SampledDense`.
        subset_sizes: Numbers of columns that a unit may look at, see
            `SampledDense`.
    """

    view: str
    kernel: np.ndarray
    bias: np.ndarray
    pairs: np.ndarray
    scale: float = 1.0
    subset_sizes: tuple = (0,)

    def features(self, views):
        """`(n, k)` array of the views' dtype."""
        x = views[self.view]
        x = x @ self.kernel.astype(x.dtype, copy=False)
        x += self.bias
        return np.tanh(x, out=x)


@dataclass
class Columns:
    """The columns of a view themselves, times a factor.

    Beside sampled units: what is linear need not be made of them.
    """

    view: str
    factor: float

    def features(self, views):
        x = views[self.view]
        return x.dtype.type(self.factor) * x


@dataclass
class Member:
    """Units and their readout.

    Attributes:
        parts: `PairUnits` and others with `features(views)`, side by side.
        kernel: `(k, c)` float64, k of all parts.
        bias: `(c,)` float64.
    """

    parts: list
    kernel: np.ndarray
    bias: np.ndarray

    def features(self, views):
        if not self.parts:
            rows = len(next(iter(views.values())))
            return np.zeros((rows, 0))
        return np.concatenate([part.features(views) for part in self.parts], axis=1)

    def scores(self, views):
        """`(n, c)` float64."""
        return self.features(views) @ self.kernel + self.bias

    def times(self, factor):
        """The member with a readout `factor` times as large."""
        return replace(self, kernel=factor * self.kernel, bias=factor * self.bias)


def total_scores(members, views):
    """Sum of the members' scores.

    In float64: in float32 a row's score would depend, in its last digits, on the
    rows beside it.
    """
    views = {view: x.astype(float) for view, x in views.items()}
    return sum(member.scores(views) for member in members)


def sample_units(
    x, codes, units, rng, *, view, scale, subset_sizes, groups, sample_weight=None
):
    """Draws `PairUnits`.

    Args:
        x: `(n, d)` float32, one view of the table.
        codes: `(n,)` class codes or `(n, c)` real targets.
        units: Number of units.
        rng: `numpy.random.Generator`.
        view: Name of the view.
        scale: Steepness.
        subset_sizes: See `keras_swim.core.sampling.sample_pairs`.
        groups: `(d,)`: column of the table behind each column.
        sample_weight: `None` or `(n,)`.
    """
    sample = sample_pairs(
        x,
        codes,
        units,
        rng,
        mirrored=True,
        subset_sizes=subset_sizes,
        groups=groups,
        sample_weight=sample_weight,
    )
    kernel, bias = pair_parameters(x, sample, constants_for("tanh"), scale)
    kernel = np.ascontiguousarray(kernel)
    return PairUnits(view, kernel, bias, sample.pairs, scale, tuple(subset_sizes))
