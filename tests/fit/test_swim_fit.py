"""The fit as a whole: results, logs, reproducibility, precision."""

import keras
import numpy as np
import pytest

from keras_swim import SampledDense, swim_fit
from keras_swim.core.readout import ReadoutState
from keras_swim.core.solvers import solve
from keras_swim.fit import hidden


def classifier(units=300, classes=10, **kwargs):
    return keras.Sequential(
        [
            SampledDense(units, **kwargs),
            keras.layers.Dense(classes, activation="softmax"),
        ]
    )


def accuracy(model, x, y):
    return float(np.mean(model.predict(x, verbose=0).argmax(axis=-1) == y))


def test_digits_are_learned_and_everything_works_afterwards(digits, tmp_path):
    x, y, x_test, y_test = digits
    model = classifier(600)
    history = swim_fit(model, x, y, seed=0, verbose=0)
    assert accuracy(model, x_test, y_test) > 0.96
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    loss, before = model.evaluate(x_test, y_test, verbose=0)
    assert before > 0.96
    # The cross-validated figures foretell the test.
    logs = {name: values[0] for name, values in history.history.items()}
    assert abs(logs["cv_accuracy"] - before) < 0.02
    assert abs(logs["cv_loss"] - loss) < 0.05
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        again.predict(x_test, verbose=0), model.predict(x_test, verbose=0), atol=1e-6
    )
    np.testing.assert_array_equal(again.layers[0].pairs, model.layers[0].pairs)
    model.fit(x, y, epochs=1, batch_size=64, verbose=0)


def test_logs_have_metrics_and_seconds(digits):
    x, y, x_test, y_test = digits
    history = swim_fit(
        classifier(), x, y, validation_data=(x_test, y_test), seed=0, verbose=0
    )
    assert isinstance(history, keras.callbacks.History)
    names = set(history.history)
    assert {"loss", "accuracy", "val_loss", "val_accuracy"} <= names
    assert {"cv_loss", "cv_accuracy", "l2", "temperature", "seconds"} <= names
    stages = ("features", "sampling", "sums", "solve")
    spent = [history.history[f"seconds_{stage}"][0] for stage in stages]
    assert all(seconds >= 0 for seconds in spent)
    assert sum(spent) <= history.history["seconds"][0]
    assert all(len(values) == 1 for values in history.history.values())


def test_compiled_metrics_agree_with_evaluate(digits):
    x, y, x_test, y_test = digits
    model = classifier()
    model.compile(
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, "top2")],
    )
    history = swim_fit(model, x, y, validation_data=(x_test, y_test), seed=0, verbose=0)
    expected = model.evaluate(x_test, y_test, verbose=0, return_dict=True)
    for name, value in expected.items():
        assert history.history[f"val_{name}"][0] == pytest.approx(value, abs=1e-4)
    # All 1200 rows are held out in turn, so training metrics see all of them.
    expected = model.evaluate(x, y, verbose=0, return_dict=True)
    for name, value in expected.items():
        assert history.history[name][0] == pytest.approx(value, abs=1e-4)


def test_own_metrics_agree_with_keras(digits):
    x, y, x_test, y_test = digits
    model = classifier()
    logs = swim_fit(
        model, x, y, validation_data=(x_test, y_test), seed=0, verbose=0
    ).history
    model.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    loss, right = model.evaluate(x_test, y_test, verbose=0)
    assert logs["val_loss"][0] == pytest.approx(loss, abs=1e-4)
    assert logs["val_accuracy"][0] == pytest.approx(right, abs=1e-4)


def test_readout_is_the_ridge_of_the_features(rng):
    x = rng.normal(size=(400, 3)).astype("float32")
    y = np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1)
    model = keras.Sequential([SampledDense(50, seed=3), keras.layers.Dense(2)])
    swim_fit(model, x, y, l2=1e-3, verbose=0)
    features = keras.ops.convert_to_numpy(model.layers[0](x)).astype("float64")
    centred = features - features.mean(axis=0)
    gram = centred.T @ centred
    kernel = np.linalg.solve(
        gram + 1e-3 * np.trace(gram) / 50 * np.eye(50), centred.T @ (y - y.mean(0))
    )
    found, bias = model.layers[1].get_weights()
    np.testing.assert_allclose(found, kernel, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        bias, y.mean(0) - features.mean(0) @ kernel, rtol=1e-4, atol=1e-5
    )


