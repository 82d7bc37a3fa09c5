"""What `swim_fit` will do to each layer of a model; refuses early.

Every step of the graph has one role: it is sampled, gets statistics, is solved
(a readout), or just transforms. What comes before the first layer to be fitted
is the prefix; if it is expensive (a backbone), it runs once per row.
"""

from dataclasses import dataclass

import keras
import numpy as np

from keras_swim.fit.graph import Graph, Key, Step, trace
from keras_swim.fit.readouts import ReadoutLayer
from keras_swim.layers.feature_scaling import FeatureScaling
from keras_swim.layers.sampled_dense import SampledDense

# Trainable, but with a start that is deterministic and sensible.
_NEUTRAL = ("LayerNormalization", "GroupNormalization", "RMSNormalization", "PReLU")

_READOUT_ACTIVATIONS = ("linear", "softmax", "sigmoid")


@dataclass
class Plan:
    """The steps of a model by what happens to them.

    Attributes:
        graph: The whole `Graph`.
        early: Normalization layers before an expensive prefix: they get their
            statistics first.
        prefix: Steps that run once per row before anything is fitted.
        trunk: All later steps, without the readouts.
        cut: Keys of the tensors between prefix and trunk.
        sampled: Steps whose layer is sampled, in order.
        statistics: Steps whose layer gets statistics, in order.
        readouts: `ReadoutLayer`s in the order of the model's outputs.
    """

    graph: Graph
    early: list[Step]
    prefix: list[Step]
    trunk: list[Step]
    cut: list[Key]
    sampled: list[Step]
    statistics: list[Step]
    readouts: list[ReadoutLayer]

    @property
    def fitted_layers(self):
        """Every layer whose weights will change."""
        steps = [*self.early, *self.statistics, *self.sampled]
        layers = [step.operation for step in steps]
        layers += [readout.layer for readout in self.readouts]
        return list(dict.fromkeys(layers))

    def log_prefix(self, readout):
        """What the logs of a readout begin with: its name, if it has others."""
        return f"{readout.name}_" if len(self.readouts) > 1 else ""

    def readouts_after(self, step):
        """The readouts that a step has an influence on."""
        reached = set(step.outputs)
        for later in self.graph.steps:
            if reached.intersection(later.inputs):
                reached.update(later.outputs)
        return [readout for readout in self.readouts if readout.features in reached]


def make_plan(model, specs, readouts_only=False):
    """Returns the `Plan` of a model, or raises saying what is in the way.

    Args:
        model: Any Keras model; built here if it is not.
        specs: `keras.KerasTensor`s with the shape and dtype of each input.
        readouts_only: Whether all other layers stay as they are, trainable or
            not.
    """
    if isinstance(model, keras.Sequential) and not model.built:
        if len(specs) != 1 or len(specs[0].shape) < 2:
            raise ValueError(
                "A Sequential model takes one array of shape (rows, columns) or "
                f"more dimensions. Received: {len(specs)} array(s), the first of "
                f"shape {specs[0].shape}. For a single column pass x[:, None]."
            )
        model.build(specs[0].shape)
    if readouts_only:
        graph = trace(model, specs, opens=lambda layer: False)
        return _plan_of_readouts(graph, *_find_readouts(model, graph))
    graph = trace(model, specs, opens=opens)
    readouts, solved = _find_readouts(model, graph)
    sampled, statistics = [], []
    for step in graph.steps:
        if step in solved:
            continue
        role = role_of(step)
        if role == "sample" and not _again(step, sampled):
            sampled.append(step)
        if role == "statistics" and not _again(step, statistics):
            statistics.append(step)
    _refuse_unreached(model, graph)
    early = _early(graph, statistics)
    fitted = [step for step in statistics + sampled if step not in early]
    prefix = _untouched(graph, fitted + solved)
    if not any(_expensive(step) for step in prefix):
        prefix, early = [], []
    statistics = [step for step in statistics if step not in early]
    behind = _behind(graph, solved)
    trunk = [step for step in graph.steps if step not in prefix and step not in behind]
    return Plan(
        graph=graph,
        early=early,
        prefix=prefix,
        trunk=trunk,
        cut=_cut(graph, prefix, trunk, readouts),
        sampled=sampled,
        statistics=statistics,
        readouts=readouts,
    )


