"""Held-out scores of every width and penalty, by three methods.

A judge is made when the hidden layers are sampled. It passes over the rows,
and then can tell the `Surface` of any widths and penalties, the scores of some
held-out rows for one of them, and the state of all training rows.
"""

import numpy as np

from keras_swim.core.folds import untouched_units
from keras_swim.core.readout import ReadoutState
from keras_swim.core.surface import Tally, same_class, same_sides
from keras_swim.core.widths import NestedDual, nested, renumbered
from keras_swim.data.pool import pool_indices
from keras_swim.fit.columns import unit_rows
from keras_swim.fit.dataset import joined
from keras_swim.fit.options import FOLD_STREAM
from keras_swim.fit.passes import feature_blocks
from keras_swim.fit.readouts import CLASSES, REGRESSION
from keras_swim.fit.rows import SpooledRows

# Rows that are enough to fit a temperature and to report metrics.
_SOME_ROWS = 2048
# Rows whose leave-one-out scores are computed.
_LEFT_OUT_ROWS = 4096
# Elements of a block of features that is scored for many widths.
_RUNNING_ELEMENTS = 1 << 24
# Bytes of coefficients, and of scores, that are held at a time.
_MEMORY = 256 << 20


class _Judge:
    """What the three have in common.

    Args:
        plan: `Plan` with one readout, its hidden layers sampled.
        data: `Dataset` of the training rows.
        numbers: `(k,)` unit of the last sampled layer behind each column.
        widths: Widths to judge, ascending.
        options: `Options`.
        progress: `Progress`.
    """

    def __init__(self, plan, data, numbers, widths, options, progress):
        self.plan, self.data, self.numbers = plan, data, numbers
        self.widths = widths
        self.options, self.progress = options, progress
        self.readout = plan.readouts[0]
        self.state: ReadoutState

    def _tally(self, l2):
        right = None
        if self.readout.kind != REGRESSION:
            right = same_class if self.readout.kind == CLASSES else same_sides
        return Tally(self.widths, l2, right)

    def _blocks(self, data):
        return feature_blocks(self.plan, data, 0, self.options)

    def _make_state(self, units, offsets=None):
        return ReadoutState(
            units, self.readout.units, dtype=self.options.sums_dtype, offsets=offsets
        )

    def _pass(self, index=()):
        """Passes over all rows, and keeps some.

        Args:
            index: Sorted numbers of the rows whose features are kept.

        Yields:
            The slice of row numbers, features, targets and weights.
        """
        kept = []
        title = "adding up the features of all rows"
        with self.progress.stage("sums", title, self.data.count):
            for part, *arrays in self._blocks(self.data):
                self.dtype = arrays[0].dtype
                low, high = np.searchsorted(index, (part.start, part.stop))
                if low < high:
                    each = len(arrays[0]) // (part.stop - part.start)
                    inside = np.asarray(index[low:high]) - part.start
                    inside = (inside[:, None] * each + np.arange(each)).ravel()
                    kept.append([array[inside] for array in arrays])
                yield (part, *arrays)
                self.progress.advance(part.stop - part.start)
        if kept:
            self.kept = joined(kept)

    def _add_up(self, index=()):
        """The state of all rows."""
        state = None
        for _, features, targets, weight in self._pass(index):
            if state is None:
                state = self._make_state(features.shape[1])
            state.update(features, targets, weight)
        return state

    def close(self):
        """Frees files."""


