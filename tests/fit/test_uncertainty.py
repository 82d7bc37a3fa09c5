"""Variance and outlier scores of whole models, from any input."""

import keras
import numpy as np
import pytest

from keras_swim import ReadoutState, SampledDense, Uncertainty, swim_fit
from keras_swim.core.spread import Spread
from keras_swim.fit.segment import as_array
from keras_swim.fit.uncertainty import OUTLIER_L2


def _as_features(layer, x):
    return as_array(layer(keras.ops.convert_to_tensor(x)))


def _regression(n=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 3)).astype("float32")
    y = x[:, :1] * x[:, 1:2] + 0.1 * rng.normal(size=(n, 1))
    return x, y


@pytest.fixture(scope="module")
def fitted():
    """A model with one sampled layer, its state and its penalty."""
    x, y = _regression()
    model = keras.Sequential([SampledDense(80, seed=0), keras.layers.Dense(1)])
    history = swim_fit(model, x, y, seed=0, keep_state=True, verbose=0)
    return model, history.state, history.history["l2"][0]


def test_it_is_the_spread_of_the_readouts_features(fitted):
    model, state, l2 = fitted
    x, _ = _regression(3000, seed=1)
    features = _as_features(model.layers[0], x)
    uncertainty = Uncertainty(model, state, l2)
    spread = Spread(state, l2)
    assert uncertainty.variance(x).shape == (3000, 1)
    np.testing.assert_allclose(
        uncertainty.variance(x), spread.variance(features), rtol=1e-3
    )
    np.testing.assert_allclose(
        uncertainty.variance(x, new_rows=True) - uncertainty.variance(x),
        np.broadcast_to(spread.noise, (3000, 1)),
    )
    np.testing.assert_array_equal(uncertainty.noise, spread.noise)
    assert uncertainty.degrees_of_freedom == spread.degrees_of_freedom
    spread = Spread(state, OUTLIER_L2)
    score = uncertainty.outlier_score(x)
    assert score.shape == (3000,)
    np.testing.assert_allclose(
        score, spread.leverage(features) / spread.typical_leverage, rtol=1e-3
    )


def test_intervals_of_a_sampled_network_cover():
    inside = []
    for seed in range(3):
        x, y = _regression(500, seed)
        model = keras.Sequential([SampledDense(80, seed=seed), keras.layers.Dense(1)])
        history = swim_fit(model, x, y, seed=seed, keep_state=True, verbose=0)
        uncertainty = Uncertainty(model, history.state)
        x_test, y_test = _regression(1000, seed + 100)
        size = 1.96 * np.sqrt(uncertainty.variance(x_test, new_rows=True))
        inside.append(np.abs(model.predict(x_test, verbose=0) - y_test) < size)
    assert np.mean(inside) == pytest.approx(0.95, abs=0.025)


def test_typical_rows_score_one_and_far_ones_more(fitted):
    model, state, _ = fitted
    uncertainty = Uncertainty(model, state)
    fresh = uncertainty.outlier_score(_regression(1000, seed=2)[0])
    assert fresh.mean() == pytest.approx(1, abs=0.25)
    far = uncertainty.outlier_score(4 * _regression(1000, seed=2)[0])
    assert np.median(far) > 5 * np.median(fresh)


def test_any_input_will_do(fitted):
    model, state, l2 = fitted
    x, y = _regression(70, seed=3)
    uncertainty = Uncertainty(model, state, l2)
    expected = uncertainty.outlier_score(x)

    class Batches(keras.utils.PyDataset):
        num_batches = 3

        def __getitem__(self, index):
            return x[index * 25 : index * 25 + 25], y[index * 25 : index * 25 + 25]

    inputs = [
        x.astype("float64"),
        keras.ops.convert_to_tensor(x),
        Batches(),
        (x[i : i + 30] for i in range(0, 70, 30)),
        lambda: iter([(x[:1], y[:1]), (x[1:], y[1:])]),
    ]
    for data in inputs:
        np.testing.assert_allclose(uncertainty.outlier_score(data), expected, rtol=1e-3)


