"""Labels count as one-hot, real targets by their distance."""

import numpy as np
import pytest

from keras_swim.core.targets import (
    class_weights,
    differences,
    encode,
    one_hot,
    side_by_side,
)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([7, 3, 7, 900]),
        np.array([[7], [3], [7], [900]]),
        np.array([7, 3, 7, 900], dtype=np.uint16),
        np.array(["b", "a", "b", "c"]),
        np.array(["b", "a", "b", "c"], dtype=object),
    ],
)
def test_labels_become_codes_in_their_own_order(labels):
    codes = encode(labels)
    assert codes.dtype == np.int64
    np.testing.assert_array_equal(codes, [1, 0, 1, 2])


def test_booleans_are_labels():
    np.testing.assert_array_equal(encode(np.array([True, False])), [1, 0])


@pytest.mark.parametrize("shape", [(6,), (6, 1), (6, 3), (6, 2, 2)])
def test_real_targets_become_columns(shape):
    y = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    codes = encode(y)
    assert codes.dtype == np.float64
    np.testing.assert_array_equal(codes, y.reshape(6, -1))


def test_rows_of_several_integer_columns_are_classes():
    # One-hot codes, and several labels at once: no column is a magnitude.
    assert encode(np.array([[0, 1], [1, 0], [0, 1]])).tolist() == [0, 1, 0]
    codes = encode(np.array([[7, 1], [7, 2], [8, 1], [7, 2]]))
    assert codes[1] == codes[3] and len(set(codes.tolist())) == 3


def test_numbering_of_the_classes_does_not_matter():
    i, j = np.array([0, 0, 1]), np.array([1, 2, 2])
    near = differences(encode(np.array([0, 1, 1])), i, j)
    far = differences(encode(np.array([5, 100, 100])), i, j)
    np.testing.assert_array_equal(near, [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(far, near)


def test_codes_and_one_hot_targets_differ_alike():
    rng = np.random.default_rng(1)
    labels = rng.integers(4, size=50)
    i, j = rng.integers(50, size=(2, 200))
    np.testing.assert_array_equal(
        differences(labels, i, j), differences(one_hot(labels, 4), i, j)
    )


@pytest.mark.parametrize("norm, expected", [(1, 7.0), (2, 5.0), (np.inf, 4.0)])
def test_norm_of_the_difference(norm, expected):
    y = np.array([[1.0, 1.0], [4.0, -3.0]])
    assert differences(y, np.array([0]), np.array([1]), norm) == [expected]


def test_single_column_counts_by_its_absolute_value():
    y = np.array([[1.0], [-2.0]])
    assert differences(y, np.array([0, 1]), np.array([1, 0])).tolist() == [3.0, 3.0]


def test_blocks_of_wide_targets_do_not_show():
    # 1 << 20 columns leave two rows to a block.
    y = np.zeros((4, 1 << 20))
    y[:, 5] = [0.0, 1.0, 3.0, 6.0]
    i, j = np.array([0, 0, 0, 1, 2]), np.array([1, 2, 3, 3, 3])
    assert differences(y, i, j).tolist() == [1.0, 3.0, 6.0, 5.0, 3.0]


def test_side_by_side_gives_every_target_the_same_spread():
    rng = np.random.default_rng(2)
    small, large = rng.normal(size=(400, 1)), 1e6 * rng.normal(size=(400, 2))
    joined = side_by_side([small, large, rng.integers(3, size=400)])
    assert joined.shape == (400, 1 + 2 + 3)
    assert joined[:, 0].std() == pytest.approx(1.0)
    assert joined[:, 1:3].std(axis=0).max() == pytest.approx(1.0)
    assert joined[:, 3:].std(axis=0).max() == pytest.approx(1.0)
    # One factor a target, not a column: directions inside a target stay.
    ratio = joined[:, 1:3] / large
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-12)


def test_side_by_side_leaves_one_target_and_constants_alone():
    labels = np.array([0, 1, 1])
    assert side_by_side([labels]) is labels
    joined = side_by_side([np.full((3, 1), 2.0), np.array([[0.0], [1.0], [2.0]])])
    np.testing.assert_array_equal(joined[:, 0], 2.0)


def test_balanced_weights_give_every_class_the_same_total():
    labels = np.array([0] * 7 + [2] * 2 + [3])
    weight = class_weights(labels, 5, "balanced")
    totals = [weight[labels == label].sum() for label in (0, 2, 3)]
    np.testing.assert_allclose(totals, len(labels) / 3)


def test_weights_by_label_default_to_one():
    labels = np.array([0, 1, 2, 1])
    weight = class_weights(labels, 3, {1: 0.25, np.int64(2): 0})
    np.testing.assert_array_equal(weight, [1.0, 0.25, 0.0, 0.25])


@pytest.mark.parametrize(
    "bad, text",
    [
        ("even", '"balanced"'),
        ({3: 1.0}, "expected 0 to 2"),
        ({-1: 1.0}, "expected 0 to 2"),
        ({0.5: 1.0}, "expected 0 to 2"),
        ({0: -1.0}, "non-negative"),
        ({0: np.nan}, "non-negative"),
    ],
)
def test_bad_class_weights_are_refused(bad, text):
    with pytest.raises(ValueError, match=text):
        class_weights(np.array([0, 1, 2]), 3, bad)
