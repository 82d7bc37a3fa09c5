"""Uncertainty of a fitted model: predictive variance and outlier scores."""

from functools import cached_property

import keras
import numpy as np

from keras_swim.core.spread import Spread
from keras_swim.fit.dataset import (
    check_inputs,
    feed,
    open_reader,
    prepare_targets,
    read,
)
from keras_swim.fit.options import BLOCK_ROWS, PREFIX_ROWS
from keras_swim.fit.plan import make_plan
from keras_swim.fit.segment import Segment

# Penalty of the outlier score. The readout's own rises with the noise of the
# targets and as rows get few, and hides distances that have nothing to do with
# either. Smaller ones flag as well, but float32 sums would not resolve them.
OUTLIER_L2 = 1e-4


class Uncertainty:
    """How sure a model can be of its outputs, and which rows are unlike any seen.

    Everything comes from the readout's state: no other model, no further pass
    over the training rows.

    Args:
        model: Keras model, fitted by `swim_fit`.
        state: `ReadoutState` of the readout that was solved: `history.state` of
            `swim_fit(..., keep_state=True)`, or `selection.state`.
        l2: Penalty of the readout. Defaults to `state.l2`, the one that the
            readout was solved with. Only `variance` looks at it.
        output: Name of the output that the state belongs to, if there are several.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, size=(500, 2)).astype("float32")
    >>> y = x[:, :1] * x[:, 1:] + 0.1 * rng.normal(size=(500, 1))
    >>> model = keras.Sequential([SampledDense(50, seed=0), keras.layers.Dense(1)])
    >>> history = swim_fit(model, x, y, keep_state=True, verbose=0)
    >>> uncertainty = Uncertainty(model, history.state)
    >>> round(float(np.sqrt(uncertainty.noise[0])), 1)
    0.1
    >>> typical, outlier = uncertainty.outlier_score(np.array([[0.5, 0.2], [3, -4]]))
    >>> bool(typical < 2 and outlier > 10)
    True
    """

    def __init__(self, model, state, l2=None, output=None):
        if not isinstance(model, keras.Model):
            raise TypeError(
                f"`model` must be a keras.Model. Received: {type(model).__name__}."
            )
        self.model, self.state, self.output = model, state, output
        self.l2 = state.l2 if l2 is None else l2
        self._known = {}

    @property
    def noise(self):
        """`(c,)` variance of the targets around the readout's scores."""
        return self._readout_spread.noise

    @property
    def degrees_of_freedom(self):
        """How many rows the readout could fit exactly, were there no others."""
        return self._readout_spread.degrees_of_freedom

    def variance(self, x, new_rows=False):
        """Variance of the readout's scores at the given rows.

        Scores are in the unit of the targets: the outputs themselves of a linear
        readout; for softmax and sigmoid, the least-squares scores of 0/1 targets,
        before the temperature. The units count as given and the noise as equal
        everywhere; as units were sampled with a look at the targets, intervals
        come out a little short (of 95 %, 93 to 95 on real tables).

        Args:
            x: Input, anything that `swim_fit` takes. Targets are passed over.
            new_rows: `False` for the variance of the fitted mean, `True` for that
                of new targets: the noise comes on top.

        Returns:
            Float64 array, `(rows, outputs)`, shaped like the model's output.
        """
        spread = self._readout_spread
        return self._at(x, lambda features: spread.variance(features, new_rows))

    def outlier_score(self, x):
        """How far rows lie from the training rows, in the latter's spread.

        The squared distance fc' (G + lambda I)^-1 fc of the readout's features
        from their mean, divided by what is to be expected of rows from where the
        training rows came from. About 1 for those; the more above, the stranger.
        Skewed columns spread the scores, and where units outnumber rows several
        times usual rows score below 1: training rows stand out in units that were
        made from them. For a threshold, look at the scores of rows held out.

        Args:
            x: Input, anything that `swim_fit` takes. Targets are passed over.

        Returns:
            Float64 array, `(rows,)`; with a score a position if the readout has
            several.
        """
        spread = self._outlier_spread
        return self._at(
            x, lambda features: spread.leverage(features) / spread.typical_leverage
        )

    def left_out(self, x, y=None):
        """Scores that training rows would get from a readout without them.

        Each row is left out by itself, in closed form: `y - (y - s) / (1 - h)`,
        with its score s and its leverage h. The units stay, those that the row
        itself has made among them. What does not fit its neighbours shows here
        even where the readout could fit all rows.

        Args:
            x, y: The rows that the state was summed up from, or some of them, as
                `swim_fit` takes them; all of weight 1.

        Returns:
            Float64 array, `(rows, outputs)`, in the unit of the targets: of
            softmax and sigmoid before the temperature.
        """
        if self.state.class_weighted:
            raise ValueError(
                "The state was summed up with class weights, and a row's leverage "
                "depends on its own. Leave rows out of a fit without `class_weight`."
            )
        reader = read(x, y, None, self.model, caller="left_out")
        plan, readout, segment, rows = self._prepared(reader.specs())
        graph, number = plan.graph, plan.readouts.index(readout)
        solved, spread = self.state.solve(self.l2), self._readout_spread
        parts = []
        for batch in reader.batches(rows):
            check_inputs(graph, batch)
            (features,) = segment.arrays(feed(graph, graph.inputs, batch.x))
            prepared = prepare_targets(plan.readouts, batch)[number]
            features = features.reshape(-1, features.shape[-1])
            targets = readout.targets(prepared)
            gaps = targets - (features @ solved.kernel + solved.bias)
            share = 1.0 - 1.0 / spread.rows - spread.leverage(features)
            parts.append(targets - gaps / share[:, None])
        return np.concatenate(parts)

    @cached_property
    def _readout_spread(self):
        if self.l2 is None:
            raise ValueError(
                "The variance depends on the penalty that the readout was solved "
                "with. Received: l2=None and a state that does not know it. Pass "
                '`l2`, for example `history.history["l2"][0]` of the fit.'
            )
        return Spread(self.state, self.l2)

    @cached_property
    def _outlier_spread(self):
        return Spread(self.state, OUTLIER_L2)

    def _at(self, x, function):
        """Values of a function of the readout's features, for all rows."""
        reader = open_reader(self.model, x)
        plan, _, segment, rows = self._prepared(reader.specs())
        graph, parts = plan.graph, []
        for batch in reader.batches(rows):
            check_inputs(graph, batch)
            (features,) = segment.arrays(feed(graph, graph.inputs, batch.x))
            found = function(features.reshape(-1, features.shape[-1]))
            parts.append(found.reshape(*features.shape[:-1], *found.shape[1:]))
        return np.concatenate(parts)

    def _prepared(self, specs):
        """The plan, the readout, the model up to its features, rows at a time."""
        # A subclassed model is traced for inputs of one dtype.
        key = tuple((tuple(spec.shape), str(spec.dtype)) for spec in specs)
        if key not in self._known:
            plan = make_plan(self.model, specs)
            readout = self._readout(plan)
            segment = Segment(plan.graph.steps, plan.graph.inputs, [readout.features])
            rows = PREFIX_ROWS if plan.prefix else BLOCK_ROWS
            self._known[key] = plan, readout, segment, rows
        return self._known[key]

    def _readout(self, plan):
        names = [readout.name for readout in plan.readouts]
        if self.output is None and len(names) > 1:
            raise ValueError(
                f"The model has {len(names)} outputs and the state belongs to one. "
                f"Received: output=None. Pass one of {names}."
            )
        if self.output is not None and self.output not in names:
            raise ValueError(
                f"`output` must be one of {names}. Received: output={self.output!r}"
            )
        readout = plan.readouts[0 if self.output is None else names.index(self.output)]
        width = plan.graph.tensors[readout.features].shape[-1]
        state = self.state
        if (state.units, state.outputs) != (width, readout.units):
            raise ValueError(
                f"The readout {readout.layer.name!r} has {width} features and "
                f"{readout.units} outputs. Received: a state of {state.units} "
                f"features and {state.outputs} outputs. Pass the state that this "
                "model was solved from."
            )
        return readout
