"""Going on from a fitted model: new rows, new classes, rows to forget."""

import keras
import numpy as np
import pytest

from keras_swim import (
    ReadoutState,
    SampledDense,
    swim_fit,
    swim_forget,
    swim_select,
    swim_update,
)


def network(outputs, units=40, activation="softmax"):
    return keras.Sequential(
        [SampledDense(units, seed=1), keras.layers.Dense(outputs, activation)]
    )


def scores_of(model, x, state):
    """Scores of the readout before calibration, up to a common shift."""
    *hidden, readout = model.layers
    for layer in hidden:
        x = layer(x)
    features = keras.ops.convert_to_numpy(x).astype(float)
    scores = features @ keras.ops.convert_to_numpy(readout.kernel) + (
        keras.ops.convert_to_numpy(readout.bias)
    )
    scores = scores / (1.0 if state.temperature is None else state.temperature)
    return scores - scores.mean(axis=1, keepdims=True)


def joint_scores(model, x, y, outputs, l2, x_test):
    """The readout of all rows at once, on the same units, by hand."""
    layer = model.layers[0]
    features = [
        keras.ops.convert_to_numpy(layer(part)).astype(float) for part in (x, x_test)
    ]
    state = ReadoutState(layer.units, outputs).update(features[0], np.eye(outputs)[y])
    solved = state.solve(l2)
    scores = features[1] @ solved.kernel + solved.bias
    return scores - scores.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("rows", [1000, 30])
def test_updated_equals_fitted_on_all_rows(digits, rows):
    x, y, x_test, _ = digits
    x, y = x[:rows], y[:rows]
    half = rows // 2
    model = network(10)
    history = swim_fit(model, x[:half], y[:half], l2=1e-2, keep_state=True, verbose=0)
    same, state = swim_update(model, history.state, x[half:], y[half:], verbose=0)
    assert same is model and state.count == rows
    np.testing.assert_allclose(
        scores_of(model, x_test, state),
        joint_scores(model, x, y, 10, 1e-2, x_test),
        atol=2e-5,
    )


def test_new_classes_equal_the_joint_readout(digits):
    x, y, x_test, y_test = digits
    old = y < 6
    model = network(6, units=300)
    history = swim_fit(model, x[old], y[old], keep_state=True, verbose=0)
    new, state = swim_update(
        model, history.state, x[~old], y[~old], new_classes=4, verbose=0
    )
    assert new.output_shape == (None, 10) and model.output_shape == (None, 6)
    np.testing.assert_allclose(
        scores_of(new, x_test, state),
        joint_scores(model, x, y, 10, state.l2, x_test),
        atol=2e-5,
    )
    assert (new.predict(x_test, verbose=0).argmax(axis=1) == y_test).mean() > 0.95
    np.testing.assert_array_equal(new.layers[0].pairs, model.layers[0].pairs)


def test_through_a_file(digits, tmp_path):
    x, y, x_test, _ = digits
    model = network(10)
    history = swim_fit(model, x[:600], y[:600], keep_state=True, verbose=0)
    history.state.save(tmp_path / "state.npz")
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    loaded = ReadoutState.load(tmp_path / "state.npz")
    again, _ = swim_update(again, loaded, x[600:], y[600:], verbose=0)
    model, _ = swim_update(model, history.state, x[600:], y[600:], verbose=0)
    np.testing.assert_allclose(
        again.predict(x_test, verbose=0), model.predict(x_test, verbose=0), atol=1e-6
    )


def test_streams_and_weights(digits):
    x, y, x_test, _ = digits
    weight = np.random.default_rng(0).integers(1, 3, 600).astype(float)

    def batches():
        for start in range(600, 1200, 100):
            part = slice(start, start + 100)
            yield x[part], y[part], weight[start - 600 : start - 500]

    models = []
    for data in ((batches,), (x[600:], y[600:])):
        model = network(10)
        state = swim_fit(
            model, x[:600], y[:600], l2=1e-3, seed=0, keep_state=True, verbose=0
        ).state
        given = {} if len(data) == 1 else {"sample_weight": weight}
        swim_update(model, state, *data, verbose=0, **given)
        models.append(model.predict(x_test, verbose=0))
    np.testing.assert_allclose(*models, atol=1e-5)


def test_validation_data_calibrates(digits):
    x, y, x_test, y_test = digits
    model = network(10, units=200)
    state = swim_fit(model, x[:300], y[:300], l2=1e-3, keep_state=True, verbose=0).state
    state.temperature = np.array(0.5)
    model, state = swim_update(
        model,
        state,
        x[300:],
        y[300:],
        validation_data=(x_test[:300], y_test[:300]),
        verbose=0,
    )
    assert state.temperature > 2
    chances = model.predict(x_test[300:], verbose=0)
    assert -np.log(chances[np.arange(297), y_test[300:]]).mean() < 0.3