def test_frozen_backbone_runs_in_small_batches():
    seen = []

    class Backbone(keras.layers.Layer):
        def __init__(self):
            super().__init__(trainable=False)
            self.scale = self.add_weight(shape=(), initializer="ones", trainable=False)

        def call(self, inputs):
            seen.append(inputs.shape[0])
            return inputs * self.scale

    x, y = _regression()
    model = keras.Sequential(
        [keras.Input((3,)), Backbone(), SampledDense(40), keras.layers.Dense(1)]
    )
    swim_fit(model, x, y, l2=1e-3, seed=0, verbose=0)
    state = ReadoutState(40, 1).update(_as_features(model.layers[1], x), y)
    seen.clear()
    score = Uncertainty(model, state).outlier_score(x[:100])
    assert score.shape == (100,)
    # Symbolic calls have no number of rows.
    assert seen and all(rows is None or rows <= 32 for rows in seen)


def test_several_inputs_and_outputs_of_a_functional_model():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 300, 2)).astype("float32")
    y = {"real": a[:, :1] + b[:, :1], "kind": (a[:, 0] > 0).astype(int)}
    first, second = keras.Input((2,), name="a"), keras.Input((2,), name="b")
    joint = keras.layers.Concatenate()([first, second])
    left = SampledDense(30, name="left")(joint)
    right = SampledDense(20, name="right")(joint)
    model = keras.Model(
        {"a": first, "b": second},
        {
            "real": keras.layers.Dense(1, name="real")(left),
            "kind": keras.layers.Dense(2, "softmax", name="kind")(right),
        },
    )
    x = {"b": b, "a": a}
    swim_fit(model, x, y, l2=1e-3, seed=0, verbose=0)
    joined = np.concatenate([a, b], axis=1)
    features = _as_features(model.get_layer("right"), joined)
    state = ReadoutState(20, 2).update(features, np.eye(2)[y["kind"]])
    uncertainty = Uncertainty(model, state, 1e-3, output="kind")
    np.testing.assert_allclose(
        uncertainty.variance(x), Spread(state, 1e-3).variance(features), rtol=1e-3
    )
    with pytest.raises(ValueError, match=r"2 outputs.*output=None.*\['kind', 'real'\]"):
        Uncertainty(model, state, 1e-3).variance(x)
    with pytest.raises(ValueError, match=r"must be one of.*Received: output='other'"):
        Uncertainty(model, state, 1e-3, output="other").variance(x)
    with pytest.raises(ValueError, match=r"30 features and 1 outputs.*a state of 20"):
        Uncertainty(model, state, 1e-3, output="real").variance(x)


def test_every_position_has_its_own_variance():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5, 3)).astype("float32")
    y = x.sum(axis=-1, keepdims=True)
    model = keras.Sequential([SampledDense(20), keras.layers.Dense(1)])
    swim_fit(model, x, y, l2=1e-3, seed=0, verbose=0)
    features = _as_features(model.layers[0], x).reshape(-1, 20)
    state = ReadoutState(20, 1).update(features, y.reshape(-1, 1))
    uncertainty = Uncertainty(model, state, 1e-3)
    assert uncertainty.variance(x).shape == model.predict(x, verbose=0).shape
    assert uncertainty.outlier_score(x).shape == (60, 5)


def test_a_subclassed_model_takes_integers_and_fractions_alike():
    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = SampledDense(30, seed=0)
            self.readout = keras.layers.Dense(1)

        def call(self, inputs):
            return self.readout(self.hidden(keras.ops.cast(inputs, "float32") / 9))

    x, y = _regression()
    x = np.round(9 * x)
    model = Net()
    swim_fit(model, x, y, l2=1e-3, seed=0, verbose=0)
    state = ReadoutState(30, 1).update(_as_features(model.hidden, x / 9), y)
    uncertainty = Uncertainty(model, state)
    whole = uncertainty.outlier_score(x.astype("int32"))
    np.testing.assert_allclose(uncertainty.outlier_score(x), whole, rtol=1e-3)
    spread = Spread(state, OUTLIER_L2)
    expected = spread.leverage(_as_features(model.hidden, (x + 0.4) / 9))
    np.testing.assert_allclose(
        uncertainty.outlier_score(x + 0.4),
        expected / spread.typical_leverage,
        rtol=1e-3,
    )


