"""SwimBoost: blocks fitted by boosting through swim_fit."""

import keras
import numpy as np
import pytest

from keras_swim import SwimBoost, swim_fit


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).uniform(-1, 1, size=(500, 4)).astype("float32")


def small(outputs, activation="softmax", **options):
    options = {"blocks": 2, "rounds": 8, "bags": 2, **options}
    return SwimBoost(outputs, 4, output_activation=activation, **options)


@pytest.fixture(scope="module")
def fitted(rows):
    y = ((rows[:, 0] > 0) & (rows[:, 1] > -0.2)).astype(int)
    model = small(2)
    history = swim_fit(model, rows[:400], y[:400], seed=0, verbose=0)
    return model, history, y


def test_two_classes(fitted, rows):
    model, history, y = fitted
    chances = model.predict(rows[400:], verbose=0)
    assert np.mean(chances.argmax(axis=1) == y[400:]) > 0.94
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-5)
    logs = history.history
    assert logs["cv_accuracy"][0] > 0.94 and 0 < logs["rounds"][0] <= 16
    # What held-out rows say is what new rows give.
    loss = -np.mean(np.log(chances[np.arange(100), y[400:]]))
    assert abs(loss - logs["cv_loss"][0]) < 0.1


def test_several_classes_labels_and_numbers(rows):
    three = (rows[:, 0] > 0).astype(int) + (rows[:, 1] > 0)
    model = small(3)
    swim_fit(model, rows[:400], three[:400], seed=0, verbose=0)
    found = model.predict(rows[400:], verbose=0)
    assert np.mean(found.argmax(axis=1) == three[400:]) > 0.9
    labels = np.stack([rows[:, 0] > 0, rows[:, 1] > 0.3], axis=1).astype(int)
    model = small(2, "sigmoid")
    swim_fit(model, rows[:400], labels[:400], seed=0, verbose=0)
    found = model.predict(rows[400:], verbose=0)
    assert np.mean((found > 0.5) == labels[400:]) > 0.9
    numbers = 1000 + 50 * rows[:, 0] * rows[:, 1]
    model = small(1, None, product_units=0, rounds=20)
    swim_fit(model, rows[:400], numbers[:400], seed=0, verbose=0)
    gaps = model.predict(rows[400:], verbose=0)[:, 0] - numbers[400:]
    assert gaps.std() < 0.4 * numbers.std()


def test_saved_equals_loaded_and_the_pairs_come_along(fitted, rows, tmp_path):
    model, _, _ = fitted
    model.save(tmp_path / "boost.keras")
    again = keras.models.load_model(tmp_path / "boost.keras")
    np.testing.assert_allclose(
        again.predict(rows, verbose=0), model.predict(rows, verbose=0), atol=1e-6
    )
    pairs = again.get_layer("bag_1_block_1_products").pairs
    np.testing.assert_array_equal(
        pairs, model.get_layer("bag_1_block_1_products").pairs
    )
    assert pairs.max() < 400


def test_validation_data_says_when_to_stop(rows):
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 2, 500)
    model = small(2)
    history = swim_fit(
        model,
        rows[:400],
        noise[:400],
        validation_data=(rows[400:], noise[400:]),
        seed=0,
        verbose=0,
    )
    # Nothing to learn: few rounds are kept.
    assert history.history["rounds"][0] < 8
    assert "val_loss" in history.history


def test_a_seed_gives_the_same_model_and_fine_tuning_goes_on(fitted, rows):
    model, _, y = fitted
    other = small(2)
    swim_fit(other, rows[:400], y[:400], seed=0, verbose=0)
    np.testing.assert_allclose(
        other.predict(rows, verbose=0), model.predict(rows, verbose=0), atol=1e-6
    )
    other.compile(keras.optimizers.Adam(1e-4), "sparse_categorical_crossentropy")
    before = other.evaluate(rows[:400], y[:400], verbose=0)
    other.fit(rows[:400], y[:400], epochs=2, verbose=0)
    assert other.evaluate(rows[:400], y[:400], verbose=0) < before


def test_weights_count(rows):
    y = (rows[:, 0] > 0.8).astype(int)
    plain, weighted = small(2), small(2)
    swim_fit(plain, rows, y, seed=0, verbose=0)
    swim_fit(weighted, rows, y, seed=0, class_weight="balanced", verbose=0)
    assert (
        weighted.predict(rows, verbose=0)[:, 1].mean()
        > plain.predict(rows, verbose=0)[:, 1].mean()
    )


def test_refused_calls_change_nothing(fitted, rows):
    model, _, y = fitted
    before = model.get_weights()
    for options, message in (
        ({"l2": 0.1}, "`l2` does not apply"),
        ({"keep_state": True}, "`keep_state` does not apply"),
    ):
        with pytest.raises(ValueError, match=message):
            swim_fit(model, rows, y, **options)
    with pytest.raises(ValueError, match="two or more classes"):
        swim_fit(model, rows, np.zeros(500, int), verbose=0)
    with pytest.raises(ValueError, match="more rows"):
        swim_fit(model, rows[:3], np.array([0, 1, 0]), verbose=0)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"blocks": 0}, "`blocks` must be an integer, 1 or more"),
        ({"product_units": -1}, "`product_units` must be an integer, 0 or more"),
        ({"activation": "relu"}, "`output_activation` must be"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        small(2, **arguments)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="exports are TensorFlow's"
)
def test_exported_models_agree(fitted, rows, tmp_path):
    import tensorflow as tf

    model, _, _ = fitted
    expected = model.predict(rows[:8], verbose=0)
    model.export(tmp_path / "saved", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "saved"))
    np.testing.assert_allclose(served.serve(rows[:8]), expected, atol=1e-5)
    runtime = pytest.importorskip("onnxruntime")
    model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    (found,) = session.run(None, {session.get_inputs()[0].name: rows[:8]})
    np.testing.assert_allclose(found, expected, atol=1e-4)
