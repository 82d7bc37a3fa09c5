"""swim_fit of a model of boosted blocks (`SwimBoost`)."""

from typing import Any, NamedTuple

import numpy as np

from keras_swim.core.boosting import Boosting, CrossEntropy, SquaredError, boost
from keras_swim.core.folds import held_out_folds
from keras_swim.core.table_boost import both_sides
from keras_swim.core.table_columns import NumberColumn, learn_columns
from keras_swim.fit.dataset import joined, output_weights, weighted_by_class
from keras_swim.fit.metrics import compiled_metrics, held_out_metrics, output_metrics
from keras_swim.fit.one_epoch import begin, end
from keras_swim.fit.options import FOLD_STREAM, check_options, refuse_options
from keras_swim.fit.prepare import check_rows, open_data
from keras_swim.fit.progress import Progress
from keras_swim.fit.readouts import CLASSES, REGRESSION, ReadoutLayer
from keras_swim.fit.snapshot import forget_compiled, undone_on_failure
from keras_swim.layers.boost_readout import BoostReadout
from keras_swim.layers.number_columns import NumberColumns

_METRIC_ROWS = 2048


class _Rows(NamedTuple):
    """All rows of some data.

    Attributes:
        x: `(n, d)` float64.
        y: Prepared targets.
        raw_y: Targets as they were given.
        weight: `(n,)`, or `None`.
    """

    x: np.ndarray
    y: np.ndarray
    raw_y: np.ndarray
    weight: np.ndarray | None

    @property
    def weights(self):
        return np.ones(len(self.x)) if self.weight is None else self.weight


class _Target(NamedTuple):
    """What is boosted, and what the model shows of it.

    Attributes:
        loss: `CrossEntropy` or `SquaredError`.
        one: Whether one logit stands for two classes.
        mean, spread: `(c,)` of real targets.
    """

    loss: Any
    one: bool
    mean: np.ndarray
    spread: np.ndarray

    def inside(self, targets):
        """Targets as boosting sees them."""
        return targets[:, 1:] if self.one else (targets - self.mean) / self.spread

    def outside(self, scores, shift=True):
        """Scores, or (without a shift) readouts, as the model has them."""
        if self.one:
            return both_sides(scores)
        scores = self.spread * scores
        return scores + self.mean if shift else scores


def is_boosted(model):
    """Whether a model has blocks that are fitted by boosting."""
    return any(isinstance(layer, BoostReadout) for layer in _layers(model))


def fit_boosted(
    model,
    x,
    y,
    *,
    validation_data,
    validation_split,
    sample_weight,
    class_weight,
    seed,
    callbacks,
    verbose,
    others,
):
    """Fits all blocks; arguments as for `swim_fit`.

    Args:
        others: Dict of arguments that do not apply here, by name, with their
            values and defaults.
    """
    refuse_options(others, "of boosted blocks")
    options = check_options("auto", "auto", seed, "float64", "host", None, model)
    bags = _bags(model)
    readout = _readout(model, bags)
    reader, validation = open_data(
        model, x, y, sample_weight, validation_data, validation_split
    )
    progress = Progress(verbose, stages=2 + (validation is not None))
    fitted = [layer for layer in model.layers if layer.weights]
    told = begin(callbacks, model)
    with undone_on_failure(model, fitted):
        held = None
        with progress.stage("features", "reading the data", reader.source.rows):
            rows = _read(reader, readout, options, progress, class_weight)
        if validation is not None:
            title = "reading the validation data"
            with progress.stage("features", title, validation.source.rows):
                held = _read(validation, readout, options, progress)
        check_rows(len(rows.x))
        readout.check_whole(rows.y)
        logs = _fit(model, bags, readout, rows, held, options, progress)
        forget_compiled(model)
        some = slice(0, _METRIC_ROWS)
        logs.update(_metrics(model, readout, rows, some))
        if held is not None:
            found = _metrics(model, readout, held, slice(None))
            logs.update({f"val_{name}": value for name, value in found.items()})
    end(told, logs, progress)
    return model.history


def _layers(model):
    try:
        return model.layers
    except (AttributeError, ValueError):
        return []


def _bags(model):
    """For each bag its blocks: layers of pairs, of products (or `None`), readout."""
    bags: dict = {}
    for layer in model.layers:
        if isinstance(layer, BoostReadout):
            names = [other.name for other in model.layers]
            products = f"{layer.name}_products"
            block = (
                model.get_layer(f"{layer.name}_pairs"),
                model.get_layer(products) if products in names else None,
                layer,
            )
            bags.setdefault(layer.bag, []).append(block)
    return [
        sorted(blocks, key=lambda block: block[2].block)
        for _, blocks in sorted(bags.items())
    ]


