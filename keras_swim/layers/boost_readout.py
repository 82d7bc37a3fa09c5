"""The readout of a block of boosting rounds."""

import keras


@keras.saving.register_keras_serializable(package="keras_swim")
class BoostReadout(keras.layers.Dense):
    """`keras.layers.Dense` that `swim_fit` fits by boosting.

    `SwimBoost` puts one behind the sampled units of each block. The units are in the
    layers whose names are its own with `_pairs` and `_products` behind.

    Args:
        units: Number of outputs.
        bag, block: Which bag and which block of it, from 1.
        rounds: Rounds of boosting whose units the block holds.
        **kwargs: The other arguments of `keras.layers.Dense`.

    Example:

    >>> BoostReadout(3, bag=1, block=2, rounds=10).get_config()["rounds"]
    10
    """

    def __init__(self, units, bag=1, block=1, rounds=1, **kwargs):
        super().__init__(units, **kwargs)
        self.bag, self.block, self.rounds = int(bag), int(block), int(rounds)

    def get_config(self):
        config = super().get_config()
        config.update(bag=self.bag, block=self.block, rounds=self.rounds)
        return config