class CountedRows(keras.layers.Layer):
    """Passes its inputs on."""

    rows = 0

    def call(self, inputs):
        self.rows += inputs.shape[0] or 0
        return inputs


def test_rows_that_are_all_in_the_pool_pass_the_hidden_layers_once(rng):
    x = rng.normal(size=(200, 3)).astype("float32")
    y = np.sin(x.sum(axis=1, keepdims=True))
    inputs = keras.Input((3,))
    scaled = keras.layers.Normalization()(inputs)
    first = SampledDense(20)(scaled)
    counted = CountedRows()
    second = SampledDense(30)(counted(first))
    # The readout looks at three depths: all must be at hand after sampling.
    features = keras.layers.Concatenate()([second, first, scaled])
    model = keras.Model(inputs, keras.layers.Dense(1)(features))
    counted.rows = 0
    swim_fit(model, x, y, seed=0, l2=1e-3, verbose=0)
    assert counted.rows == len(x)
    phi = keras.Model(inputs, features).predict(x, verbose=0)
    state = ReadoutState(phi.shape[1], 1)
    state.update(phi, y)
    found = solve(state, 1e-3)
    expected = phi @ found.kernel + found.bias
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-3)


def counted_fit(x, y, **options):
    """Rows that went through the layer behind the sampled ones, and the model."""
    counted = CountedRows()
    model = keras.Sequential(
        [
            keras.Input((3,), dtype="float64"),
            SampledDense(20, dtype="float64"),
            SampledDense(30, dtype="float64"),
            counted,
            keras.layers.Dense(1, dtype="float64"),
        ]
    )
    counted.rows = 0
    swim_fit(model, x, y, seed=0, verbose=0, **options)
    return counted.rows, model


@pytest.mark.parametrize("solver", ["auto", "qr", "svd"])
def test_small_features_are_computed_once(rng, solver, monkeypatch):
    x = rng.normal(size=(3000, 3))
    y = np.sin(x.sum(axis=1, keepdims=True))
    # So small a penalty has "auto" go back to the rows.
    rows, model = counted_fit(x, y, solver=solver, l2=1e-14)
    assert rows == len(x)
    monkeypatch.setattr(hidden, "_KEPT_BYTES", 0)
    more, again = counted_fit(x, y, solver=solver, l2=1e-14)
    # An orthogonal solution without held-out rows takes one pass anyway.
    assert (more >= 2 * len(x)) == (solver == "auto")
    for a, b in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("solver", ["qr", "svd"])
def test_keeping_the_state_does_not_change_an_orthogonal_solution(rng, solver):
    x = rng.normal(size=(500, 3))
    y = np.sin(x.sum(axis=1, keepdims=True))
    _, model = counted_fit(x, y, solver=solver, l2=1e-10)
    _, again = counted_fit(x, y, solver=solver, l2=1e-10, keep_state=True)
    assert again.history.state.count == len(x)
    assert model.history.history["l2"] == again.history.history["l2"]
    for a, b in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_same_seed_same_model_whatever_the_batches(digits):
    x, y, *_ = digits
    weights = []
    for batch_size in (None, 100, 1200):
        model = classifier(200)
        swim_fit(model, x, y, seed=7, batch_size=batch_size, l2=1e-3, verbose=0)
        weights.append(model.get_weights())
    for other in weights[1:]:
        for first, second in zip(weights[0], other, strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4)


def test_layers_with_the_same_seed_draw_different_pairs(digits):
    x, y, *_ = digits
    model = keras.Sequential(
        [SampledDense(64, seed=5) for _ in range(3)]
        + [keras.layers.Dense(10, activation="softmax")]
    )
    swim_fit(model, x, y, verbose=0)
    pairs = [layer.pairs for layer in model.layers[:3]]
    for i in range(3):
        for j in range(i):
            shared = {tuple(p) for p in pairs[i]} & {tuple(p) for p in pairs[j]}
            assert len(shared) < 8
    again = keras.Sequential(
        [SampledDense(64, seed=5) for _ in range(3)]
        + [keras.layers.Dense(10, activation="softmax")]
    )
    swim_fit(again, x, y, verbose=0)
    for layer, same in zip(model.layers[:3], again.layers[:3], strict=True):
        np.testing.assert_array_equal(layer.pairs, same.pairs)


