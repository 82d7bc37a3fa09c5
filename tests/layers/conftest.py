"""Data that several tests of layers share."""

import numpy as np
import pytest


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype("float32")
    return x, rng.integers(0, 3, size=60)
