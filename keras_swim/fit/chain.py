"""Readouts with layers behind them that can be undone.

A readout's targets are usually the model's. Behind other layers they are what these
layers would have to be given for the model's output to be right: every layer between a
readout and the output must have a `pull_back(outputs, inputs)`, which returns for each
of its inputs what it should be, or `None` for an input that is no prediction
(`predicted_inputs` says which ones are). `keras.layers.Add` needs none: of its inputs,
in their order, each is fitted to what those before it leave. Nor do layers that only
reshape.
"""

from dataclasses import dataclass
from typing import NamedTuple

import keras

from keras_swim.fit.graph import Step
from keras_swim.fit.plan import role_of
from keras_swim.layers.sampled_dense import SampledDense

RESHAPING = (keras.layers.Reshape, keras.layers.Flatten)


class Link(NamedTuple):
    """A step between a readout and the output.

    Attributes:
        step: The step.
        number: Number of the input that leads to the readout.
        known: Numbers of the inputs whose values targets are pulled back with.
    """

    step: Step
    number: int
    known: tuple[int, ...]

    @property
    def adds(self):
        return isinstance(self.step.operation, keras.layers.Add)


@dataclass(eq=False)
class ChainedReadout:
    """A Dense layer and the way from the model's output to it.

    Attributes:
        step: Its call.
        path: `Link`s from the output to the readout.
    """

    step: Step
    path: list[Link]

    @property
    def layer(self):
        return self.step.operation


@dataclass(eq=False)
class Stage:
    """Readouts that depend on no other of their stage, and the layers before them.

    Attributes:
        fitted: Steps to sample or to give statistics, in order.
        readouts: `ChainedReadout`s.
    """

    fitted: list[Step]
    readouts: list[ChainedReadout]


def is_chained(model):
    """Whether a model has layers that targets must be pulled back through."""
    try:
        layers = model._flatten_layers(include_self=False)
    except (AttributeError, ValueError):
        return False
    return any(hasattr(layer, "pull_back") for layer in layers)


def find_stages(graph):
    """The `Stage`s of a model in the order in which they are fitted; or raises."""
    if len(graph.outputs) != 1:
        raise ValueError(
            "A model with layers behind its readouts must have one output. Received: "
            f"{len(graph.outputs)}."
        )
    solved = [step for step in graph.steps if _is_readout(step)]
    behind = _reached(graph, solved)
    readouts: list[ChainedReadout] = []
    _walk(graph, graph.outputs[0], [], behind, readouts)
    lost = [step for step in solved if step not in [one.step for one in readouts]]
    if lost:
        raise ValueError(
            f"The layer {lost[0].path!r} is a trainable Dense that does not lead to "
            "the output through layers that can be undone. Use SampledDense for hidden "
            "layers, or freeze it."
        )
    readouts.sort(key=lambda one: graph.steps.index(one.step))
    return _in_stages(graph, readouts)


def _walk(graph, key, path, behind, readouts):
    step = graph.producer(key)
    if step is None or key not in behind:
        raise ValueError(
            "The model has no readout to solve. Put a `keras.layers.Dense` behind the "
            "sampled layers."
        )
    layer = step.operation
    if _is_readout(step):
        _check_readout(step)
        if any(step is one.step for one in readouts):
            raise ValueError(
                f"The readout {step.path!r} is used twice. Give each place a layer of "
                "its own."
            )
        readouts.append(ChainedReadout(step, path))
        return
    adds = isinstance(layer, keras.layers.Add)
    if adds:
        numbers = [n for n, one in enumerate(step.inputs) if one in behind]
    elif isinstance(layer, RESHAPING):
        numbers = [0]
    elif hasattr(layer, "pull_back"):
        numbers = list(getattr(layer, "predicted_inputs", (0,)))
    else:
        raise ValueError(
            f"The layer {step.path!r} ({type(layer).__name__}) comes after a readout "
            "and cannot be undone. Put it before the readout, or give it a "
            "`pull_back(outputs, inputs)`."
        )
    for number in numbers:
        known = tuple(
            n
            for n in range(len(step.inputs))
            if n not in numbers or (adds and n < number)
        )
        link = Link(step, number, known)
        _walk(graph, step.inputs[number], [*path, link], behind, readouts)


def _in_stages(graph, readouts):
    stages, fitted = [], set()
    waiting = list(readouts)
    while waiting:
        ahead = _reached(graph, [one.step for one in waiting])
        ready = [one for one in waiting if one.step.inputs[0] not in ahead]
        wanted = {one.step.inputs[0] for one in ready}
        steps = []
        for step in reversed(graph.steps):
            if wanted.intersection(step.outputs):
                wanted.update(step.inputs)
                steps.append(step)
        to_fit = []
        for step in reversed(steps):
            role = "solved" if _is_readout(step) else role_of(step)
            new = id(step.operation) not in fitted
            if role in ("sample", "statistics") and new:
                fitted.add(id(step.operation))
                to_fit.append(step)
        stages.append(Stage(to_fit, ready))
        waiting = [one for one in waiting if one not in ready]
    return stages


def leads_to(graph, step, key):
    """Whether a step has an influence on a tensor."""
    return key in _reached(graph, [step])


def _reached(graph, steps):
    """Keys of everything that the given steps have an influence on."""
    keys: set = set()
    for step in graph.steps:
        if step in steps or keys.intersection(step.inputs):
            keys.update(step.outputs)
    return keys


def _is_readout(step):
    layer = step.operation
    return (
        isinstance(layer, keras.layers.Dense)
        and not isinstance(layer, SampledDense)
        and layer.trainable
    )


def _check_readout(step):
    layer = step.operation
    name = getattr(layer.activation, "__name__", "linear")
    if name != "linear":
        raise ValueError(
            f"The readout {step.path!r} has the activation {name!r}. Behind a readout "
            "that other layers follow there must be none."
        )
    if layer.lora_enabled or layer.quantization_mode:
        raise ValueError(
            f"The readout {step.path!r} has LoRA enabled or is quantized, so its "
            "kernel cannot be solved for. Do that after the fit."
        )
