"""The readout of an operator."""

import keras

from keras_swim.layers.products import DoubleDense


@keras.saving.register_keras_serializable(package="keras_swim")
class OperatorReadout(DoubleDense, keras.layers.Dense):
    """`keras.layers.Dense` that keeps float64 on every backend that has it.

    Example:

    >>> tuple(OperatorReadout(3)(np.ones((2, 5))).shape)
    (2, 3)
    """