def test_pairs_name_the_rows_behind_each_unit(digits):
    x, y, *_ = digits
    model = classifier(100)
    swim_fit(model, x, y, seed=0, verbose=0)
    layer = model.layers[0]
    values = keras.ops.convert_to_numpy(layer(x))
    unit = np.arange(100)
    np.testing.assert_allclose(values[layer.pairs[:, 0], unit], -0.5, atol=1e-4)
    np.testing.assert_allclose(values[layer.pairs[:, 1], unit], 0.5, atol=1e-4)
    assert (y[layer.pairs[:, 0]] != y[layer.pairs[:, 1]]).all()


def test_sample_weight_counts_rows(rng):
    x = rng.normal(size=(200, 4)).astype("float32")
    y = np.sin(x).sum(axis=1)
    weight = rng.integers(0, 3, size=200)
    layers = [SampledDense(30, seed=0), SampledDense(30, seed=0)]
    for layer in layers:
        layer.adapt(x, y)
        layer.trainable = False
    weighted = keras.Sequential([layers[0], keras.layers.Dense(1)])
    repeated = keras.Sequential([layers[1], keras.layers.Dense(1)])
    swim_fit(weighted, x, y, sample_weight=weight, l2=1e-4, verbose=0)
    swim_fit(
        repeated, np.repeat(x, weight, 0), np.repeat(y, weight), l2=1e-4, verbose=0
    )
    for first, second in zip(
        weighted.get_weights(), repeated.get_weights(), strict=True
    ):
        np.testing.assert_allclose(first, second, rtol=2e-3, atol=2e-4)


def test_class_weight_is_a_weight_of_rows(digits):
    x, y, *_ = digits
    by_class = {label: 1.0 + label for label in range(10)}
    models = [classifier(80, seed=1) for _ in range(2)]
    swim_fit(models[0], x, y, class_weight=by_class, seed=0, verbose=0)
    swim_fit(models[1], x, y, sample_weight=1.0 + y, seed=0, verbose=0)
    for first, second in zip(
        models[0].get_weights(), models[1].get_weights(), strict=True
    ):
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)
    plain = classifier(80, seed=1)
    swim_fit(plain, x, y, seed=0, verbose=0)
    assert not np.allclose(plain.get_weights()[-2], models[0].get_weights()[-2])


def test_balanced_class_weight_raises_the_rare_class(rng):
    x = np.concatenate([rng.normal(size=(950, 2)), rng.normal(0.8, 1, size=(50, 2))])
    x, y = x.astype("float32"), np.repeat([0, 1], [950, 50])
    found = []
    for class_weight in (None, "balanced"):
        model = classifier(50, 2)
        swim_fit(model, x, y, seed=0, class_weight=class_weight, verbose=0)
        found.append((model.predict(x, verbose=0).argmax(1) == 1)[950:].mean())
    assert found[1] > found[0] + 0.2