def _readout(model, bags):
    last = model.layers[-1]
    activation = getattr(getattr(last, "activation", None), "__name__", "linear")
    return ReadoutLayer(bags[0][0][2], model.output_names[0], 0, activation)


def _read(reader, readout, options, progress, class_weight=None):
    parts, seen = [], 0
    for batch in reader.batches(options.block_rows):
        if len(batch.x) != 1 or len(batch.y) != 1:
            raise ValueError(
                "A model of boosted blocks has one input and one output. Received: "
                f"{len(batch.x)} array(s) in x, {len(batch.y)} in y."
            )
        y = readout.prepare(batch.y[0], seen)
        (weight,) = output_weights(batch, [readout])
        parts.append((batch.x[0].astype(float), y, batch.y[0], weight))
        seen += batch.rows
        progress.advance(batch.rows)
    x, y, raw_y, weight = joined(parts)
    if np.isinf(x).any():
        raise ValueError(
            "Expected finite numbers (or NaN, missing) in x. Received: inf."
        )
    if class_weight is not None:
        (weight,) = weighted_by_class([readout], [y], [weight], class_weight)
    return _Rows(x, y, raw_y, weight)


def _fit(model, bags, readout, rows, held, options, progress):
    rng = options.generator(FOLD_STREAM)
    (columns_layer,) = (one for one in model.layers if isinstance(one, NumberColumns))
    table = dict(enumerate(rows.x.T))
    columns = learn_columns(table, rows.weights)
    _assign_columns(columns_layer, columns)
    x = columns.transform(table)
    targets = readout.targets(rows.y)
    target = _target(readout, targets, rows.weights)
    settings = _settings(bags)
    folds = [None] * len(bags)
    if held is None:
        folds = _folds(len(x), rng, readout.labels(rows.y), len(bags))
    else:
        held_x = columns.transform(dict(enumerate(held.x.T)))
        held_targets = readout.targets(held.y)
    scores, wanted, weights, rounds = [], [], [], []
    fits = []
    with progress.stage("boosting", "boosting", len(bags), "bag"):
        for fold in folds:
            if fold is None:
                inside = np.arange(len(x))
                outside = held_x, held_targets, held.weights
            else:
                inside = np.setdiff1d(np.arange(len(x)), fold)
                outside = x[fold], targets[fold], rows.weights[fold]
            found = boost(
                x[inside],
                target.inside(targets[inside]),
                outside[0],
                target.inside(outside[1]),
                target.loss,
                rng,
                columns.groups,
                settings,
                rows.weights[inside],
                outside[2],
            )
            fits.append((found, inside))
            scores.append(target.outside(found.held_scores))
            wanted.append(outside[1])
            weights.append(outside[2])
            rounds.append(found.rounds)
            progress.advance(1)
    scores, wanted, weights = (
        np.concatenate(parts) for parts in (scores, wanted, weights)
    )
    temperature = None
    logs: dict = {"rounds": float(np.mean(rounds))}
    if readout.kind != REGRESSION:
        if readout.kind != CLASSES:
            # Scores of yes and no lie around 1/2 for the calibration.
            scores = scores + 0.5
        temperature = readout.temperature(scores, wanted, weights)
        logs["temperature"] = float(np.mean(temperature))
    found = held_out_metrics(readout, scores, wanted, weights, temperature)
    logs.update({f"cv_{name}": value for name, value in found.items()})
    factor = 1.0 if temperature is None else temperature
    for blocks, (fit, inside) in zip(bags, fits, strict=True):
        _assign_bag(blocks, fit, inside, columns, target, factor)
    return logs


def _target(readout, targets, weight):
    c = targets.shape[1]
    zero, unit = np.zeros(c), np.ones(c)
    if readout.kind == CLASSES:
        one = c == 2
        return _Target(CrossEntropy(separate=one), one, zero, unit)
    if readout.kind != REGRESSION:
        return _Target(CrossEntropy(separate=True), False, zero, unit)
    mean = weight @ targets / weight.sum()
    spread = np.sqrt(weight @ (targets - mean) ** 2 / weight.sum())
    return _Target(SquaredError(), False, mean, np.where(spread > 0, spread, 1.0))