def _plan_of_readouts(graph, readouts, solved):
    behind = _behind(graph, solved)
    prefix = [step for step in graph.steps if step not in behind]
    return Plan(
        graph=graph,
        early=[],
        prefix=prefix,
        trunk=[],
        cut=_cut(graph, prefix, [], readouts),
        sampled=[],
        statistics=[],
        readouts=readouts,
    )


def needs_statistics(layer):
    """Whether a layer normalises by numbers that it does not have yet."""
    if not layer.trainable:
        return False
    if isinstance(layer, (keras.layers.BatchNormalization, FeatureScaling)):
        return True
    if isinstance(layer, keras.layers.Normalization) and layer.input_mean is None:
        # An adapted layer has moved away from its initial zeros and ones.
        return not layer.built or bool(
            np.all(keras.ops.convert_to_numpy(layer.adapt_mean.value) == 0)
            and np.all(keras.ops.convert_to_numpy(layer.adapt_variance.value) == 1)
        )
    return False


def opens(layer):
    """Whether there is something to fit inside a layer."""
    # In a model everything that is trainable must be found and, maybe, refused
    # by name; any other layer is refused as a whole.
    whole = isinstance(layer, keras.Model)
    return any(
        (isinstance(part, SampledDense) and part.trainable)
        or needs_statistics(part)
        or (whole and any(weight.trainable for weight in part.weights))
        for part in layer._flatten_layers(include_self=False)
    )


def role_of(step):
    layer = step.operation
    if not isinstance(layer, keras.layers.Layer) or not layer.trainable:
        return "transform"
    if isinstance(layer, SampledDense):
        return "sample"
    if needs_statistics(layer):
        return "statistics"
    if not layer.trainable_weights or type(layer).__name__ in _NEUTRAL:
        return "transform"
    advice = (
        f"Replace it by SampledDense({layer.units}, ...)"
        if isinstance(layer, keras.layers.Dense)
        else "Put SampledDense layers in its place"
    )
    outer = step.path.split("/")[0]
    frozen = (
        f"model.get_layer({outer!r}).trainable = False"
        if outer != step.path
        else f"{layer.name}.trainable = False"
    )
    raise ValueError(
        f"The layer {step.path!r} ({type(layer).__name__}) is trainable, but "
        f"`swim_fit` can neither sample nor solve it. {advice}, or keep its "
        f"weights as they are: `{frozen}`."
    )


def _find_readouts(model, graph):
    names = _output_names(model, graph)
    readouts, solved = [], []
    for index, key in enumerate(graph.outputs):
        activation = "linear"
        step = graph.producer(key)
        while step is not None and isinstance(
            step.operation, (keras.layers.Activation, keras.layers.Softmax)
        ):
            activation = _activation_of(step.operation)
            step = graph.producer(step.inputs[0])
        layer = None if step is None else step.operation
        if not isinstance(layer, keras.layers.Dense) or isinstance(layer, SampledDense):
            made_by = (
                "the input itself"
                if step is None
                else (f"{step.path!r} ({type(layer).__name__})")
            )
            raise ValueError(
                f"The output {names[index]!r} has no readout to solve: it is "
                f"made by {made_by}. End the model with `keras.layers.Dense` "
                "(linear, softmax or sigmoid)."
            )
        assert step is not None
        if not layer.trainable:
            raise ValueError(
                f"The readout {step.path!r} is frozen. Set "
                f"`{layer.name}.trainable = True`: `swim_fit` solves it."
            )
        if not layer.use_bias:
            raise ValueError(
                f"The readout {step.path!r} has no bias. Least squares needs "
                "one: create it with `use_bias=True`."
            )
        if layer.lora_enabled or layer.quantization_mode:
            raise ValueError(
                f"The readout {step.path!r} has LoRA enabled or is quantized, "
                "so its kernel cannot be solved for. Do that after the fit."
            )
        if activation == "linear":
            activation = getattr(layer.activation, "__name__", "unknown")
        elif getattr(layer.activation, "__name__", "") != "linear":
            activation = "more than one"
        if activation not in _READOUT_ACTIVATIONS:
            raise ValueError(
                f"The readout {step.path!r} has the activation {activation!r}. "
                f"Expected one of {', '.join(_READOUT_ACTIVATIONS)}: least "
                "squares gives scores, not the inverse of an activation."
            )
        if step in solved:
            raise ValueError(
                f"The readout {step.path!r} makes two outputs. Give each "
                "output a Dense layer of its own."
            )
        solved.append(step)
        readouts.append(
            ReadoutLayer(
                layer,
                names[index],
                step.inputs[0],
                activation,
                logits=_takes_logits(model, index, names[index]),
                positions=tuple(graph.tensors[step.inputs[0]].shape[1:-1]),
            )
        )
    _refuse_chained(graph, solved)
    return readouts, solved


