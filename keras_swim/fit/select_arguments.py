"""The arguments of `swim_select`, checked before anything runs."""

import itertools
from numbers import Integral

import numpy as np

from keras_swim.core.solvers import check_l2
from keras_swim.core.surface import RULES
from keras_swim.fit.columns import unit_numbers
from keras_swim.fit.readouts import REGRESSION

METHODS = ("auto", "validation", "folds", "leave_one_out")
PENALTIES = 10.0 ** np.arange(-7, 3)


def check_rule(rule):
    if rule not in RULES:
        raise ValueError(
            f"`rule` must be one of {', '.join(map(repr, RULES))}. Received: {rule!r}"
        )


def check_method(method, folds, validation_data, validation_split):
    if method not in METHODS:
        raise ValueError(
            f"`method` must be one of {', '.join(map(repr, METHODS))}. "
            f"Received: method={method!r}"
        )
    if validation_data is not None and validation_split:
        raise ValueError("Pass `validation_data` or `validation_split`, not both.")
    given = validation_data is not None or bool(validation_split)
    if method == "auto":
        method = "validation" if given else "folds"
    if (method == "validation") != given:
        need = "needs" if method == "validation" else "does not use"
        raise ValueError(
            f'`method="{method}"` {need} validation data. Received: '
            f"validation_data={'given' if validation_data is not None else None}, "
            f"validation_split={validation_split!r}."
        )
    if not (isinstance(folds, Integral) and folds >= 2):
        raise ValueError(f"`folds` must be an integer, 2 or more. Received: {folds!r}")
    return method


def check_penalties(l2):
    if l2 is None:
        return PENALTIES
    penalties = np.unique(np.asarray(l2, dtype=float))
    for value in penalties:
        check_l2(float(value))
    if not len(penalties) or penalties[0] == 0:
        raise ValueError(
            f"`l2` must be a list of positive numbers. Received: l2={l2!r}"
        )
    return penalties


def check_widths(widths, units):
    if widths is None:
        ladder = np.round(units * 2.0 ** (-np.arange(12) / 2)).astype(int)
        return np.unique(ladder[ladder >= min(units, 8)])
    if isinstance(widths, str):
        if widths != "all":
            raise ValueError(
                f'`widths` must be a list of integers or "all". Received: {widths!r}'
            )
        return np.arange(1, units + 1)
    found = np.unique(np.asarray(widths))
    if (
        not len(found)
        or found.dtype.kind not in "iu"
        or not (1 <= found[0] and found[-1] <= units)
    ):
        raise ValueError(
            f"`widths` must be integers from 1 to {units}, the units of the last "
            f"SampledDense. Received: widths={widths!r}"
        )
    return found


def check_lines(method, augmentation, readout):
    """Raises where a row would have to be left out in several parts."""
    if method == "leave_one_out" and (augmentation is not None or readout.positions):
        raise ValueError(
            '`method="leave_one_out"` leaves out one line of features, and here a '
            "row has several (augmented copies, or positions): the others would "
            'give it away. Use `method="folds"` or validation data.'
        )


def check_metric(metric, readout):
    if metric not in ("loss", "accuracy"):
        raise ValueError(
            f'`metric` must be "loss" or "accuracy". Received: metric={metric!r}'
        )
    if metric == "accuracy" and readout.kind == REGRESSION:
        raise ValueError(
            '`metric="accuracy"` is for classes. The targets are real numbers: use '
            '`metric="loss"`.'
        )


def last_layer(plan):
    if len(plan.readouts) != 1:
        raise ValueError(
            "`swim_select` takes models with one output. Received: a model with "
            f"{len(plan.readouts)}. Select for each output alone."
        )
    if not plan.sampled:
        raise ValueError(
            "`swim_select` chooses the width of the last SampledDense. Received: a "
            "model without a trainable one."
        )
    layer = plan.sampled[-1].operation
    numbers = unit_numbers(plan, plan.readouts[0].features, layer)
    if numbers is None or not (numbers >= 0).any():
        raise ValueError(
            f"The columns of the readout's input cannot be traced back to the units "
            f"of {layer.name!r}, so its width cannot be chosen. Between the two only "
            "layers that treat each column for itself may stand (Activation, "
            "BatchNormalization, Dropout, Concatenate, Add, ...)."
        )
    return layer, numbers


def variants_of(layer, plan, scales, seeds, options):
    scales = [layer.scale] if scales is None else np.ravel(scales).tolist()
    if not scales or not all(0 < scale < np.inf for scale in scales):
        raise ValueError(
            f"`scales` must be positive numbers. Received: scales={scales!r}"
        )
    if seeds is None:
        seeds = [options.seed]
    else:
        seeds = np.ravel(seeds).tolist()
        if not seeds or not all(isinstance(s, Integral) and s >= 0 for s in seeds):
            raise ValueError(
                f"`seeds` must be non-negative integers. Received: seeds={seeds!r}"
            )
        fixed = [step.path for step in plan.sampled if step.operation.seed is not None]
        if fixed:
            raise ValueError(
                f"The layer(s) {fixed} have a seed of their own, so `seeds` would "
                "change nothing. Create them without one."
            )
    return list(itertools.product(scales, seeds))
