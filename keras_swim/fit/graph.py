"""A Keras model as a flat list of steps.

Nested models are opened up, so that a sampled layer is found wherever it
stands; models and layers in which nothing is to be fitted stay one step. Steps
are in an order in which they can run.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras

Key = int


@dataclass(eq=False)
class Step:
    """One call of one operation.

    Attributes:
        operation: Layer or operation.
        arguments: Keras' symbolic arguments of the call.
        inputs: Keys of the tensors in `arguments`, in their order.
        outputs: Keys of the results.
        path: Names from the outermost model to the operation.
    """

    operation: Any
    arguments: Any
    inputs: list[Key]
    outputs: list[Key]
    path: str

    def run(self, values: dict[Key, Any]) -> None:
        """Calls the operation on `values` and adds the results to them."""
        tensors = {
            id(tensor): values[key]
            for tensor, key in zip(
                self.arguments.keras_tensors, self.inputs, strict=True
            )
        }
        args, kwargs = self.arguments.fill_in(tensors)
        results = keras.tree.flatten(self.operation(*args, **kwargs))
        values.update(zip(self.outputs, results, strict=True))


@dataclass
class Graph:
    """Steps from the keys of a model's inputs to those of its outputs.

    Attributes:
        inputs, outputs: Keys.
        steps: In an order in which they can run.
        tensors: Symbolic tensor of each key: its shape and dtype.
    """

    inputs: list[Key] = field(default_factory=list)
    outputs: list[Key] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    tensors: dict[Key, Any] = field(default_factory=dict)

    def producer(self, key: Key) -> Step | None:
        return next((step for step in self.steps if key in step.outputs), None)


def trace(model, specs, opens: Callable[[Any], bool]) -> Graph:
    """Returns the `Graph` of a model.

    Args:
        model: Built Sequential or Functional model, or a subclassed model whose
            `call` works on symbolic tensors.
        specs: Shape and dtype of each input as `keras.KerasTensor`s; used for
            subclassed models only.
        opens: Function that tells whether a nested layer must be opened up.
    """
    tracer = _Tracer(opens)
    if _has_graph(model):
        inputs, outputs = list(model.inputs), list(model.outputs)
    else:
        inputs = [
            keras.Input(batch_shape=(None, *spec.shape[1:]), dtype=spec.dtype)
            for spec in specs
        ]
        outputs = _symbolic_call(model, inputs, model.name)
    keys = [tracer.new_key() for _ in inputs]
    graph = tracer.graph
    graph.inputs = keys
    graph.tensors.update(zip(keys, inputs, strict=True))
    graph.outputs = tracer.add(
        dict(zip(map(id, inputs), keys, strict=True)), outputs, ""
    )
    return graph


class _Tracer:
    def __init__(self, opens):
        self.opens = opens
        self.graph = Graph()
        self._next = 0

    def new_key(self):
        self._next += 1
        return self._next

    def add(self, known, outputs, path):
        """Adds the steps from the tensors in `known` to `outputs`."""
        for node in _nodes_in_order(known, outputs):
            keys = [known[id(tensor)] for tensor in node.arguments.keras_tensors]
            results = self._call(node, keys, path)
            self.graph.tensors.update(zip(results, node.outputs, strict=True))
            known.update(zip(map(id, node.outputs), results, strict=True))
        return [known[id(tensor)] for tensor in outputs]

    def _call(self, node, keys, path):
        operation = node.operation
        path = f"{path}/{operation.name}" if path else operation.name
        if not (isinstance(operation, keras.layers.Layer) and self.opens(operation)):
            outputs = [self.new_key() for _ in node.outputs]
            self.graph.steps.append(
                Step(operation, node.arguments, keys, outputs, path)
            )
            return outputs
        if _has_graph(operation):
            inputs, outputs = list(operation.inputs), list(operation.outputs)
        else:
            inputs = [
                keras.Input(batch_shape=tensor.shape, dtype=tensor.dtype)
                for tensor in node.arguments.keras_tensors
            ]
            outputs = _symbolic_call(operation, inputs, path)
        known = dict(zip(map(id, inputs), keys, strict=True))
        return self.add(known, outputs, path)


def _has_graph(layer):
    return isinstance(layer, keras.Sequential) or (
        isinstance(layer, keras.Model) and bool(getattr(layer, "operations", None))
    )


def _symbolic_call(layer, inputs, path):
    """Outputs of `layer.call` on symbolic tensors, to walk through."""
    argument = inputs[0] if len(inputs) == 1 else inputs
    try:
        outputs = layer.call(argument)
    except Exception as error:
        raise ValueError(
            f"Cannot look into {path!r} ({type(layer).__name__}): its `call` "
            "does not run on symbolic tensors. Use `keras.ops` and Keras "
            "layers in `call`, or build the model with the functional API. "
            f"Keras said: {error}"
        ) from error
    return keras.tree.flatten(outputs)


def _nodes_in_order(known, outputs):
    """Nodes between the known tensors and `outputs`, each after its inputs."""
    order, done = [], set()
    stack = [(tensor, False) for tensor in reversed(outputs)]
    while stack:
        tensor, expanded = stack.pop()
        if id(tensor) in known:
            continue
        # Keras keeps the graph in these two attributes; it has no public walk.
        history = tensor._keras_history
        node = history.operation._inbound_nodes[history.node_index]
        if id(node) in done:
            continue
        if expanded:
            done.add(id(node))
            order.append(node)
            continue
        stack.append((tensor, True))
        stack.extend((parent, False) for parent in node.arguments.keras_tensors)
    return order
