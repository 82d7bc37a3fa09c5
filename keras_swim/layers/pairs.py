"""Layers that know the two rows behind each unit."""

import numpy as np


class HasPairs:
    """Mixin for layers with `pairs`, saved beside their weights.

    `pairs` is no Keras weight: `get_weights`, `set_weights` and `count_params` stay
    those of the layer.
    """

    _pairs = None

    @property
    def pairs(self):
        return self._pairs

    def save_own_variables(self, store):
        super().save_own_variables(store)
        if self._pairs is not None:
            store["pairs"] = self._pairs

    def load_own_variables(self, store):
        keys = list(store.keys())
        super().load_own_variables({key: store[key] for key in keys if key != "pairs"})
        self._pairs = np.array(store["pairs"]) if "pairs" in keys else None