def _settings(bags):
    pairs, products, readout = bags[0][0]
    rounds = sum(block[2].rounds for block in bags[0])
    return Boosting(
        rounds=rounds,
        pair_units=pairs.units // readout.rounds,
        product_units=0 if products is None else products.units // readout.rounds,
        terms=1 if products is None else products.terms,
    )


def _folds(n, rng, labels, bags):
    if bags == 1:
        # One bag: a fifth of the rows says when to stop.
        return held_out_folds(n, rng, labels, folds=5, enough=n + 1)[:1]
    if n < 2 * bags:
        raise ValueError(
            f"Each of {bags} bags needs rows to be held out. Received: {n} rows. Pass "
            "more rows, or build the model with fewer bags."
        )
    return held_out_folds(n, rng, labels, folds=bags, enough=n + 1)


def _assign_columns(layer, columns):
    d = layer.columns
    fill, mean, spread = np.zeros(d), np.zeros(d), np.ones(d)
    for column in columns.columns:
        assert isinstance(column, NumberColumn)
        fill[column.name], mean[column.name] = column.fill, column.mean
        spread[column.name] = column.spread
    layer.assign_columns(fill, mean, spread)


def _places(columns, d):
    """Where the columns of the matrix are in the layer's output, and their shares."""
    at, shares = [], []
    for column in columns.columns:
        if column.varies:
            at.append(column.name)
            shares.append(0.0)
        if column.missing is not None:
            at.append(d + column.name)
            shares.append(column.missing)
    return np.array(at, dtype=int), np.array(shares)


def _assign_bag(blocks, fit, inside, columns, target, factor):
    """Gives the layers of a bag the units and readouts of its rounds."""
    places = _places(columns, blocks[0][0].kernel.shape[0] // 2)
    start, bias = 0, target.outside(fit.start)
    for pairs, products, readout in blocks:
        rounds = fit.blocks[start : start + readout.rounds]
        start += readout.rounds
        kernel = np.zeros((readout.kernel.shape[0], len(fit.start)))
        each = pairs.units // readout.rounds
        _assign_pairs(pairs, rounds, inside, places, each)
        for number, ((_, offset, _), _, solved) in enumerate(rounds):
            at = number * each
            kernel[at : at + len(offset)] = solved[: len(offset)]
            bias = bias + target.outside(solved[-1], shift=False)
        if products is not None:
            each = products.units // readout.rounds
            _assign_products(products, rounds, inside, places, each)
            for number, ((_, offset, _), units, solved) in enumerate(rounds):
                at = pairs.units + number * each
                kernel[at : at + len(units.columns)] = solved[len(offset) : -1]
        readout.set_weights(
            [factor * target.outside(kernel, shift=False), factor * bias]
        )
        # What a bag starts from is in its first block.
        bias = np.zeros_like(bias)


def _assign_pairs(layer, rounds, inside, places, each):
    at, shares = places
    kernel = np.zeros(tuple(layer.kernel.shape))
    bias, pairs = np.zeros(layer.units), np.full((layer.units, 2), -1)
    for number, ((one, offset, rows), _, _) in enumerate(rounds):
        units = slice(number * each, number * each + len(offset))
        kernel[at, units] = one
        bias[units] = offset - shares @ one
        pairs[units] = inside[rows]
    layer.assign_units(kernel, bias, pairs)


def _assign_products(layer, rounds, inside, places, each):
    at, shares = places
    kernel = np.zeros((layer.kernel.shape[0], layer.units, layer.terms))
    bias = np.zeros((layer.units, layer.terms))
    pairs = np.full((layer.units, 2), -1)
    for number, (_, units, _) in enumerate(rounds):
        count = len(units.columns)
        own = slice(number * each, number * each + count)
        unit, term = np.indices(units.columns.shape)
        kernel[at[units.columns], number * each + unit, term] = units.slopes
        bias[own] = units.offsets - units.slopes * shares[units.columns]
        pairs[own] = inside[units.pairs]
    layer.assign_units(kernel, bias, pairs)


def _metrics(model, readout, rows, part):
    """Metrics of some rows, by the model itself."""
    outputs = model.predict(rows.x[part].astype("float32"), verbose=0)
    weight = None if rows.weight is None else rows.weight[part]
    if model.compiled:
        return compiled_metrics(model, [outputs], [rows.raw_y[part]], [weight])
    return output_metrics(readout, outputs, readout.targets(rows.y[part]), weight)