def test_sigmoids_grow_too(digits):
    x, y = digits[:2]
    targets = np.eye(10)[y]
    model = network(3, activation="sigmoid")
    state = swim_fit(
        model, x[:600], targets[:600, :3], keep_state=True, verbose=0
    ).state
    model, state = swim_update(
        model, state, x[600:], targets[600:, :4], new_classes=1, verbose=0
    )
    assert model.output_shape == (None, 4) and state.temperature.shape == (4,)


def test_regression(rng):
    x = rng.normal(size=(400, 3)).astype("float32")
    y = np.sin(x[:, 0]) + x[:, 1]
    model = network(1, activation=None)
    state = swim_fit(model, x[:200], y[:200], keep_state=True, verbose=0).state
    before = float(np.mean((model.predict(x[200:], verbose=0)[:, 0] - y[200:]) ** 2))
    swim_update(model, state, x[200:], y[200:], verbose=0)
    after = float(np.mean((model.predict(x[200:], verbose=0)[:, 0] - y[200:]) ** 2))
    assert after < before and state.temperature is None
    with pytest.raises(ValueError, match="is for classes"):
        swim_update(model, state, x, y, new_classes=1, verbose=0)


@pytest.mark.parametrize("rows", [1000, 60])
def test_forgotten_equals_never_seen_on_the_other_units(digits, rows):
    x, y, x_test, _ = digits
    x, y = x[:rows], y[:rows]
    gone = np.arange(3, rows, 20)
    stay = np.setdiff1d(np.arange(rows), gone)
    model = network(10, units=80)
    state = swim_fit(model, x, y, l2=1e-2, keep_state=True, verbose=0).state
    smaller, left = swim_forget(model, state, x[gone], y[gone], gone, verbose=0)
    pairs = smaller.layers[0].pairs
    assert not np.isin(pairs, gone).any()
    assert smaller.layers[0].units == len(pairs) == left.units < 80
    assert np.isin(pairs, model.layers[0].pairs).all()
    np.testing.assert_allclose(
        scores_of(smaller, x_test, left),
        joint_scores(smaller, x[stay], y[stay], 10, left.l2, x_test),
        atol=2e-5,
    )


def test_forgotten_state_equals_the_state_without(digits):
    x, y, _, _ = digits
    gone = np.arange(0, 1200, 50)
    stay = np.setdiff1d(np.arange(1200), gone)
    model = network(10, units=100)
    state = swim_fit(model, x, y, l2=1e-2, keep_state=True, verbose=0).state
    smaller, left = swim_forget(model, state, x[gone], y[gone], gone, verbose=0)
    features = keras.ops.convert_to_numpy(smaller.layers[0](x[stay]))
    without = ReadoutState(left.units, 10).update(features, np.eye(10)[y[stay]])
    for mine, theirs in zip(left.system(), without.system(), strict=True):
        np.testing.assert_allclose(
            mine, theirs, rtol=1e-7, atol=1e-7 * np.abs(theirs).max()
        )
    np.testing.assert_allclose(
        left.solve(1e-2).kernel, without.solve(1e-2).kernel, atol=1e-6
    )


def test_units_beside_other_columns_are_dropped(digits):
    x, y = digits[:2]
    inputs = keras.Input((64,))
    hidden = keras.layers.BatchNormalization()(SampledDense(60, seed=0)(inputs))
    outputs = keras.layers.Dense(10)(keras.layers.Concatenate()([inputs, hidden]))
    model = keras.Model(inputs, keras.layers.Softmax()(outputs))
    state = swim_fit(model, x, y, l2=1e-2, keep_state=True, verbose=0).state
    smaller, left = swim_forget(model, state, x[:50], y[:50], np.arange(50), verbose=0)
    assert left.units == 64 + smaller.layers[1].units
    accuracy = smaller.predict(x, verbose=0).argmax(axis=1) == y
    assert accuracy.mean() > 0.9


