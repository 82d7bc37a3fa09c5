"""Gradient boosting with sampled units, each round solved in closed form.

`F` are logits (classes) or predictions (squared error). A round draws a few units
where the gradient changes (`boost_units`), solves a ridge regression of the gradient
on them, weighted by the curvature, for each output, and adds a part of it to F. Rows
that were held out say when to stop, by calibrated scores. All rounds look at the same
columns, so their sum is one hidden layer with one readout.

Shapes: n rows, k units, c outputs.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from keras_swim.core.boost_units import Problem, ProductUnits, choose_pair_units
from keras_swim.core.calibrate import log_loss
from keras_swim.core.grown_units import find_bins, grow_product_units
from keras_swim.core.table_units import Member, PairUnits

_SMALLEST_CURVATURE = 1e-4
# The intercept of a round is all but free.
_INTERCEPT_PENALTY = 1e-3
_SMALLEST_SHARE = 1e-4
# How far the factor that calibrates held-out scores may go, and how fast.
_FACTORS = (0.1, 4.0)
_FASTEST = 2.0
# Share of the first loss that a round must win to count as better.
_WORTHWHILE = 1e-4


@dataclass(frozen=True)
class Boosting:
    """Settings.

    Attributes:
        rounds: Most rounds.
        patience: Rounds without a better held-out loss before it stops.
        step: Share of each round's solution that is added.
        pair_units: Units a round.
        product_units: The same, or `None`: those of one tree, `2 ** terms`; of two
            for five to nine outputs.
        tries: Candidates for each pair unit.
        subset_sizes, scales: Of pair units, see `SampledDense`.
        terms: Number of conditions of product units, or `None`: 4, or 5 for several
            outputs.
        penalty: Ridge of a round, in rows.
        scoring_rows: Rows on which candidates are compared.
    """

    rounds: int = 120
    patience: int = 10
    step: float = 0.3
    pair_units: int = 16
    product_units: int | None = None
    tries: int = 8
    subset_sizes: tuple = (0, 1, 2, 3)
    scales: tuple = (2.0, 4.0)
    terms: int | None = None
    penalty: float = 2.0
    scoring_rows: int = 2048


class CrossEntropy:
    """Log loss of c logits, of which one is right.

    Args:
        separate: Whether each logit is a yes or no of its own.
    """

    def __init__(self, separate=False):
        self.separate = separate

    def start(self, targets, weight):
        share = weight @ targets / weight.sum()
        if self.separate:
            share = np.clip(share, _SMALLEST_SHARE, 1 - _SMALLEST_SHARE)
            return np.log(share / (1 - share))
        return np.log(np.maximum(share, _SMALLEST_SHARE))

    def derivatives(self, scores, targets):
        """Minus the gradient, and the curvature."""
        gaps, curvature = self._residuals(scores, targets)
        curvature = np.maximum(curvature, _SMALLEST_CURVATURE)
        if self.separate:
            return gaps, curvature
        # One logit alone moves less than all of them together: c / (c - 1).
        c = scores.shape[1]
        return gaps, c / (c - 1) * curvature

    def _residuals(self, scores, targets):
        """Targets minus probabilities p, and p (1 - p)."""
        if self.separate:
            p = special.expit(scores)
        else:
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
        return targets - p, p * (1 - p)

    def loss(self, scores, targets, weight):
        if self.separate:
            each = (np.logaddexp(0, scores) - targets * scores).sum(axis=1)
        else:
            each = log_loss(scores, targets)
        return float(weight @ each / weight.sum())

    def judge(self, scores, targets, weight, factor):
        """Mean loss of calibrated scores, and the factor that calibrates them.

        Boosted logits soon are too sure of themselves, and log loss then says to
        stop, while answers still get better. What is too sure is mended afterwards,
        so it must not count here: the loss is that of `factor * scores`, with a
        Newton step towards the best factor from that of the round before.
        """
        factor = self._towards_best(scores, targets, weight, factor)
        return self.loss(factor * scores, targets, weight), factor

    def _towards_best(self, scores, targets, weight, factor):
        gaps, curvature = self._residuals(factor * scores, targets)
        if self.separate:
            slope = weight @ (gaps * scores).sum(axis=1)
            bend = weight @ (curvature * scores**2).sum(axis=1)
        else:
            p = targets - gaps
            mean = np.einsum("mc,mc->m", p, scores)
            slope = weight @ np.einsum("mc,mc->m", gaps, scores)
            bend = weight @ (np.einsum("mc,mc->m", p, scores**2) - mean**2)
        if not bend > 0:
            return factor
        step = np.clip(factor + slope / bend, factor / _FASTEST, factor * _FASTEST)
        return float(np.clip(step, *_FACTORS))


class SquaredError:
    """Half the squared error."""

    def start(self, targets, weight):
        return weight @ targets / weight.sum()

    def derivatives(self, scores, targets):
        return targets - scores, np.ones_like(targets)

    def loss(self, scores, targets, weight):
        gaps = scores - targets
        return float(weight @ (gaps * gaps).sum(axis=1) / weight.sum())

    def judge(self, scores, targets, weight, factor):
        """Mean loss; there is nothing to calibrate."""
        return self.loss(scores, targets, weight), factor


class Boosted(NamedTuple):
    """What `boost` returns.

    Attributes:
        member: `Member` with all units of all rounds.
        held_scores: `(m, c)` scores of the held-out rows.
        losses: Held-out loss of the start and after each round, of calibrated scores.
        rounds: Number of rounds that were kept.
        start: `(c,)` scores before the first round.
        blocks: For each of these rounds the pair units (kernel, bias, pairs), the
            `ProductUnits` or `None`, and the readout with the intercept last.
    """

    member: Member
    held_scores: np.ndarray
    losses: list
    rounds: int
    start: np.ndarray
    blocks: list


def boost(
    x, targets, held_x, held_targets, loss, rng, groups, settings, weight, held_weight
):
    """Boosts until the loss of held-out rows does not fall any more.

    Args:
        x: `(n, d)` float32, the standard view of a table.
        targets: `(n, c)`: one-hot, 0 and 1, or real numbers.
        held_x, held_targets: Rows that say when to stop.
        loss: `CrossEntropy` or `SquaredError`.
        rng: `numpy.random.Generator`.
        groups: `(d,)` column of the table behind each column.
        settings: `Boosting`.
        weight, held_weight: `(n,)` and `(m,)`.

    Returns:
        A `Boosted`.
    """
    settings = _complete(settings, targets.shape[1])
    n = len(x)
    # In random order any slice of the rows is a sample of them, without copies.
    order = rng.permutation(n)
    both = np.ascontiguousarray(np.concatenate([x[order], held_x]).T)
    targets = targets[order].astype("float32")
    weight = weight[order].astype("float32")
    bins = find_bins(both[:, :n]) if settings.product_units else None
    start = loss.start(targets, weight)
    scores = np.repeat(start.astype("float32")[None], both.shape[1], axis=0)
    judged, factor = loss.judge(scores[n:], held_targets, held_weight, 1.0)
    losses = [judged]
    best, kept, blocks = judged, 0, []
    held_scores = scores[n:].copy()
    while len(blocks) < settings.rounds and len(blocks) - kept < settings.patience:
        gradient, curvature = loss.derivatives(scores[:n], targets)
        problem = Problem(
            both[:, :n],
            gradient * weight[:, None],
            curvature * weight[:, None],
            _some_rows(n, settings.scoring_rows, rng),
            settings.penalty,
        )
        block, phi = _draw_block(problem, bins, rng, groups, settings, both)
        readout = settings.step * _solve(phi[:, :n], problem)
        scores += phi.T @ readout.astype("float32")
        blocks.append((*_renumbered(block, order), readout))
        judged, factor = loss.judge(scores[n:], held_targets, held_weight, factor)
        losses.append(judged)
        if judged < best - _WORTHWHILE * losses[0]:
            best, kept, held_scores = judged, len(blocks), scores[n:].copy()
    blocks = blocks[:kept]
    member = _merged(blocks, start)
    return Boosted(member, held_scores, losses, kept, start, blocks)


def _complete(settings, outputs):
    """The settings, with what depends on the number of outputs."""
    terms, count = settings.terms, settings.product_units
    if terms is None:
        # A tree for several outputs must part them, too.
        terms = 4 if outputs == 1 else 5
    if count is None:
        # So must it more of them; but each has a system to solve for all units, and
        # of ten and more that takes too long.
        trees = 2 if 5 <= outputs < 10 else 1
        count = trees * 2**terms
    return replace(settings, terms=terms, product_units=count)


def _some_rows(n, most, rng):
    """A slice of at most `most` rows; all rows are in one of those it may be."""
    if n <= most:
        return slice(0, n)
    pieces = -(-n // most)
    start = int(rng.integers(pieces)) * (n - most) // (pieces - 1)
    return slice(start, start + most)


def _draw_block(problem, bins, rng, groups, settings, x):
    """The units of a round, and `(k + 1, n)` values at `x`, the intercept last."""
    pair_units = choose_pair_units(
        problem,
        settings.pair_units,
        settings.tries,
        rng,
        groups,
        settings.subset_sizes,
        settings.scales,
    )
    kernel, bias, _ = pair_units
    phi = kernel.T @ x
    phi += bias[:, None]
    values = [np.tanh(phi, out=phi)]
    products = None
    if bins is not None:
        products, found = grow_product_units(
            problem, bins, settings.product_units, rng, settings.terms, "standard", x
        )
        values.append(found)
    values.append(np.ones((1, x.shape[1]), "float32"))
    return (pair_units, products), np.concatenate(values)


def _renumbered(block, order):
    """The units of a round, their pairs numbered as the rows were given."""
    (kernel, bias, pairs), products = block
    if products is not None:
        products = replace(products, pairs=order[products.pairs])
    return (kernel, bias, order[pairs]), products


def _solve(phi, problem):
    """`(k + 1, c)` readout of a round."""
    k, c = len(phi), problem.gradient.shape[1]
    sides = (phi @ problem.gradient).astype(float)
    penalty = np.full(k, problem.penalty)
    penalty[-1] = _INTERCEPT_PENALTY
    systems = np.empty((c, k, k))
    for system, curvature in zip(systems, problem.curvature.T, strict=True):
        system[:] = (phi * curvature) @ phi.T
    systems[:, np.arange(k), np.arange(k)] += penalty
    return np.linalg.solve(systems, sides.T[:, :, None])[:, :, 0].T


def _merged(blocks, start):
    """All rounds as one `Member`."""
    if not blocks:
        return Member([], np.zeros((0, len(start))), start.astype(float))
    pair_units, products, readouts = zip(*blocks, strict=True)
    parts: list = [
        PairUnits(
            "standard",
            np.concatenate([kernel for kernel, _, _ in pair_units], axis=1),
            np.concatenate([bias for _, bias, _ in pair_units]),
            np.concatenate([pairs for _, _, pairs in pair_units]),
        )
    ]
    if products[0] is not None:
        names = ("columns", "slopes", "offsets", "pairs")
        parts.append(
            ProductUnits(
                "standard",
                *(
                    np.concatenate([getattr(one, name) for one in products])
                    for name in names
                ),
            )
        )
    # Pair units of all rounds first, then all products.
    counts = [len(bias) for _, bias, _ in pair_units]
    kernel = np.concatenate(
        [one[:count] for one, count in zip(readouts, counts, strict=True)]
        + [one[count:-1] for one, count in zip(readouts, counts, strict=True)]
    )
    bias = start + np.sum([one[-1] for one in readouts], axis=0)
    return Member(parts, kernel, bias)
