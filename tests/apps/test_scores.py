"""Scores: the numbers, worked out by hand."""

import math

import numpy as np
import pytest

from keras_swim.apps.report import scores


def test_wilson_by_hand():
    # (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), n = 10, p = 0.8.
    z2 = 1.959964**2
    middle = (0.8 + z2 / 20) / (1 + z2 / 10)
    half = 1.959964 * math.sqrt(0.8 * 0.2 / 10 + z2 / 400) / (1 + z2 / 10)
    assert scores.wilson(0.8, 10) == pytest.approx((middle - half, middle + half))
    assert scores.wilson(0.8, 10) == pytest.approx((0.490, 0.943), abs=5e-4)


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_wilson_stays_inside_and_holds_the_share(rows):
    for right in range(0, rows + 1, max(rows // 7, 1)):
        low, high = scores.wilson(right / rows, rows)
        assert 0 <= low <= right / rows + 1e-12
        assert right / rows - 1e-12 <= high <= 1
        assert high > low


def test_class_scores_by_hand():
    chances = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.7, 0.3]])
    found = scores.class_scores(chances, np.array([0, 0, 1, 1]))
    assert found["accuracy"] == 0.75
    assert found["loss"] == pytest.approx(-np.log([0.9, 0.6, 0.8, 0.3]).mean())
    assert found["baseline_accuracy"] == 0.5
    assert found["baseline_loss"] == pytest.approx(math.log(2))


def test_one_class_only_has_a_certain_baseline():
    found = scores.class_scores(np.array([[0.9, 0.1]] * 3), np.zeros(3, int))
    assert (found["baseline_accuracy"], found["baseline_loss"]) == (1.0, 0.0)


def test_confusion_counts_and_their_table():
    labels = np.array([0, 0, 0, 1, 1, 2])
    predicted = np.array([0, 0, 1, 1, 0, 1])
    counts = scores.confusion_counts(labels, predicted, 4)
    assert counts.tolist() == [[2, 1, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [0] * 4]
    table = scores.class_table(counts, ["a", "b", "c", "d"])
    assert table[0] == {
        "name": "a",
        "rows": 3,
        "precision": pytest.approx(2 / 3),
        "recall": pytest.approx(2 / 3),
        "f1": pytest.approx(2 / 3),
    }
    assert (table[2]["precision"], table[2]["recall"]) == (None, 0.0)
    assert [table[3][key] for key in ("precision", "recall", "f1")] == [None] * 3


def test_most_confused_pairs_come_first():
    counts = np.array([[5, 1, 0], [4, 9, 0], [0, 2, 7]])
    pairs = scores.most_confused(counts, ["a", "b", "c"], 10)
    found = [(p["true"], p["predicted"], p["count"], p["rows"]) for p in pairs]
    assert found == [("b", "a", 4, 13), ("c", "b", 2, 9), ("a", "b", 1, 6)]
    assert len(scores.most_confused(counts, ["a", "b", "c"], 2)) == 2


def test_calibration_error_by_hand():
    # Bin 0.5 to 0.6: two rows, one right; bin 0.9 to 1: three rows, all right.
    sure = np.array([0.55, 0.57, 0.95, 0.97, 1.0])
    chances = np.stack([sure, 1 - sure], axis=1)
    found = scores.calibration(chances, np.array([0, 1, 0, 0, 0]))
    first = abs(0.56 - 0.5)
    last = abs((0.95 + 0.97 + 1.0) / 3 - 1.0)
    assert found["error"] == pytest.approx(0.4 * first + 0.6 * last)
    assert [part["rows"] for part in found["bins"]] == [2, 3]
    assert found["bins"][0]["low"] == pytest.approx(0.5)
    assert found["bins"][1]["high"] == pytest.approx(1.0)


def test_bins_hold_all_rows_and_their_own_probabilities(rng):
    chances = rng.dirichlet(np.full(7, 0.4), size=500).astype("float32")
    found = scores.calibration(chances, rng.integers(0, 7, 500))
    assert sum(part["rows"] for part in found["bins"]) == 500
    for part in found["bins"]:
        assert part["low"] - 1e-6 <= part["confidence"] <= part["high"] + 1e-6
        assert part["accuracy_low"] <= part["accuracy"] <= part["accuracy_high"]


def test_well_calibrated_probabilities_have_a_small_error(rng):
    chances = rng.dirichlet(np.ones(3), size=20000)
    labels = (chances.cumsum(axis=1) < rng.random((20000, 1))).sum(axis=1)
    assert scores.calibration(chances, labels)["error"] < 0.02
    assert scores.calibration(chances**3, labels)["error"] > 0.1


def test_regression_scores_by_hand():
    true = np.array([[0.0], [2.0], [4.0]])
    found = scores.regression_scores(true + np.array([[1.0], [0.0], [-1.0]]), true)
    assert found["rmse"] == pytest.approx(math.sqrt(2 / 3))
    assert found["mae"] == pytest.approx(2 / 3)
    assert found["r2"] == pytest.approx(1 - (2 / 3) / (8 / 3))
    assert scores.regression_scores(true, np.ones((3, 1)))["r2"] is None
