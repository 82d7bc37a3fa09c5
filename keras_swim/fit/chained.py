"""swim_fit of models whose readouts have layers behind them: operators.

Sampled layers and readouts are fitted stage by stage: what a later block sees is the
output of the earlier ones. Smooth operators reach errors of 1e-7 with condition numbers
beyond 1e14, so readouts are solved by orthogonal factorisation (a Gram matrix is there
for those in a hurry), and their penalty is chosen on held-out rows in the dtype that
will predict.
"""

from dataclasses import replace

import keras
import numpy as np

from keras_swim.core.normal_equations import NormalEquations
from keras_swim.core.penalty_search import GRAM_EXPONENTS, choose_penalty
from keras_swim.core.triangle import Triangle
from keras_swim.data.pool import pool_indices, pool_size
from keras_swim.fit.chain import RESHAPING, find_stages, leads_to
from keras_swim.fit.chain_rows import announce, check_batch, read_functions, warn
from keras_swim.fit.dataset import feed, joined
from keras_swim.fit.graph import trace
from keras_swim.fit.metrics import compiled_metrics
from keras_swim.fit.one_epoch import begin, end
from keras_swim.fit.options import (
    FOLD_STREAM,
    POOL_STREAM,
    check_options,
    refuse_options,
)
from keras_swim.fit.plan import opens
from keras_swim.fit.prepare import check_rows, open_data
from keras_swim.fit.progress import Progress
from keras_swim.fit.segment import Segment, as_array
from keras_swim.fit.snapshot import forget_compiled, undone_on_failure
from keras_swim.fit.statistics import set_statistics
from keras_swim.layers.sampled_dense import SampledDense

# Held-out rows that a penalty is chosen by.
_HELD_ROWS = 500
# With fewer rows none is held out, and the penalty is the paper's cut-off.
_FEWEST = 4
_METRIC_ROWS = 2048
# Positions of pointwise layers that pairs are drawn from.
_POSITIONS = 20_000


def fit_chained(
    model,
    x,
    y,
    *,
    validation_data,
    validation_split,
    batch_size,
    sample_weight,
    l2,
    solver,
    seed,
    callbacks,
    verbose,
    others,
):
    """Fits all stages; arguments as for `swim_fit`.

    Args:
        others: Dict of arguments that do not apply here, by name, with their values
            and defaults.
    """
    refuse_options(others, "with layers behind its readouts")
    options = check_options(l2, solver, seed, "float64", "host", batch_size, model)
    if solver == "dual":
        raise ValueError(
            'A model with layers behind its readouts is solved by "qr", "cholesky" or '
            f'"svd". Received: solver={solver!r}'
        )
    reader, validation = open_data(
        model, x, y, sample_weight, validation_data, validation_split
    )
    graph = trace(model, reader.specs(), opens=opens)
    stages = find_stages(graph)
    for part in (reader, validation):
        if part is not None:
            check_batch(graph, part.first)
    progress = Progress(verbose, stages=1 + 3 * len(stages))
    fitted = [step.operation for step in graph.steps if _has_weights(step)]
    told = begin(callbacks, model)
    with undone_on_failure(model, dict.fromkeys(fitted)):
        with progress.stage("features", "reading the data", reader.source.rows):
            rows = read_functions(graph, reader, options, progress)
            held = None
            if validation is not None:
                held = read_functions(graph, validation, options)
        check_rows(len(rows.y))
        announce(graph, stages, len(rows.y), progress)
        warn(graph, stages, rows)
        fit = _Fit(graph, rows, options, progress)
        logs = fit.run(stages)
        forget_compiled(model)
        some = rows.take(slice(0, _METRIC_ROWS))
        logs.update(_metrics(model, some, fit.outputs(some)))
        if held is not None:
            found = _metrics(model, held, fit.outputs(held))
            logs.update({f"val_{name}": value for name, value in found.items()})
    end(told, logs, progress)
    return model.history


