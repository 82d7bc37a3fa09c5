"""One pass over all rows, then the readouts: ridge, solution, calibration."""

import numpy as np

from keras_swim.core.folds import (
    ENOUGH_FOR_TEMPERATURE,
    ENOUGH_ROWS,
    untouched_units,
)
from keras_swim.core.ridge import Fold, choose_l2, held_out_scores
from keras_swim.core.solvers import factor
from keras_swim.fit.checkpoint import Checkpoint
from keras_swim.fit.columns import unit_rows
from keras_swim.fit.dataset import feed
from keras_swim.fit.metrics import activated, held_out_metrics
from keras_swim.fit.options import FOLD_STREAM
from keras_swim.fit.passes import block_targets, feature_rows
from keras_swim.fit.segment import Segment, block_count
from keras_swim.fit.sums import DeviceSums, HostSums, TriangleSums


def add_up(plan, data, options, progress, sums_file=None, keep_state=False):
    """One pass over all rows: the sums of every readout.

    Args:
        sums_file: `None`, or where to keep the sums of an unfinished pass.
        keep_state: Whether the state of all rows will be asked for.
    """
    folds = _folds(plan, data, options)
    only_solved = not (folds or keep_state or sums_file is not None)
    group = np.full(data.count, -1)
    for number, rows in enumerate(folds):
        group[rows] = number
    checkpoint = None
    if sums_file is not None:
        checkpoint = Checkpoint(sums_file, plan, data, group, options)
    keys = [readout.features for readout in plan.readouts]
    blocks = block_count(data.count, options.block_rows)
    segment = Segment(plan.trunk, plan.cut, keys, blocks)
    sums = None
    found = None if checkpoint is None else checkpoint.load()
    states, start = found or (None, 0)
    with progress.stage("sums", "adding up the features of all rows", data.count):
        if start:
            progress.advance(start)
        for part, arrays in data.rows.blocks(options.block_rows, start):
            features = segment.tensors(feed(plan.graph, plan.cut, arrays))
            if sums is None:
                sums = [
                    _make_sums(
                        readout,
                        features[i],
                        data.count,
                        len(folds),
                        only_solved,
                        options,
                    )
                    for i, readout in enumerate(plan.readouts)
                ]
                if states is not None:
                    for one, known in zip(sums, states, strict=True):
                        one.states = known
            for i, readout in enumerate(plan.readouts):
                targets, weight = block_targets(readout, data, i, part)
                positions = len(targets) // (part.stop - part.start)
                sums[i].update(
                    features[i], targets, weight, np.repeat(group[part], positions)
                )
            progress.advance(part.stop - part.start)
            if checkpoint is not None and part.stop < data.count:
                parts = [one.states for one in sums]
                if None not in parts:
                    checkpoint.save(parts, part.stop)
            # Or two blocks of features would live while the next is made.
            del features, arrays
    if checkpoint is not None:
        checkpoint.remove()
    return sums, folds


def solve_readouts(plan, data, sums, folds, options, progress):
    """Chooses, solves and assigns every readout.

    Returns:
        The logs; for each readout its outputs on the held-out rows, fold
        after fold (`None` if no rows were held out); and its state (`None` if
        there is none).
    """
    logs, solved, outputs, states = {}, [], [], []
    stage = progress.stage(
        "solve", "choosing the ridge and solving", len(plan.readouts), "readout"
    )
    with stage:
        for i, readout in enumerate(plan.readouts):
            prefix = plan.log_prefix(readout)
            l2, temperature, held = _choose(plan, data, sums[i], folds, i, options)
            found, state = sums[i].solved(
                l2,
                options.solver,
                blocks=lambda i=i: feature_rows(plan, data, i, options),
            )
            kernel, bias = found.kernel, found.bias
            logs[f"{prefix}l2"] = l2
            if state is not None:
                # A cut-off of singular values is no penalty to go on with.
                state.l2 = None if options.solver == "svd" else l2
                if temperature is not None:
                    state.temperature = np.asarray(temperature)
            if temperature is not None:
                kernel, bias = readout.calibrate(kernel, bias, temperature)
                logs[f"{prefix}temperature"] = float(np.mean(temperature))
            logs.update({f"{prefix}cv_{name}": value for name, value in held.items()})
            solved.append((readout.layer, kernel, bias))
            outputs.append(_fold_outputs(readout, sums[i], folds, kernel, bias))
            states.append(state)
            progress.advance(1)
    for layer, kernel, bias in solved:
        if not (np.isfinite(kernel).all() and np.isfinite(bias).all()):
            raise ValueError(
                f"The readout {layer.name!r} came out with numbers that are "
                "not finite. Its features overflow: check the layers before it."
            )
        layer._kernel.assign(kernel)
        layer.bias.assign(bias)
    return logs, outputs, states


def _folds(plan, data, options):
    if not (options.chooses_l2 or any(readout.calibrated for readout in plan.readouts)):
        return []
    labels = plan.readouts[0].labels(data.y[0])
    enough = ENOUGH_ROWS if options.chooses_l2 else ENOUGH_FOR_TEMPERATURE
    return data.held_out(options.generator(FOLD_STREAM), labels, enough=enough)


def _make_sums(readout, features, rows, folds, only_solved, options):
    units = features.shape[-1]
    if only_solved and options.solver in ("qr", "svd"):
        return TriangleSums(units, readout.units)
    rows *= int(np.prod(features.shape[1:-1]))
    if options.on_device and rows > units and options.solver in ("auto", "cholesky"):
        return DeviceSums(units, readout.units, folds, options.sums_dtype)
    form = "rows" if options.solver == "dual" else "auto"
    return HostSums(units, readout.units, folds, form, options.sums_dtype)


def _choose(plan, data, sums, folds, number, options):
    """The ridge, the temperature and metrics, all from held-out rows."""
    readout = plan.readouts[number]
    parts = _factored(plan, data, sums, folds, readout, options)
    l2 = choose_l2(parts).l2 if options.chooses_l2 else options.given_l2
    if not parts:
        return l2, None, {}
    scores, targets, weight = held_out_scores(parts, l2)
    temperature = None
    if readout.calibrated:
        temperature = readout.temperature(scores, targets, weight)
    return (
        l2,
        temperature,
        held_out_metrics(readout, scores, targets, weight, temperature),
    )


def _factored(plan, data, sums, folds, readout, options):
    pairs = unit_rows(plan, readout.features)
    parts = []
    for number, rows in enumerate(folds):
        keep = None
        if pairs is not None:
            keep = untouched_units(pairs, data.origins[rows], data.count)
        state = sums.state_without(number)
        path = factor(state, keep, many=options.chooses_l2)
        parts.append(Fold(path, sums.scorer(number), *sums.held_out(number)))
    return parts


def _fold_outputs(readout, sums, folds, kernel, bias):
    """What the fitted model gives for the held-out rows."""
    if not folds:
        return None
    scores = [sums.scorer(number)(kernel, bias) for number in range(len(folds))]
    return activated(readout, np.concatenate(scores))
