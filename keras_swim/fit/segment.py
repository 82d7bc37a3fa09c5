"""Running part of a graph, compiled, on whichever backend."""

import keras
import numpy as np

_FEW_BLOCKS = 4


def block_count(rows, block_rows):
    """Number of blocks that rows come in."""
    return -(-rows // block_rows)


class Segment(keras.layers.Layer):
    """Steps as one layer, from the values of some keys to those of others.

    It shares the layers of the model, and adds nothing to their history: the
    operations run on plain tensors.

    Args:
        steps: `Step`s in order.
        inputs: Keys whose values are given.
        outputs: Keys whose values are wanted.
        blocks: `None`, or the number of blocks of rows that it will be run on. For
            few of them it is not compiled, which would take longer than to run it.
    """

    def __init__(self, steps, inputs, outputs, blocks=None):
        super().__init__(autocast=False)
        self._steps = _needed(steps, outputs)
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        # Tracked, so that a compiled function sees their variables.
        self._members = [
            step.operation
            for step in self._steps
            if isinstance(step.operation, keras.layers.Layer)
        ]
        self.built = True
        few = blocks is not None and blocks <= _FEW_BLOCKS
        self._run = self._run_eagerly if few else _compiled(self)

    def call(self, inputs, training=False):
        values = dict(zip(self._inputs, inputs, strict=True))
        for step in self._steps:
            step.run(values)
        return [values[key] for key in self._outputs]

    def _run_eagerly(self, arrays):
        if keras.backend.backend() == "torch":
            import torch

            with torch.no_grad():
                return self(arrays, training=False)
        return self(arrays, training=False)

    def tensors(self, arrays):
        """Backend tensors of `outputs`, from arrays or tensors of `inputs`."""
        arrays = [keras.ops.convert_to_tensor(array) for array in arrays]
        if not self._steps:
            values = dict(zip(self._inputs, arrays, strict=True))
            return [values[key] for key in self._outputs]
        return self._run(arrays)

    def arrays(self, arrays):
        """The same as NumPy arrays; float16 and bfloat16 become float32."""
        return [as_array(tensor) for tensor in self.tensors(arrays)]


def as_array(tensor):
    """NumPy array of a tensor, in a dtype that NumPy computes with."""
    if _is_readable(tensor):
        # TensorFlow's own conversion copies; a view is enough to read from.
        return np.asarray(memoryview(tensor))
    array = np.asarray(keras.ops.convert_to_numpy(tensor))
    if array.dtype.kind == "V" or array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    return array


def _is_readable(tensor):
    return (
        keras.backend.backend() == "tensorflow"
        and keras.backend.standardize_dtype(tensor.dtype) in ("float32", "float64")
        and "CPU" in getattr(tensor, "device", "")
    )


def _needed(steps, outputs):
    """The steps that `outputs` depend on."""
    wanted = set(outputs)
    needed = []
    for step in reversed(steps):
        if wanted.intersection(step.outputs):
            needed.append(step)
            wanted.update(step.inputs)
    return tuple(reversed(needed))


def _compiled(segment):
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        function = tf.function(lambda arrays: segment(arrays, training=False))
        known = {}

        def run_graph(arrays):
            # Any number of rows: the last batch must not be traced anew. And
            # called this way, TensorFlow does not warn of frequent tracing.
            specs = [tf.TensorSpec((None, *a.shape[1:]), a.dtype) for a in arrays]
            signature = tuple((tuple(s.shape), s.dtype) for s in specs)
            if signature not in known:
                known[signature] = function.get_concrete_function(specs)
            return known[signature](arrays)

        return run_graph
    if backend == "jax":
        import jax

        @jax.jit
        def run(trainable, other, arrays):
            return segment.stateless_call(trainable, other, arrays, training=False)[0]

        return lambda arrays: run(
            [variable.value for variable in segment.trainable_variables],
            [variable.value for variable in segment.non_trainable_variables],
            arrays,
        )
    return segment._run_eagerly