def test_what_cannot_be_done_is_refused(digits):
    x, y, _, _ = digits
    model = network(10)
    state = swim_fit(model, x, y, keep_state=True, verbose=0).state
    count, before = state.count, model.get_weights()
    with pytest.raises(ValueError, match="labels from 0 to 9"):
        swim_update(model, state, x[:5], y[:5] + 9, verbose=0)
    with pytest.raises(ValueError, match="not that of this model"):
        swim_update(model, ReadoutState(7, 10), x[:5], y[:5], verbose=0)
    with pytest.raises(ValueError, match="penalty"):
        swim_update(model, ReadoutState(40, 10), x[:5], y[:5], verbose=0)
    with pytest.raises(ValueError, match="calibrated"):
        swim_update(model, ReadoutState(40, 10), x[:5], y[:5], l2=1.0, verbose=0)
    with pytest.raises(ValueError, match="new_classes"):
        swim_update(model, state, x[:5], y[:5], new_classes=-1, verbose=0)
    with pytest.raises(ValueError, match="one number for each row"):
        swim_forget(model, state, x[:5], y[:5], [1, 2], verbose=0)
    with pytest.raises(ValueError, match="different numbers"):
        swim_forget(model, state, x[:2], y[:2], [1, 1], verbose=0)
    with pytest.raises(ValueError, match="Every unit"):
        swim_forget(model, state, x, y, np.arange(len(x)), verbose=0)
    assert state.count == count
    for mine, theirs in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_earlier_layers_keep_their_rows(digits):
    x, y, _, _ = digits
    model = keras.Sequential(
        [
            SampledDense(40, seed=0),
            SampledDense(40, seed=1),
            keras.layers.Dense(10, "softmax"),
        ]
    )
    state = swim_fit(model, x, y, keep_state=True, verbose=0).state
    row = int(model.layers[0].pairs[0, 0])
    with pytest.raises(ValueError, match="later layers"):
        swim_forget(model, state, x[[row]], y[[row]], [row], verbose=0)
    free = np.setdiff1d(np.arange(len(x)), model.layers[0].pairs)[:20]
    smaller, _ = swim_forget(model, state, x[free], y[free], free, verbose=0)
    assert smaller.layers[0].units == 40


def test_a_selection_goes_on(digits):
    x, y, x_test, y_test = digits
    selection = swim_select(
        network(10, 128), x[:600], y[:600], widths=[32, 64], seed=0, verbose=0
    )
    model, state = swim_update(
        selection.model, selection.state, x[600:], y[600:], verbose=0
    )
    assert state.count == 1200
    assert (model.predict(x_test, verbose=0).argmax(axis=1) == y_test).mean() > 0.9


def test_several_outputs_keep_no_state(digits):
    x, y, _, _ = digits
    inputs = keras.Input((64,))
    hidden = SampledDense(20)(inputs)
    model = keras.Model(inputs, [keras.layers.Dense(1)(hidden) for _ in range(2)])
    with pytest.raises(ValueError, match="one output"):
        swim_fit(model, x, [y.astype(float)] * 2, keep_state=True, verbose=0)


def test_forgetting_from_streams_and_weighted_fits(digits):
    x, y = digits[:2]
    model = network(10)
    balanced = {"class_weight": "balanced", "keep_state": True, "verbose": 0}
    state = swim_fit(model, x, y, **balanced).state
    with pytest.raises(ValueError, match="weights that these rows had"):
        swim_forget(model, state, x[:5], y[:5], range(5), verbose=0)
    state = swim_fit(model, x, y, keep_state=True, verbose=0).state
    with pytest.raises(ValueError, match="1 numbers, 5 rows"):
        swim_forget(model, state, lambda: iter([(x[:5], y[:5])]), None, [0], verbose=0)
    assert state.count == len(x)


def test_names_and_numbers_of_new_classes(digits):
    x, y = digits[:2]
    model = network(6)
    old = y < 6
    state = swim_fit(model, x[old], y[old], keep_state=True, verbose=0).state
    with pytest.raises(ValueError, match="a list of names"):
        swim_update(model, state, x, y, new_classes="cat", verbose=0)
    with pytest.raises(ValueError, match="no names"):
        swim_update(model, state, x, y, new_classes=list("abcd"), verbose=0)
    new, _ = swim_update(model, state, x, y, new_classes=np.int64(4), verbose=0)
    assert new.output_shape == (None, 10)


def test_subclassed_models_forget_nothing(digits):
    x, y = digits[:2]

    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden, self.out = SampledDense(20), keras.layers.Dense(10, "softmax")

        def call(self, inputs):
            return self.out(self.hidden(inputs))

    model = Own()
    state = swim_fit(model, x, y, keep_state=True, verbose=0).state
    with pytest.raises(ValueError, match="subclassed"):
        swim_forget(model, state, x[:3], y[:3], range(3), verbose=0)
    assert state.count == len(x)