def test_the_state_may_know_its_penalty(fitted):
    model, state, l2 = fitted
    x, _ = _regression(20, seed=4)
    state = ReadoutState(80, 1).merge(state)
    state.l2 = None
    with pytest.raises(ValueError, match=r"depends on the penalty.*Pass `l2`"):
        Uncertainty(model, state).variance(x)
    # The outlier score has a penalty of its own.
    assert Uncertainty(model, state).outlier_score(x).shape == (20,)
    state.l2 = l2
    np.testing.assert_array_equal(
        Uncertainty(model, state).variance(x), Uncertainty(model, state, l2).variance(x)
    )
    given = Uncertainty(model, state, l2=10.0)
    np.testing.assert_array_equal(given.noise, Spread(state, 10.0).noise)


def test_bad_input(fitted):
    model, state, l2 = fitted
    with pytest.raises(TypeError, match=r"must be a keras.Model. Received: str"):
        Uncertainty("model", state)
    uncertainty = Uncertainty(model, state, l2)
    with pytest.raises(ValueError, match=r"expects inputs of shape.*\(5, 4\)"):
        uncertainty.variance(np.zeros((5, 4)))
    with pytest.raises(ValueError, match=r"finite numbers.*nan at row 1"):
        uncertainty.outlier_score(np.array([[0.0, 0, 0], [np.nan, 0, 0]]))
    with pytest.raises(ValueError, match="an empty array"):
        uncertainty.outlier_score(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="`l2` must be a finite number"):
        Uncertainty(model, state, l2=-1).variance(np.zeros((1, 3)))


@pytest.mark.parametrize("rows", [500, 4000])
def test_strange_resnet_features_are_flagged(resnet_features, rows):
    """Fewer rows than units, and more; no class, or no correlation, is known."""
    x, y, x_test, _ = resnet_features
    x, y, x_test = x[:rows], y[:rows], x_test[:300]
    model = keras.Sequential(
        [SampledDense(1000, seed=0), keras.layers.Dense(10, activation="softmax")]
    )
    swim_fit(model, x, y, l2=1e-2, seed=0, verbose=0)
    state = ReadoutState(1000, 10).update(
        _as_features(model.layers[0], x), np.eye(10)[y]
    )
    assert state.keeps_rows == (rows < 1000)
    uncertainty = Uncertainty(model, state, 1e-2)
    scores = uncertainty.outlier_score(x_test)
    assert 0.5 < np.median(scores) < 1.5
    # Every column as it may be in a real image, but each from another image.
    rng = np.random.default_rng(0)
    strange = rng.permuted(x_test, axis=0)
    above = uncertainty.outlier_score(strange)[:, None] > scores
    assert above.mean() > 0.95
    variance = uncertainty.variance(x_test)
    assert variance.shape == (300, 10)
    assert (uncertainty.variance(strange).mean(axis=0) > variance.mean(axis=0)).all()


@pytest.mark.parametrize("units", [40, 300])
def test_left_out_is_a_solution_without_the_row(units):
    x, y = _regression(150)
    labels = (y[:, 0] > 0).astype(int)
    model = keras.Sequential(
        [SampledDense(units, seed=0), keras.layers.Dense(2, activation="softmax")]
    )
    state = swim_fit(model, x, labels, l2=1e-2, keep_state=True, verbose=0).state
    scores = Uncertainty(model, state).left_out(x, labels)
    assert scores.shape == (150, 2)
    features = _as_features(model.layers[0], x)
    codes = np.eye(2)[labels]
    for row in (0, 7, 149):
        rest = np.arange(150) != row
        without = ReadoutState(units, 2).update(features[rest], codes[rest])
        # The same penalty, though it is relative to other features.
        l2 = state.l2 * state.mean_square() / without.mean_square()
        solved = without.solve(l2)
        expected = features[row] @ solved.kernel + solved.bias
        np.testing.assert_allclose(scores[row], expected, atol=2e-4)
    fitted = model.predict(x, verbose=0).argmax(axis=1) == labels
    assert (scores.argmax(axis=1) == labels).mean() < fitted.mean()


def test_left_out_needs_equal_weights(fitted):
    x, y = _regression(100)
    labels = (y[:, 0] > 0.1).astype(int)
    model = keras.Sequential(
        [SampledDense(20, seed=0), keras.layers.Dense(2, activation="softmax")]
    )
    state = swim_fit(
        model, x, labels, class_weight="balanced", keep_state=True, verbose=0
    ).state
    with pytest.raises(ValueError, match="class weights"):
        Uncertainty(model, state).left_out(x, labels)
