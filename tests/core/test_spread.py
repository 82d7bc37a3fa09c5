"""Variance and leverage: the textbook's formulas, whatever the state keeps."""

import numpy as np
import pytest

from keras_swim.core import spread as spreads
from keras_swim.core.readout import ReadoutState
from keras_swim.core.solvers import solve
from keras_swim.core.spread import Spread


def _rows(n, k, c=2, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, k)) * rng.uniform(0.2, 2, k) + rng.normal(size=k)
    targets = features @ rng.normal(size=(k, c)) + rng.normal(size=(n, c)) + 5.0
    return features, targets


def _state(features, targets, weight=None, form="auto"):
    state = ReadoutState(features.shape[1], targets.shape[1], form)
    return state.update(features, targets, weight)


def _by_hand(features, targets, l2, new, weight=None):
    """All quantities from the n x n hat matrix of the ridge problem."""
    n, k = features.shape
    w = np.ones(n) if weight is None else weight
    total = w.sum()
    mean = w @ features / total
    fc, root = features - mean, np.sqrt(w)[:, None]
    gram = (fc * root).T @ (fc * root)
    inverse = np.linalg.inv(gram + l2 * np.trace(gram) / k * np.eye(k))
    hat = root @ root.T / total + (fc * root) @ inverse @ (fc * root).T
    left = (np.eye(n) - hat) @ (targets * root)
    noise = np.sum(left**2, axis=0) / (total - np.trace(hat))
    leverage = np.sum((new - mean) @ inverse * (new - mean), axis=1)
    return np.trace(hat), noise, leverage, (1 / total + leverage)[:, None] * noise


@pytest.mark.parametrize("form", ["auto", "rows", "sums"])
@pytest.mark.parametrize("n", [5, 12, 13, 14, 60])
@pytest.mark.parametrize("l2", [1e-3, 0.1, 30.0])
def test_all_forms_agree_with_the_hat_matrix(form, n, l2):
    features, targets = _rows(n, 12)
    new = np.concatenate([features[:3], _rows(4, 12, seed=1)[0]])
    df, noise, leverage, variance = _by_hand(features, targets, l2, new)
    spread = Spread(_state(features, targets, form=form), l2)
    assert spread.rows == n
    assert spread.degrees_of_freedom == pytest.approx(df, rel=1e-9)
    np.testing.assert_allclose(spread.noise, noise, rtol=1e-7)
    np.testing.assert_allclose(spread.leverage(new), leverage, rtol=1e-9)
    np.testing.assert_allclose(spread.variance(new), variance, rtol=1e-7)
    np.testing.assert_allclose(
        spread.variance(new, new_rows=True), variance + noise, rtol=1e-7
    )


@pytest.mark.parametrize("n", [8, 40])
def test_a_weight_of_two_counts_as_two_rows(n):
    features, targets = _rows(n, 12)
    weight = np.random.default_rng(1).integers(1, 4, n).astype(float)
    times = weight.astype(int)
    weighted = Spread(_state(features, targets, weight), 0.1)
    repeated = Spread(
        _state(np.repeat(features, times, axis=0), np.repeat(targets, times, axis=0)),
        0.1,
    )
    df, noise, leverage, variance = _by_hand(features, targets, 0.1, features, weight)
    assert weighted.rows == repeated.rows == times.sum()
    for spread in (weighted, repeated):
        assert spread.degrees_of_freedom == pytest.approx(df)
        np.testing.assert_allclose(spread.noise, noise)
        np.testing.assert_allclose(spread.leverage(features), leverage)
        np.testing.assert_allclose(spread.variance(features), variance)


@pytest.mark.parametrize("n", [8, 40])
def test_weights_that_add_up_to_one_change_nothing(n):
    features, targets = _rows(n, 12)
    plain = Spread(_state(features, targets), 0.1)
    small = Spread(_state(features, targets, np.full(n, 1 / n)), 0.1)
    assert small.rows == n
    np.testing.assert_allclose(small.noise, plain.noise)
    np.testing.assert_allclose(small.variance(features), plain.variance(features))