def _refuse_chained(graph, solved):
    behind = _behind(graph, solved)
    for step in behind:
        if step in solved:
            continue
        if isinstance(step.operation, (keras.layers.Activation, keras.layers.Softmax)):
            continue
        raise ValueError(
            f"The layer {step.path!r} comes after a readout. A readout must be "
            "the last layer of its output, with at most an activation behind."
        )
    for step in solved:
        if any(key in other.outputs for other in behind for key in step.inputs):
            raise ValueError(
                f"The readout {step.path!r} depends on another readout. "
                "Solve them one after the other, as two models."
            )


def _takes_logits(model, index, name):
    """ "binary" or "classes" if the compiled loss of an output takes logits."""
    loss = getattr(model, "loss", None)
    if isinstance(loss, dict):
        loss = loss.get(name)
    if isinstance(loss, (list, tuple)):
        loss = loss[index] if index < len(loss) else None
    if not getattr(loss, "from_logits", False):
        return False
    name = type(loss).__name__.lower()
    return "binary" if "binary" in name else "classes"


def _output_names(model, graph):
    names = list(getattr(model, "output_names", None) or [])
    if len(names) == len(graph.outputs):
        return names
    return [f"output_{index}" for index in range(len(graph.outputs))]


def _activation_of(layer):
    if isinstance(layer, keras.layers.Softmax):
        return "softmax"
    return getattr(layer.activation, "__name__", "unknown")


def _refuse_unreached(model, graph):
    """Raises for trainable weights that no step of the graph shows."""
    reached = {
        id(weight)
        for step in graph.steps
        if isinstance(step.operation, keras.layers.Layer)
        for weight in step.operation.weights
    }
    for weight in model.trainable_weights:
        if id(weight) not in reached:
            raise ValueError(
                f"The trainable weight {weight.path!r} is inside a layer that "
                "`swim_fit` cannot see into (TimeDistributed, or a layer with "
                "weights of its own). SampledDense works on inputs of any rank: "
                "use it directly, or freeze the layer."
            )


def _again(step, steps):
    return any(step.operation is other.operation for other in steps)


def _expensive(step):
    layer = step.operation
    return (
        isinstance(layer, keras.layers.Layer)
        and bool(layer.weights)
        and not isinstance(layer, keras.layers.Normalization)
    )


def _untouched(graph, fitted):
    """Steps that depend on nothing that is fitted."""
    touched, steps = set(), []
    # By layer, not by call: a shared layer changes wherever it is used.
    layers = {id(step.operation) for step in fitted}
    for step in graph.steps:
        if id(step.operation) in layers or touched.intersection(step.inputs):
            touched.update(step.outputs)
        else:
            steps.append(step)
    return steps


def _behind(graph, solved):
    """The given steps and everything that depends on them."""
    touched, steps = set(), []
    for step in graph.steps:
        if step in solved or touched.intersection(step.inputs):
            touched.update(step.outputs)
            steps.append(step)
    return steps


def _early(graph, statistics):
    """Normalization layers on (nearly) raw inputs, with a backbone behind."""
    early = []
    for step in statistics:
        if not isinstance(step.operation, keras.layers.Normalization):
            continue
        others = [other for other in statistics if other is not step]
        after = _behind(graph, [step])[1:]
        if step in _untouched(graph, others) and any(
            (_expensive(later) and not later.operation.trainable)
            or isinstance(later.operation, keras.Model)
            for later in after
        ):
            early.append(step)
    return early


def _cut(graph, prefix, trunk, readouts):
    available = set(graph.inputs)
    for step in prefix:
        available.update(step.outputs)
    wanted = [key for step in trunk for key in step.inputs]
    wanted += [readout.features for readout in readouts]
    return list(dict.fromkeys(key for key in wanted if key in available))
