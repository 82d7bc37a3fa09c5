"""The temperature has the smallest log loss and changes no decision."""

import numpy as np
import pytest
from scipy import special

from keras_swim.core.calibrate import (
    fold_sigmoid,
    fold_softmax,
    sigmoid_temperatures,
    softmax_temperature,
)

LOG_GRID = np.linspace(np.log(0.1), np.log(1e3), 600)


def _scores(n=2000, c=4, seed=0, noise=0.25):
    """Least-squares-like scores of one-hot targets, and the targets."""
    rng = np.random.default_rng(seed)
    targets = np.eye(c)[rng.integers(c, size=n)]
    return targets * 0.5 + noise * rng.normal(size=(n, c)), targets


def _log_loss(scores, targets, weight, temperature):
    logits = temperature * scores
    return weight @ -(targets * special.log_softmax(logits, axis=1)).sum(axis=1)


def _binary_log_loss(scores, targets, weight, temperature):
    logits = temperature * (scores - 0.5)
    return weight @ (np.logaddexp(0.0, logits) - targets * logits)


def _best(loss):
    return np.exp(min(LOG_GRID, key=lambda log_t: loss(np.exp(log_t))))


@pytest.mark.parametrize("noise", [0.2, 0.3, 0.6])
def test_softmax_temperature_minimises_the_log_loss(noise):
    scores, targets = _scores(noise=noise)
    weight = np.random.default_rng(1).uniform(0.1, 3.0, len(scores))
    found = softmax_temperature(scores, targets, weight)
    best = _best(lambda t: _log_loss(scores, targets, weight, t))
    assert found == pytest.approx(best, rel=0.03)
    assert _log_loss(scores, targets, weight, found) <= 1.0005 * _log_loss(
        scores, targets, weight, best
    )


@pytest.mark.parametrize("noise", [0.2, 0.3, 0.6])
def test_sigmoid_temperatures_minimise_the_log_loss_of_each_output(noise):
    scores, targets = _scores(noise=noise)
    # Outputs of different quality need different temperatures.
    scores = 0.5 + (scores - 0.5) * [1.0, 0.5, 0.1, 2.0]
    weight = np.random.default_rng(1).uniform(0.1, 3.0, len(scores))
    found = sigmoid_temperatures(scores, targets, weight)
    assert found.shape == (4,)
    for column in range(4):
        parts = scores[:, column], targets[:, column], weight
        best = _best(lambda t, parts=parts: _binary_log_loss(*parts, t))
        assert found[column] == pytest.approx(best, rel=0.03)


def test_weight_two_is_the_row_twice():
    scores, targets = _scores(100)
    times = 1 + np.arange(100) % 3
    repeated = scores.repeat(times, axis=0), targets.repeat(times, axis=0)
    for temperature in (softmax_temperature, sigmoid_temperatures):
        weighted = temperature(scores, targets, times.astype(float))
        np.testing.assert_allclose(
            weighted, temperature(*repeated, np.ones(times.sum())), rtol=1e-4
        )


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_temperature_undoes_a_factor_of_the_scores(factor):
    scores, targets = _scores()
    weight = np.ones(len(scores))
    plain = softmax_temperature(scores, targets, weight)
    scaled = softmax_temperature(factor * scores, targets, weight)
    assert scaled == pytest.approx(plain / factor, rel=1e-3)


def test_shift_common_to_all_classes_does_not_matter():
    scores, targets = _scores()
    weight = np.ones(len(scores))
    shift = np.random.default_rng(2).normal(size=(len(scores), 1))
    assert softmax_temperature(scores + shift, targets, weight) == pytest.approx(
        softmax_temperature(scores, targets, weight), rel=1e-4
    )


@pytest.mark.parametrize("n", [3, 300])
def test_perfect_scores_have_a_finite_temperature(n):
    targets = np.eye(3)[np.arange(n) % 3]
    weight = np.ones(n)
    softmax = softmax_temperature(targets, targets, weight)
    # Confidence grows with the rows behind it, as in Platt's method: the
    # smoothed target of the right class is (n + 1/3) / (n + 1).
    right = (n + 1 / 3) / (n + 1)
    assert softmax == pytest.approx(np.log(2 * right / (1 - right)), rel=1e-3)
    sigmoid = sigmoid_temperatures(targets, targets, weight)
    assert sigmoid == pytest.approx(np.full(3, 2 * np.log(2 * n + 1)), rel=1e-3)


def test_useless_scores_become_soft():
    rng = np.random.default_rng(3)
    targets = np.eye(3)[rng.integers(3, size=500)]
    scores = rng.normal(size=(500, 3))
    assert softmax_temperature(scores, targets, np.ones(500)) < 0.3


def test_soft_targets():
    rng = np.random.default_rng(4)
    scores = rng.normal(size=(3000, 3))
    targets = special.softmax(2.5 * scores, axis=1)
    found = softmax_temperature(scores, targets, np.ones(3000))
    assert found == pytest.approx(2.5, rel=0.01)


# Folding


def _readout(seed=5):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(400, 6))
    return features, rng.normal(size=(6, 3)), rng.normal(size=3) + 2.0


def test_folded_softmax_gives_the_calibrated_probabilities():
    features, kernel, bias = _readout()
    scores = features @ kernel + bias
    folded = fold_softmax(kernel, bias, 3.7)
    logits = features @ folded[0] + folded[1]
    np.testing.assert_allclose(
        special.softmax(logits, axis=1), special.softmax(3.7 * scores, axis=1)
    )
    np.testing.assert_array_equal(logits.argmax(axis=1), scores.argmax(axis=1))
    assert folded[1].mean() == pytest.approx(0.0, abs=1e-12)


def test_folded_sigmoid_gives_the_calibrated_probabilities():
    features, kernel, bias = _readout()
    scores, temperatures = features @ kernel + bias, np.array([0.3, 4.0, 50.0])
    folded = fold_sigmoid(kernel, bias, temperatures)
    probabilities = special.expit(features @ folded[0] + folded[1])
    np.testing.assert_allclose(
        probabilities, special.expit(temperatures * (scores - 0.5)), rtol=1e-9
    )
    np.testing.assert_array_equal(probabilities > 0.5, scores > 0.5)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_temperatures_are_positive_so_decisions_stay(sign):
    """Even for scores that are wrong: turning them round is not calibration."""
    scores, targets = _scores(300)
    weight = np.ones(300)
    assert softmax_temperature(sign * scores, targets, weight) > 0
    turned = 0.5 + sign * (scores - 0.5)
    assert np.all(sigmoid_temperatures(turned, targets, weight) > 0)
