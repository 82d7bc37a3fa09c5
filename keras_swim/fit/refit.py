"""What `swim_update` and `swim_forget` share.

The hidden layers of a fitted model stay as they are, so only the readout
changes, and its state knows all that the old rows have to say about it.
"""

import numpy as np

from keras_swim.core.solvers import check_l2
from keras_swim.fit.dataset import check_inputs, feed, output_weights, prepare_targets
from keras_swim.fit.segment import Segment
from keras_swim.fit.snapshot import forget_compiled


def only_readout(plan, state, name):
    """The one readout of a plan; raises unless the state is that of it."""
    if len(plan.readouts) != 1:
        raise ValueError(
            f"`{name}` takes models with one output. Received: a model with "
            f"{len(plan.readouts)}."
        )
    (readout,) = plan.readouts
    width = plan.graph.tensors[readout.features].shape[-1]
    if (state.units, state.outputs) != (width, readout.units):
        raise ValueError(
            f"The state is not that of this model: its readout has {width} inputs "
            f"and {readout.units} outputs. Received: a state of {state.units} units "
            f"and {state.outputs} outputs. Keep the state of the same fit: "
            "`swim_fit(..., keep_state=True).state`."
        )
    return readout


def penalty_of(state, l2):
    """The given penalty, or else that of the state's last solution."""
    if l2 is None and state.l2 is None:
        raise ValueError(
            "The state does not know the penalty of the readout. Pass `l2`, for "
            "example 1e-3."
        )
    penalty = state.l2 if l2 is None else l2
    check_l2(penalty)
    return float(penalty)


def readout_rows(plan, reader, options):
    """Yields features, targets and weights of the readout, batch by batch."""
    (readout,) = plan.readouts
    graph = plan.graph
    segment = Segment(graph.steps, graph.inputs, [readout.features])
    seen = 0
    for batch in reader.batches(
        options.prefix_rows if plan.prefix else options.block_rows
    ):
        check_inputs(graph, batch)
        (y,) = prepare_targets(plan.readouts, batch, seen)
        (weight,) = output_weights(batch, plan.readouts)
        (features,) = segment.arrays(feed(graph, graph.inputs, batch.x))
        features = features.reshape(-1, features.shape[-1])
        weight = np.ones(batch.rows) if weight is None else weight
        yield (
            features,
            readout.targets(y),
            np.repeat(weight, len(features) // batch.rows),
        )
        seen += batch.rows


def assign(model, readout, state, solved, penalty, temperature):
    """The new readout into the model, and what it was made with into the state."""
    kernel, bias = solved.kernel, solved.bias
    state.l2 = penalty
    if temperature is not None:
        kernel, bias = readout.calibrate(kernel, bias, temperature)
        state.temperature = np.asarray(temperature)
    readout.layer._kernel.assign(kernel)
    readout.layer.bias.assign(bias)
    forget_compiled(model)