def test_rows_of_weight_zero_do_not_count():
    features, targets = _rows(20, 12)
    weight = np.r_[np.ones(9), np.zeros(11)]
    with_zeros = Spread(_state(features, targets, weight, "rows"), 0.1)
    without = Spread(_state(features[:9], targets[:9]), 0.1)
    assert with_zeros.degrees_of_freedom == pytest.approx(without.degrees_of_freedom)
    np.testing.assert_allclose(with_zeros.noise, without.noise)
    np.testing.assert_allclose(
        with_zeros.leverage(features), without.leverage(features)
    )


@pytest.mark.parametrize("form", ["rows", "sums"])
def test_no_cancellation_where_the_fit_is_nearly_exact(form):
    # 30 rows, 200 units: n - df is 1e-7, its parts are 30.
    features, targets = _rows(30, 200)
    l2 = 1e-8
    spread = Spread(_state(features, targets, form=form), l2)
    centred = features - features.mean(axis=0)
    values = np.linalg.svd(centred, compute_uv=False)[:29] ** 2
    penalty = l2 * values.sum() / 200
    left = np.sum(penalty / (values + penalty))
    assert left < 1e-6
    assert spread.typical_leverage == pytest.approx(30 / left, rel=1e-6)
    if form == "rows":
        kernel = centred.T @ np.linalg.solve(
            centred @ centred.T + penalty * np.eye(30), targets - targets.mean(axis=0)
        )
        residual = targets - targets.mean(axis=0) - centred @ kernel
        np.testing.assert_allclose(
            spread.noise, np.sum(residual**2, axis=0) / left, rtol=1e-4
        )
    assert (spread.noise > 0).all()


def test_leverage_outside_the_span_of_few_rows_is_exact():
    features, targets = _rows(10, 40)
    spread = Spread(_state(features, targets), 1e-10)
    direct = _by_hand(features, targets, 1e-10, features)[2]
    # Training rows lie in the span: rounding divided by lambda would show.
    np.testing.assert_allclose(spread.leverage(features), direct, rtol=1e-4)
    assert (spread.leverage(features) < 1).all()


def test_mean_leverage_of_training_rows_and_of_new_ones():
    features, targets = _rows(2000, 500)
    spread = Spread(_state(features[:1000], targets[:1000]), 1e-4)
    trained = spread.leverage(features[:1000])
    assert trained.mean() == pytest.approx((spread.degrees_of_freedom - 1) / 1000)
    fresh = spread.leverage(features[1000:]) / spread.typical_leverage
    assert fresh.mean() == pytest.approx(1, abs=0.05)
    # And not what training rows would make one believe: twice as much.
    assert spread.leverage(features[1000:]).mean() > 1.8 * trained.mean()


@pytest.mark.parametrize("n, k", [(400, 10), (400, 200), (60, 100)])
def test_intervals_cover_what_they_promise(n, k):
    """With a prior that is the ridge's own, the intervals are exact."""
    means, targets_inside = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        features = rng.normal(size=(n + 50, k))
        centred = features[:n] - features[:n].mean(axis=0)
        noise = 0.5
        l2 = 0.1
        penalty = l2 * np.sum(centred**2) / k
        kernel = rng.normal(size=(k, 1)) * noise / np.sqrt(penalty)
        mean = features @ kernel + 3
        targets = mean + noise * rng.normal(size=mean.shape)
        state = _state(features[:n], targets[:n])
        solved = solve(state, l2)
        scores = features[n:] @ solved.kernel + solved.bias
        spread = Spread(state, l2)
        gap = np.abs(scores - mean[n:])
        means.append(gap < 1.96 * np.sqrt(spread.variance(features[n:])))
        gap = np.abs(scores - targets[n:])
        sizes = np.sqrt(spread.variance(features[n:], new_rows=True))
        targets_inside.append(gap < 1.96 * sizes)
    assert np.mean(means) == pytest.approx(0.95, abs=0.03)
    assert np.mean(targets_inside) == pytest.approx(0.95, abs=0.02)


