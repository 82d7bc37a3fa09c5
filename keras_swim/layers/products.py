"""Products of layers that must keep float64."""

import keras


def product(x, kernel):
    """`x @ kernel` over the last axis of `x`, in the dtype of `x`.

    `keras.ops.matmul` computes float64 tensors in float32 on torch; `einsum` does not,
    but takes almost three times as long on TensorFlow.
    """
    double = keras.backend.standardize_dtype(x.dtype) == "float64"
    if double and keras.backend.backend() == "torch":
        return keras.ops.einsum("...i,ij->...j", x, kernel)
    return keras.ops.matmul(x, kernel)


class DoubleDense:
    """Mixin for `keras.layers.Dense`: float64 layers compute in float64.

    On torch `Dense` would multiply in float32 whatever its dtype.
    """

    def call(self, inputs, training=None):
        plain = self.compute_dtype != "float64" or (
            self.lora_enabled or self.quantization_mode
        )
        if plain:
            return super().call(inputs, training=training)
        outputs = product(inputs, self.kernel)
        if self.bias is not None:
            outputs = keras.ops.add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)