class ByValidation(_Judge):
    """Rows that took no part in sampling or solving.

    Args:
        validation: `Dataset`; the others as in `_Judge`.
    """

    def __init__(self, plan, data, numbers, widths, options, progress, validation):
        super().__init__(plan, data, numbers, widths, options, progress)
        self.state = self._add_up()
        self.path = nested(self.state, numbers, widths=len(widths))
        # Every penalty looks at them again: kept, in memory or in a file.
        self.held = SpooledRows()
        try:
            for _, *arrays in self._blocks(validation):
                self.held.append(arrays)
        except BaseException:
            self.close()
            raise

    def surface(self, l2):
        tally = self._tally(l2)
        for _, (_, _, weight) in self._held_blocks():
            tally.count_rows(weight)
        total = self.held.count * len(l2)
        with self.progress.stage("scores", "scoring widths and penalties", total):
            # Many widths: running sums over the columns. Few: coefficients.
            many = len(self.widths) * self.readout.units > self.state.units
            if many and not isinstance(self.path, NestedDual):
                self._running(tally, l2)
            else:
                self._by_coefficients(tally, l2)
        return tally.surface()

    def _running(self, tally, l2):
        # A triangular solve for each: the more rows at a time the better.
        size = max(256, _RUNNING_ELEMENTS // self.state.units)
        # One block is read, and centred, once for all penalties.
        once = list(self.held.blocks(size)) if self.held.count <= size else None
        for j, penalty in enumerate(l2):
            blocks = self.held.blocks(size) if once is None else once
            for part, (features, targets, weight) in blocks:
                scored = self.path.running_scores(penalty, features, self.widths)
                for where, scores, _ in scored:
                    tally.add(scores, targets, weight, (where, j), axis=0)
                self.progress.advance(part.stop - part.start)

    def _by_coefficients(self, tally, l2):
        for where in _penalty_chunks(self.state, self.widths, l2, 1):
            table = _Table(self.path, self.widths, l2[where], self.dtype)
            for part, (features, targets, weight) in self._held_blocks():
                table.score(features, targets, weight, tally, where)
                self.progress.advance((part.stop - part.start) * len(l2[where]))

    def _held_blocks(self):
        return self.held.blocks(self.options.block_rows)

    def held_out(self, width, l2):
        """Scores, targets and weights of some held-out rows."""
        index = pool_indices(
            self.held.count, _SOME_ROWS, self.options.generator(FOLD_STREAM)
        )
        features, targets, weight = self.held.take(index)
        kernels, biases = self.path.coefficients(l2, [width])
        return _scores(features, kernels[:, 0], biases[0]), targets, weight

    def close(self):
        self.held.close()


class ByLeaveOneOut(_Judge):
    """Each row by all others, the units left as they are.

    Cheap and without a second pass, but a row's own units judge it too: with
    few rows a little optimistic.
    """

    def __init__(self, plan, data, numbers, widths, options, progress):
        super().__init__(plan, data, numbers, widths, options, progress)
        rng = options.generator(FOLD_STREAM)
        self.state = self._add_up(pool_indices(data.count, _LEFT_OUT_ROWS, rng))
        self.path = nested(self.state, numbers, widths=len(widths))
        if isinstance(self.path, NestedDual):
            self.kept = self.state.rows()

    def surface(self, l2):
        tally = self._tally(l2)
        _, targets, weight = self.kept
        tally.count_rows(weight)
        title = "scoring widths and penalties"
        with self.progress.stage("scores", title, len(l2), "penalty"):
            for j, penalty in enumerate(l2):
                for where, scores in self._left_out(self.widths, penalty):
                    tally.add(scores, targets, weight, (where, j), axis=0)
                self.progress.advance(1)
        return tally.surface()

    def _left_out(self, widths, l2):
        """Yields slices of the widths and `(c, widths, m)` leave-one-out scores."""
        features, targets, weight = self.kept
        targets = targets.T[:, None]
        if isinstance(self.path, NestedDual):
            for i, width in enumerate(widths):
                gaps = self.path.left_out(l2, width)
                yield slice(i, i + 1), targets - gaps.T[:, None]
            return
        scored = self.path.running_scores(l2, features, widths, weight)
        for where, scores, rest in scored:
            rest = np.maximum(rest, np.finfo(float).eps)
            yield where, targets - (targets - scores) / rest

    def held_out(self, width, l2):
        ((_, scores),) = self._left_out([width], l2)
        return scores[:, 0].T, self.kept[1], self.kept[2]


class ByFolds(_Judge):
    """Each row by the rows of other folds and by units that it has not made.

    With 5 folds about 64 % of the units are left for each. Widths above that are
    all judged by what is left.

    Args:
        folds: Number of folds; the others as in `_Judge`.
    """

    def __init__(self, plan, data, numbers, widths, options, progress, folds):
        super().__init__(plan, data, numbers, widths, options, progress)
        rng = options.generator(FOLD_STREAM)
        labels = self.readout.labels(data.y[0])
        rows = data.held_out(rng, labels, folds=folds, enough=data.count + 1)
        self.fold_of = np.empty(data.count, dtype=int)
        for number, index in enumerate(rows):
            self.fold_of[index] = number
        index = pool_indices(data.count, _SOME_ROWS, rng)
        states = self._fold_states(len(rows), index)
        self.kept_folds = np.repeat(
            self.fold_of[index], len(self.kept[0]) // len(index)
        )
        self.state = states[0].copy()
        for state in states[1:]:
            self.state.merge(state)
        pairs = unit_rows(plan, self.readout.features)
        self.paths, self.limit = [], int(numbers.max()) + 1
        for number, index in enumerate(rows):
            keep = np.ones(len(numbers), dtype=bool)
            if pairs is not None:
                keep = untouched_units(pairs, data.origins[index], data.count)
            # The first units of those that are left: a width is judged with as
            # many units as it has, while there are so many.
            left = renumbered(numbers, keep)
            self.limit = min(self.limit, int(left[keep].max(initial=-1)) + 1)
            self.paths.append(
                nested(self._without(states, number), left, keep, len(widths))
            )

    def _fold_states(self, folds, index):
        states: list[ReadoutState] = []
        for part, features, targets, weight in self._pass(index):
            if not states:
                # The same offsets for all, so that folds add up at once.
                offsets = features.mean(axis=0, dtype=float), targets.mean(axis=0)
                states = [
                    self._make_state(features.shape[1], offsets) for _ in range(folds)
                ]
            fold = self._folds(part, len(targets))
            for number, state in enumerate(states):
                here = np.flatnonzero(fold == number)
                if len(here):
                    state.update(features[here], targets[here], weight[here])
        return states

    def _folds(self, part, size):
        fold = self.fold_of[part]
        return np.repeat(fold, size // len(fold))

    def _without(self, states, number):
        if not self.state.keeps_rows:
            return self.state.copy().subtract(states[number])
        others = [state for i, state in enumerate(states) if i != number]
        merged = self._make_state(self.state.units)
        for state in others:
            merged.merge(state)
        return merged

    def surface(self, l2):
        tally = self._tally(l2)
        chunks = _penalty_chunks(self.state, self.widths, l2, len(self.paths))
        total = self.data.count * len(chunks)
        with self.progress.stage("scores", "scoring held-out rows", total):
            for where in chunks:
                tables = [
                    _Table(path, self.widths, l2[where], self.dtype)
                    for path in self.paths
                ]
                for part, features, targets, weight in self._blocks(self.data):
                    if where.start == 0:
                        tally.count_rows(weight)
                    fold = self._folds(part, len(targets))
                    for number, table in enumerate(tables):
                        here = np.flatnonzero(fold == number)
                        if len(here):
                            table.score(
                                features[here],
                                targets[here],
                                weight[here],
                                tally,
                                where,
                            )
                    self.progress.advance(part.stop - part.start)
        return tally.surface(self.limit)

    def held_out(self, width, l2):
        features, targets, weight = self.kept
        scores = np.empty(targets.shape)
        for number, path in enumerate(self.paths):
            here = np.flatnonzero(self.kept_folds == number)
            kernels, biases = path.coefficients(l2, [width])
            scores[here] = _scores(features[here], kernels[:, 0], biases[0])
        return scores, targets, weight


class _Table:
    """Coefficients of all widths and some penalties, side by side."""

    def __init__(self, path, widths, l2, dtype):
        found = [path.coefficients(penalty, widths) for penalty in l2]
        # In the dtype of the features, as the model will compute.
        kernels = np.stack([kernel.astype(dtype) for kernel, _ in found], axis=2)
        self.shape = kernels.shape[1:]
        self.kernels = kernels.reshape(len(kernels), -1)
        self.biases = np.stack([bias for _, bias in found], axis=1)

    def score(self, features, targets, weight, tally, where):
        size = max(1, _MEMORY // (8 * self.kernels.shape[1]))
        for start in range(0, len(features), size):
            part = slice(start, start + size)
            scores = features[part] @ self.kernels
            scores = scores.reshape(-1, *self.shape) + self.biases
            tally.add(scores, targets[part], weight[part], (slice(None), where))


def _penalty_chunks(state, widths, l2, paths):
    """Slices of the penalties whose coefficients fit in memory together."""
    each = 4 * state.units * len(widths) * state.outputs * paths
    size = max(1, _MEMORY // each)
    return [slice(at, min(at + size, len(l2))) for at in range(0, len(l2), size)]


def _scores(features, kernel, bias):
    return features @ kernel.astype(features.dtype) + bias
