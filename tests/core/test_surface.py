"""Sums over held-out rows, and the choice among widths and penalties."""

import numpy as np
import pytest

from keras_swim.core.surface import Surface, Tally, same_class, same_sides


def surface(loss, error=0.01, **kwargs):
    loss = np.asarray(loss, dtype=float)
    return Surface(
        widths=2 ** np.arange(len(loss)),
        l2=10.0 ** np.arange(loss.shape[1]),
        loss=loss,
        loss_error=np.full(loss.shape, error),
        accuracy=kwargs.get("accuracy"),
        accuracy_error=kwargs.get("accuracy_error"),
        rows=100,
    )


def test_the_best():
    assert surface([[3, 2], [1, 5]]).choose() == (1, 0)


def test_among_equals_the_simplest():
    assert surface([[1, 1], [1, 1]]).choose() == (0, 1)


def test_smallest_width_within_one_standard_error():
    values = [[1.2, 1.5], [1.005, 1.3], [1.0, 1.1]]
    assert surface(values).choose(rule="one_standard_error") == (1, 0)
    assert surface(values, error=0.001).choose(rule="one_standard_error") == (2, 0)
    assert surface(values, error=0.5).choose(rule="one_standard_error") == (0, 0)


def test_what_is_not_finite_is_not_chosen():
    assert surface([[np.nan, 2], [np.inf, 3]]).choose() == (0, 1)


def test_accuracy_is_maximised():
    found = surface(
        [[1.0], [2.0]],
        accuracy=np.array([[0.8], [0.9]]),
        accuracy_error=np.full((2, 1), 0.01),
    )
    assert found.choose("accuracy") == (1, 0)
    assert found.choose("loss") == (0, 0)


def test_bad_arguments():
    with pytest.raises(ValueError, match="best"):
        surface([[1.0]]).choose(rule="worst")
    with pytest.raises(ValueError, match="accuracy"):
        surface([[1.0]]).choose("f1")
    with pytest.raises(ValueError, match="real numbers"):
        surface([[1.0]]).choose("accuracy")


def test_blocks_add_up_to_the_weighted_mean_and_its_error():
    rng = np.random.default_rng(0)
    scores, targets = rng.normal(size=(40, 3, 2, 4)), np.eye(4)[rng.integers(0, 4, 40)]
    weight = rng.uniform(0, 2, 40)
    tally = Tally([1, 2, 3], [0.1, 1.0], same_class)
    for part in (slice(0, 15), slice(15, 40)):
        tally.count_rows(weight[part])
        # Once all at a time, once one at a time.
        if part.start == 0:
            tally.add(scores[part].copy(), targets[part], weight[part])
        else:
            for i in range(3):
                for j in range(2):
                    # Outputs first, rows last.
                    one = scores[part, i, j].T.copy()
                    tally.add(one, targets[part], weight[part], (i, j), axis=0)
    found = tally.surface()
    losses = ((scores - targets[:, None, None]) ** 2).sum(axis=-1)
    mean = np.einsum("m,mwl->wl", weight, losses) / weight.sum()
    np.testing.assert_allclose(found.loss, mean)
    error = np.sqrt(np.einsum("m,mwl->wl", weight**2, (losses - mean) ** 2))
    np.testing.assert_allclose(found.loss_error, error / weight.sum())
    right = scores.argmax(axis=-1) == targets.argmax(axis=1)[:, None, None]
    np.testing.assert_allclose(
        found.accuracy, np.einsum("m,mwl->wl", weight, right) / weight.sum()
    )
    assert found.rows == 40


def test_sides():
    scores = np.array([[0.9, 0.2], [0.4, 0.6]])
    np.testing.assert_array_equal(
        same_sides(scores, np.array([[1.0, 0.0], [1.0, 1.0]])), [1.0, 0.5]
    )


def test_joined_surfaces_are_in_order():
    first, second = surface([[1, 2], [3, 4]]), surface([[5, 6], [7, 8]])
    second = Surface(**{**second.__dict__, "l2": np.array([0.01, 0.1])})
    both = first.joined(second)
    np.testing.assert_allclose(both.l2, [0.01, 0.1, 1, 10])
    np.testing.assert_array_equal(both.loss, [[5, 6, 1, 2], [7, 8, 3, 4]])


def test_widths_beyond_the_limit_are_all_as_good():
    values = [[3.0], [1.0], [1.0]]
    assert surface(values).choose() == (1, 0)
    limited = Surface(**{**surface(values).__dict__, "limit": 2})
    assert limited.choose() == (2, 0)
    assert limited.choose(rule="one_standard_error") == (1, 0)
    # Below the limit the best is the best.
    assert Surface(**{**surface(values).__dict__, "limit": 4}).choose() == (1, 0)
