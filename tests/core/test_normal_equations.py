"""Sums give what the triangle gives, as far as a Gram matrix can."""

import numpy as np
import pytest

from keras_swim.core.normal_equations import NormalEquations
from keras_swim.core.penalty_search import choose_penalty
from keras_swim.core.triangle import Triangle


@pytest.mark.parametrize("bias", [True, False])
def test_both_ways_agree(rng, bias):
    features, targets = rng.normal(size=(90, 8)) + 1.0, rng.normal(size=(90, 2)) - 2.0
    weight = rng.uniform(0.2, 3.0, 90)
    found = [
        kind(8, 2, bias)
        .update(features[:50], targets[:50], weight[:50])
        .update(features[50:], targets[50:], weight[50:])
        .coefficients(1e-3)
        for kind in (NormalEquations, Triangle)
    ]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


def test_a_penalty_that_a_gram_matrix_cannot_take_is_not_chosen(rng):
    base = rng.normal(size=(60, 4))
    features = base @ rng.normal(size=(4, 30))
    targets = base[:, :1]
    sums = NormalEquations(30, 1).update(features, targets, np.ones(60))
    with pytest.raises(np.linalg.LinAlgError, match="larger one"):
        sums.coefficients(1e-30)
    found, tried = choose_penalty(
        sums.coefficients,
        lambda kernel, bias: np.abs(features @ kernel + bias - targets).max(),
        exponents=(-28, 2, -30, -2),
    )
    assert tried[1e-28] == np.inf
    assert np.isfinite(tried[found])