def test_noise_is_found_again():
    features, _ = _rows(3000, 20)
    rng = np.random.default_rng(3)
    sizes = np.array([0.1, 2.0])
    targets = features[:, :2] + sizes * rng.normal(size=(3000, 2))
    spread = Spread(_state(features, targets), 1e-6)
    np.testing.assert_allclose(np.sqrt(spread.noise), sizes, rtol=0.05)


def test_without_penalty_it_is_ordinary_least_squares():
    features, targets = _rows(50, 12)
    spread = Spread(_state(features, targets), 0)
    df, noise, leverage, _ = _by_hand(features, targets, 0, features)
    assert spread.degrees_of_freedom == pytest.approx(df) == pytest.approx(13)
    np.testing.assert_allclose(spread.noise, noise)
    np.testing.assert_allclose(spread.leverage(features), leverage)


def test_columns_that_repeat_do_not_break_a_tiny_penalty():
    features, targets = _rows(50, 6)
    single = Spread(_state(features, targets), 0)
    twice = Spread(_state(np.tile(features, 2), targets), 0)
    assert twice.degrees_of_freedom == pytest.approx(7, abs=0.05)
    np.testing.assert_allclose(twice.noise, single.noise, rtol=1e-3)
    np.testing.assert_allclose(
        twice.leverage(np.tile(features, 2)), single.leverage(features), rtol=1e-2
    )


@pytest.mark.parametrize("n", [5, 50])
def test_constant_features_leave_the_mean(n):
    targets = np.random.default_rng(0).normal(size=(n, 1))
    spread = Spread(_state(np.full((n, 8), 3.0), targets), 0.1)
    assert spread.degrees_of_freedom == pytest.approx(1)
    np.testing.assert_allclose(spread.noise, targets.var(axis=0, ddof=1))
    np.testing.assert_allclose(
        spread.variance(np.full((1, 8), 3.0))[0], targets.var(ddof=1) / n
    )


@pytest.mark.parametrize("n", [20, 100])
def test_blocks_do_not_matter(n, monkeypatch):
    features, targets = _rows(n, 30)
    spread = Spread(_state(features, targets), 0.1)
    new = _rows(1000, 30, seed=2)[0].astype("float32")
    whole = spread.leverage(new)
    monkeypatch.setattr(spreads, "_BLOCK_ELEMENTS", 1)
    np.testing.assert_allclose(spread.leverage(new), whole, rtol=1e-12)
    assert spread.leverage(new[:0]).shape == (0,)


def test_merged_states_know_the_same():
    features, targets = _rows(60, 12)
    merged = _state(features[:20], targets[:20]).merge(
        _state(features[20:], targets[20:])
    )
    whole = _state(features, targets)
    for l2 in (1e-3, 1.0):
        np.testing.assert_allclose(
            Spread(merged, l2).variance(features), Spread(whole, l2).variance(features)
        )


@pytest.mark.parametrize("n", [1, 10])
def test_a_fit_without_noise_is_refused(n):
    state = _state(*_rows(n, 12))
    with pytest.raises(ValueError, match=r"say nothing of the noise.*larger `l2`"):
        Spread(state, 0)


def test_bad_input():
    state = _state(*_rows(30, 12))
    with pytest.raises(ValueError, match="`l2` must be a finite number"):
        Spread(state, -1.0)
    with pytest.raises(ValueError, match="rows of positive weight"):
        Spread(ReadoutState(12, 2, form="sums"), 0.1)
    with pytest.raises(ValueError, match="rows of positive weight"):
        Spread(ReadoutState(12, 2), 0.1)
    spread = Spread(state, 0.1)
    for wrong in (np.zeros((3, 11)), np.zeros(12)):
        with pytest.raises(ValueError, match=r"must have shape \(rows, 12\)"):
            spread.leverage(wrong)