def test_callbacks_see_one_epoch(digits):
    x, y, *_ = digits
    seen = []

    class Watch(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            seen.append("begin")

        def on_epoch_end(self, epoch, logs=None):
            seen.append((epoch, logs["accuracy"] > 0.9))

        def on_train_end(self, logs=None):
            seen.append("end")

    swim_fit(classifier(), x, y, seed=0, callbacks=[Watch()], verbose=0)
    assert seen == ["begin", (0, True), "end"]


def test_verbose_says_what_is_going_on(digits, capsys):
    x, y, *_ = digits
    swim_fit(classifier(), x, y, seed=0, verbose=2)
    text = capsys.readouterr().out
    for expected in ("[1/4]", "[4/4]", "1200 rows", "300 units", "accuracy"):
        assert expected in text
    swim_fit(classifier(), x, y, seed=0, verbose=0)
    assert capsys.readouterr().out == ""


def test_interrupted_fit_leaves_the_weights_alone(digits, monkeypatch):
    x, y, *_ = digits
    model = classifier()
    swim_fit(model, x, y, seed=0, verbose=0)
    before, pairs = model.get_weights(), model.layers[0].pairs
    calls = []

    def interrupt(*args, **kwargs):
        calls.append(args)
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_swim.fit.sums.solve", interrupt)
    with pytest.raises(KeyboardInterrupt):
        swim_fit(model, x, y, seed=1, verbose=0)
    assert calls
    for first, second in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(pairs, model.layers[0].pairs)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float64"])
def test_dtype_policies(digits, policy):
    if policy == "float64" and keras.backend.backend() == "jax":
        pytest.skip("JAX holds float64 layers in float32")
    x, y, x_test, y_test = digits
    model = keras.Sequential(
        [
            SampledDense(300, dtype=policy),
            keras.layers.Dense(10, activation="softmax", dtype=policy),
        ]
    )
    swim_fit(model, x, y, seed=0, verbose=0)
    assert accuracy(model, x_test, y_test) > 0.94


def test_float64_model_is_solved_in_float64(rng):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("Keras multiplies in float32 on JAX and torch")
    x = rng.uniform(-1, 1, size=(500, 2))
    y = np.sin(3 * x[:, 0]) * x[:, 1]
    model = keras.Sequential(
        [
            keras.Input((2,), dtype="float64"),
            SampledDense(200, dtype="float64"),
            keras.layers.Dense(1, dtype="float64"),
        ]
    )
    swim_fit(model, x, y, l2=0.0, seed=0, verbose=0)
    error = model.predict(x, verbose=0)[:, 0] - y
    assert np.abs(error).max() < 1e-5


def test_integer_inputs(digits):
    x, y, x_test, y_test = digits
    model = keras.Sequential(
        [
            keras.Input((64,), dtype="uint8"),
            keras.layers.Rescaling(1 / 16),
            SampledDense(300),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    swim_fit(model, np.round(x * 16).astype("uint8"), y, seed=0, verbose=0)
    assert accuracy(model, np.round(x_test * 16).astype("uint8"), y_test) > 0.95


@pytest.mark.parametrize("solver", ["cholesky", "dual", "qr", "svd"])
def test_solvers_agree_on_a_benign_problem(rng, solver):
    x = rng.normal(size=(150, 3)).astype("float32")
    y = x[:, :1] ** 2
    model = keras.Sequential([SampledDense(20, seed=0), keras.layers.Dense(1)])
    swim_fit(model, x, y, solver=solver, l2=1e-12, verbose=0)
    features = keras.ops.convert_to_numpy(model.layers[0](x))
    expected = solve(ReadoutState(20, 1).update(features, y), 1e-12)
    np.testing.assert_allclose(
        model.predict(x, verbose=0),
        features @ expected.kernel + expected.bias,
        atol=2e-3,
    )


def test_validation_data_changes_nothing(digits):
    x, y, x_test, y_test = digits
    first, second = classifier(100), classifier(100)
    swim_fit(first, x, y, seed=0, verbose=0)
    swim_fit(second, x, y, seed=0, verbose=0, validation_data=(x_test, y_test))
    for a, b in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_validation_split_takes_the_last_rows(digits):
    x, y, *_ = digits
    first, second = classifier(100), classifier(100)
    one = swim_fit(first, x, y, seed=0, verbose=0, validation_split=0.25)
    two = swim_fit(
        second, x[:900], y[:900], seed=0, verbose=0, validation_data=(x[900:], y[900:])
    )
    assert one.history["val_loss"][0] == pytest.approx(two.history["val_loss"][0])


def test_chosen_ridge_is_near_the_best_in_every_regime(resnet_features):
    x, y, x_test, y_test = resnet_features
    rows = 500
    x, y = x[:rows], y[:rows]
    for factor in (0.25, 1, 2, 8):
        units = int(factor * rows)
        layer = SampledDense(units, seed=0)
        model = keras.Sequential([layer, keras.layers.Dense(10, activation="softmax")])
        swim_fit(model, x, y, seed=0, verbose=0)
        chosen = accuracy(model, x_test, y_test)
        features = keras.ops.convert_to_numpy(layer(x))
        tested = keras.ops.convert_to_numpy(layer(x_test))
        state = ReadoutState(units, 10).update(features, np.eye(10)[y])
        best = 0.0
        for l2 in 10.0 ** np.arange(-8, 3):
            found = solve(state, l2)
            scores = tested @ found.kernel + found.bias
            best = max(best, float(np.mean(scores.argmax(1) == y_test)))
        assert chosen > best - 0.02, (factor, chosen, best)