class _Fit:
    """A fit in progress.

    Args:
        graph: `Graph` of the model.
        rows: All training rows.
        options: `Options`.
        progress: `Progress`.
    """

    def __init__(self, graph, rows, options, progress):
        self.graph, self.rows = graph, rows
        self.progress = progress
        count = len(rows.y)
        # Blocks are padded where that saves compiling; few rows need small ones.
        size = min(options.block_rows, count)
        self.options = options = replace(options, block_rows=size)
        self.held = np.zeros(count, dtype=bool)
        if options.chooses_l2 and count >= _FEWEST:
            order = options.generator(FOLD_STREAM).permutation(count)
            self.held[order[: min(_HELD_ROWS, max(count // 10, 1))]] = True
        self.depth = 0
        self.segments: dict = {}

    def run(self, stages):
        """Fits stage after stage; returns the logs."""
        logs: dict = {}
        for number, stage in enumerate(stages, start=1):
            of = f" {number} of {len(stages)}" if len(stages) > 1 else ""
            targets = [self.targets(readout) for readout in stage.readouts]
            title = f"sampling layers from pairs{of}"
            with self.progress.stage("sampling", title, len(stage.fitted), "layer"):
                for step in stage.fitted:
                    self._fit_layer(step, stage, targets)
                    self.progress.advance(1)
            total = len(stage.readouts) * len(self.rows.y)
            with self.progress.stage("sums", f"adding up rows{of}", total):
                systems = [
                    self._add_up(readout, target)
                    for readout, target in zip(stage.readouts, targets, strict=True)
                ]
            title = f"choosing penalties and solving readouts{of}"
            with self.progress.stage("solving", title, None, "solution"):
                logs.update(self._solve(stage, systems, number == len(stages)))
        return logs

    def values(self, keys, rows):
        """Arrays of some tensors for some rows."""
        keys = tuple(keys)
        if keys not in self.segments:
            inputs = self.graph.inputs
            self.segments[keys] = Segment(self.graph.steps, inputs, keys)
        size = self.options.block_rows
        parts = []
        for start in range(0, len(rows.y), size):
            block = [_padded(array[start : start + size], size) for array in rows.x]
            parts.append(
                self.segments[keys].arrays(feed(self.graph, self.graph.inputs, block))
            )
        return [array[: len(rows.y)] for array in joined(parts)]

    def outputs(self, rows):
        return self.values(self.graph.outputs, rows)[0]

    def targets(self, readout):
        """What a readout should give for every row."""
        wanted = self.rows.y
        for link in readout.path:
            step, layer = link.step, link.step.operation
            keys = [step.inputs[n] for n in link.known]
            found = self.values(keys, self.rows) if keys else []
            if link.adds:
                wanted = wanted - sum(found)
                continue
            if isinstance(layer, RESHAPING):
                shape = self.graph.tensors[step.inputs[0]].shape[1:]
                wanted = wanted.reshape(len(wanted), *shape)
                continue
            if hasattr(layer, "adapt") and layer.trainable:
                kept = ~self.held
                layer.adapt(wanted[kept], self.rows.weight[kept])
            known = dict(zip(link.known, found, strict=True))
            wanted = _pulled_back(link, wanted, known, self.options.block_rows)
        units = readout.layer.units
        if wanted.shape[1:] != (units,):
            raise ValueError(
                f"The readout {readout.step.path!r} has {units} units. Its targets "
                f"have shape {wanted.shape}: the layers behind it do not fit the data."
            )
        return wanted

    def _fit_layer(self, step, stage, targets):
        layer = step.operation
        size = pool_size(getattr(layer, "units", 0))
        shape = self.graph.tensors[step.inputs[0]].shape
        positions = int(np.prod(shape[1:-1]))
        if positions > 1:
            size = max(_POSITIONS // positions, 2)
        weight = np.where(self.held, 0.0, self.rows.weight)
        generator = self.options.generator(POOL_STREAM)
        index = pool_indices(len(weight), size, generator, weight)
        (values,) = self.values(step.inputs[:1], self.rows.take(index))
        if not isinstance(layer, SampledDense):
            set_statistics(layer, values, weight[index])
            return
        codes = [
            target[index]
            for readout, target in zip(stage.readouts, targets, strict=True)
            if leads_to(self.graph, step, readout.step.inputs[0])
        ]
        try:
            layer.sample(
                values,
                np.concatenate(codes, axis=1).astype(np.float64),
                None if np.ptp(weight[index]) == 0 else weight[index],
                rng=layer.generator(self.depth, self.options.seed),
                numbers=index,
                depth=self.depth,
            )
        except ValueError as error:
            message = f"Cannot sample the layer {step.path!r}: {error}"
            raise ValueError(message) from error
        self.depth += 1

    def _add_up(self, readout, target):
        """A readout's rows in a triangle (or sums), but for the held-out ones."""
        layer = readout.layer
        (width,) = self.graph.tensors[readout.step.inputs[0]].shape[1:]
        kind = NormalEquations if self.options.solver == "cholesky" else Triangle
        triangle = kind(width, layer.units, layer.use_bias)
        held = []
        for start in range(0, len(target), self.options.block_rows):
            block = slice(start, start + self.options.block_rows)
            rows = self.rows.take(block)
            (found,) = self.values(readout.step.inputs, rows)
            out = self.held[block]
            triangle.update(found[~out], target[block][~out], rows.weight[~out])
            if out.any():
                size = _norms(rows.y[out])
                held.append((found[out], target[block][out], rows.weight[out], size))
            self.progress.advance(len(found))
        return triangle, joined(held) if held else None

    def _solve(self, stage, systems, last):
        """Solves the readouts of a stage. Returns logs."""
        penalties = []
        for readout, (triangle, held) in zip(stage.readouts, systems, strict=True):
            penalties.append(self._penalty(triangle, held))
            _assign(readout.layer, *self._coefficients(triangle, penalties[-1]))
        logs = {"l2": max(penalties)}
        if not (last and self.held.any()):
            return logs
        # Judged before the held-out rows take part.
        held = self.rows.take(self.held)
        found = function_metrics(held.y, self.outputs(held), held.weight)
        logs.update({f"cv_{name}": value for name, value in found.items()})
        for readout, l2, (triangle, rows) in zip(
            stage.readouts, penalties, systems, strict=True
        ):
            triangle.update(*rows[:3])
            _assign(readout.layer, *self._coefficients(triangle, l2))
        return logs

    def _penalty(self, triangle, held):
        if held is None:
            return self.options.given_l2

        def coefficients(l2):
            self.progress.advance(1)
            return triangle.coefficients(l2)

        found, _ = choose_penalty(
            coefficients,
            lambda kernel, bias: _error(kernel, bias, *held),
            held[0].dtype.name,
            GRAM_EXPONENTS if self.options.solver == "cholesky" else None,
        )
        return found

    def _coefficients(self, triangle, l2):
        if self.options.solver == "svd":
            return triangle.cut_off(l2)
        return triangle.coefficients(l2)


def function_metrics(y, outputs, weight):
    """Mean squared error, R squared and mean relative L2 error of functions."""
    flat = [np.reshape(one, (len(y), -1)).astype(np.float64) for one in (y, outputs)]
    share = weight / max(weight.sum(), np.finfo(float).tiny)
    wrong = np.linalg.norm(flat[1] - flat[0], axis=1)
    centred = np.linalg.norm(flat[0] - share @ flat[0], axis=1)
    loss, spread = share @ wrong**2, share @ centred**2
    relative = wrong / _norms(flat[0])
    return {
        "loss": float(loss / flat[0].shape[1]),
        "r2": float(1 - loss / spread) if spread > 0 else 0.0,
        "relative_error": float(share @ relative),
    }


def _metrics(model, rows, outputs):
    logs = function_metrics(rows.y, outputs, rows.weight)
    if model.compiled:
        weight = None if np.ptp(rows.weight) == 0 else rows.weight
        found = compiled_metrics(model, [outputs], [rows.y], [weight])
        logs = {"relative_error": logs["relative_error"], **found}
    return logs


def _pulled_back(link, wanted, known, block_rows):
    layer, parts = link.step.operation, []
    for start in range(0, len(wanted), block_rows):
        block = slice(start, start + block_rows)

        def tensor(array, block=block):
            array = _padded(array[block], block_rows)
            return keras.ops.convert_to_tensor(array, dtype=layer.compute_dtype)

        given = [
            tensor(known[n]) if n in known else None
            for n in range(len(link.step.inputs))
        ]
        found = layer.pull_back(tensor(wanted), given)[link.number]
        parts.append(as_array(keras.ops.stop_gradient(found)))
    return np.concatenate(parts)[: len(wanted)]


def _padded(array, rows):
    """On JAX, which compiles for every number of rows: never fewer than `rows`."""
    if keras.backend.backend() != "jax" or len(array) == rows:
        return array
    return np.concatenate([array, np.repeat(array[-1:], rows - len(array), axis=0)])


def _error(kernel, bias, features, targets, weight, size):
    """Mean relative error of held-out rows, in the dtype of the features."""
    dtype = features.dtype
    with np.errstate(over="ignore", invalid="ignore"):
        found = features @ kernel.astype(dtype) + bias.astype(dtype)
        wrong = np.linalg.norm(found.astype(np.float64) - targets, axis=1)
    return float(weight @ (wrong / size))


def _norms(y):
    """Sizes of functions that errors are relative to."""
    size = np.linalg.norm(y.reshape(len(y), -1), axis=1)
    return np.where(size > 0, size, 1.0)


def _assign(layer, kernel, bias):
    layer.kernel.assign(kernel)
    if layer.use_bias:
        layer.bias.assign(bias)


def _has_weights(step):
    return isinstance(step.operation, keras.layers.Layer) and step.operation.weights
