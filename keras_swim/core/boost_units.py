"""Units for one round of boosting, chosen among many by what they would gain.

Two kinds, both between two rows whose gradients differ. Pair units are those of
`SampledDense`, on all columns or a few, drawn here. Product units are "and" of a few
conditions on single columns (`grown_units`).

A unit phi would lower the loss by about

    sum_c (phi'G_c)^2 / ((phi^2)'H_c + penalty)

(G minus the gradient of the loss, H its second derivative): candidates are compared
by that, on some of the rows.

Rows run along the last axis here, so that columns are contiguous.

Shapes: n rows, d columns, k units, c outputs.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from keras_swim.core.activations import constants_for

# Where a step of slope zero is put so that it is 1 everywhere.
ALWAYS = 30.0
# Pairs that are looked at for each candidate.
_PAIRS_A_CANDIDATE = 4
# Closest distance in the weight of a pair, in standard deviations.
_CLOSEST = 0.1


@dataclass
class ProductUnits:
    """Products of logistic steps in single columns.

    Attributes:
        view: View of the table that the units look at.
        columns: `(k, t)` column of each step.
        slopes, offsets: `(k, t)` float32: `sigmoid(slope * x + offset)`.
        pairs: `(k, 2)` numbers of the rows behind each unit.
    """

    view: str
    columns: np.ndarray
    slopes: np.ndarray
    offsets: np.ndarray
    pairs: np.ndarray

    def features(self, views):
        """`(n, k)` array of the view's dtype."""
        return self.across(np.ascontiguousarray(views[self.view].T)).T

    def across(self, x):
        """`(k, n)` array from `(d, n)` columns."""
        product = None
        for columns, slopes, offsets in zip(
            self.columns.T, self.slopes.T, self.offsets.T, strict=True
        ):
            step = logistic_steps(x, columns, slopes, offsets)
            product = step if product is None else np.multiply(product, step, product)
        return product


class Problem(NamedTuple):
    """What a round of boosting sees.

    Attributes:
        x: `(d, n)` float32.
        gradient: `(n, c)` float32, minus the gradient of the loss.
        curvature: `(n, c)` float32, its second derivative.
        rows: Slice of the rows that candidates are compared on.
        penalty: Ridge of the round's readout.
    """

    x: np.ndarray
    gradient: np.ndarray
    curvature: np.ndarray
    rows: np.ndarray
    penalty: float

    def gains(self, phi):
        """`(k,)` gain of units, given on `rows`."""
        share = phi.shape[1] / self.x.shape[1]
        gradient, curvature = self.gradient[self.rows], self.curvature[self.rows]
        top = (phi @ gradient) ** 2
        return (top / ((phi * phi) @ curvature + self.penalty * share)).sum(axis=1)


def choose_pair_units(problem, count, tries, rng, groups, subset_sizes, scales):
    """Kernel `(d, k)`, bias `(k,)` and pairs `(k, 2)` of tanh units.

    Args:
        problem: `Problem`.
        count: Number of units.
        tries: Candidates for each.
        rng: `numpy.random.Generator`.
        groups: `(d,)` column of the table behind each column.
        subset_sizes: Numbers of columns of the table to look at, 0 for all.
        scales: Steepnesses to draw from.
    """
    i, j, weight = _draw_pairs(problem, _PAIRS_A_CANDIDATE * count * tries, rng)
    step = (problem.x[:, j] - problem.x[:, i]).T
    sizes = rng.choice(subset_sizes, len(step))
    step *= _column_masks(sizes, groups, rng)
    square = np.einsum("md,md->m", step, step)
    weight = weight / np.sqrt(np.maximum(square, _CLOSEST**2))
    weight[square < 1e-10] = 0.0
    keys = rng.standard_exponential(len(step)) / np.maximum(weight, 1e-30)
    # Inside each size, or the small distances of small subsets would win all.
    chosen = [
        here[np.argsort(keys[here])[: -(-len(here) // _PAIRS_A_CANDIDATE)]]
        for here in (np.flatnonzero(sizes == size) for size in np.unique(sizes))
    ]
    taken = np.concatenate(chosen)
    taken = rng.permutation(taken[weight[taken] > 0])[: count * tries]
    s1 = constants_for("tanh")[0] * rng.choice(scales, len(taken))
    kernel = step[taken] * (s1 / square[taken])[:, None].astype("float32")
    middle = 0.5 * (problem.x[:, i[taken]] + problem.x[:, j[taken]])
    bias = -np.einsum("kd,dk->k", kernel, middle)
    phi = kernel @ problem.x[:, problem.rows]
    phi += bias[:, None]
    best = _best_of_each(problem.gains(np.tanh(phi, out=phi)), tries)
    pairs = np.stack([i[taken], j[taken]], axis=1)[best]
    return np.ascontiguousarray(kernel[best].T), bias[best], pairs


def _draw_pairs(problem, m, rng):
    """Rows i != j, and how much their gradients differ."""
    n = problem.x.shape[1]
    i = rng.integers(0, n, m)
    j = rng.integers(0, n - 1, m)
    j += j >= i
    return i, j, np.abs(problem.gradient[i] - problem.gradient[j]).max(axis=1)


def _column_masks(sizes, groups, rng):
    """`(m, d)`: whether a candidate looks at a column."""
    names, group_of = np.unique(groups, return_inverse=True)
    masks = np.ones((len(sizes), len(groups)), dtype=bool)
    some = np.flatnonzero((sizes > 0) & (sizes < len(names)))
    if len(some):
        order = rng.random((len(some), len(names)), dtype=np.float32)
        last = np.sort(order, axis=1)[np.arange(len(some)), sizes[some] - 1]
        masks[some] = (order <= last[:, None])[:, group_of]
    return masks


def logistic_steps(x, columns, slopes, offsets):
    """`sigmoid(slopes * x[columns] + offsets)`, by way of tanh, which is faster."""
    z = x[columns]
    z *= 0.5 * slopes[:, None]
    z += 0.5 * offsets[:, None]
    np.tanh(z, out=z)
    z += 1.0
    z *= 0.5
    return z


def _best_of_each(gains, tries):
    """Number of the best of each `tries` candidates (the last may be fewer)."""
    starts = np.arange(0, len(gains), tries)
    padded = np.full(len(starts) * tries, -np.inf)
    padded[: len(gains)] = gains
    return starts + padded.reshape(-1, tries).argmax(axis=1)
