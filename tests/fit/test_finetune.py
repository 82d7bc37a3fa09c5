"""Fine-tuning from a sampled start is never worse on the validation data."""

import keras
import numpy as np
import pytest

from keras_swim import FineTune, SampledDense, SwimHead, fine_tune, swim_fit
from keras_swim.fit.tuning import unfreeze


def backbone(seed=0):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Conv2D(16, 3, activation="relu"),
        ],
        name="backbone",
    )


@pytest.fixture(scope="module")
def images(digits):
    x, y, x_test, y_test = digits
    shape = (-1, 8, 8, 1)
    return (
        255 * x[:400].reshape(shape),
        y[:400],
        255 * x_test[:300].reshape(shape),
        y_test[:300],
    )


def fitted(images, **options):
    options = {"units": 100, "image_size": None, "seed": 0, **options}
    model = SwimHead(backbone(), 10, **options)
    swim_fit(model, images[0], images[1], seed=0, verbose=0)
    return model


def validation_accuracy(model, images):
    chances = model.predict(images[2], verbose=0)
    return np.mean(chances.argmax(axis=1) == images[3])


def test_records_and_the_best_weights(images):
    model = fitted(images)
    before = validation_accuracy(model, images)
    history = fine_tune(
        model, images[0], images[1], images[2:], epochs=2, learning_rate=1e-3, verbose=0
    )
    tune = history.fine_tune
    assert [record["epoch"] for record in tune.records] == [0, 1, 2]
    assert tune.records[0]["accuracy"] == pytest.approx(before, abs=1e-6)
    best = max(
        max(record["accuracy"], record.get("resolved_accuracy", 0))
        for record in tune.records
    )
    assert validation_accuracy(model, images) == pytest.approx(best, abs=1e-6)
    assert "val_resolved_accuracy" in history.history


def test_a_rate_far_too_large_goes_back_to_the_start(images):
    model = fitted(images)
    before = model.get_weights()
    model.get_layer("backbone").trainable = True
    model.compile(keras.optimizers.SGD(1e6), "sparse_categorical_crossentropy")
    tune = FineTune(
        images[0], images[1], images[2:], resolve=False, warmup_epochs=0, verbose=0
    )
    model.fit(images[0], images[1], epochs=2, callbacks=[tune], verbose=0)
    assert tune.best["epoch"] == 0
    for mine, theirs in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_loss_that_is_not_finite_stops(images):
    model = fitted(images)
    before = model.get_weights()
    model.compile("adam", lambda y_true, y_pred: y_pred[:, 0] * np.nan)
    tune = FineTune(images[0], images[1], images[2:], verbose=0)
    history = model.fit(*images[:2], epochs=3, callbacks=[tune], verbose=0)
    assert len(history.epoch) == 1
    for mine, theirs in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_moving_statistics_do_not_move(images):
    model = fitted(images)
    unfreeze(model)
    inner = model.get_layer("backbone").layers
    assert inner[0].trainable and not inner[1].trainable
    before = [keras.ops.convert_to_numpy(w.value) for w in inner[1].weights]
    kernel = keras.ops.convert_to_numpy(inner[0].kernel)
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(images[0], images[1], epochs=1, verbose=0)
    for mine, theirs in zip(inner[1].weights, before, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(mine.value), theirs)
    assert not np.array_equal(keras.ops.convert_to_numpy(inner[0].kernel), kernel)


def test_the_last_layers_only(images):
    model = fitted(images)
    unfreeze(model, layers=1)
    trainable = [layer.trainable for layer in model.get_layer("backbone").layers]
    assert trainable == [False, False, True]


def test_solving_again_pays_when_features_have_changed(images):
    model = fitted(images)
    conv = model.get_layer("backbone").layers[2]
    rng = np.random.default_rng(0)
    kernel = keras.ops.convert_to_numpy(conv.kernel)
    conv.kernel.assign(kernel + 0.3 * kernel.std() * rng.normal(size=kernel.shape))
    model.compile(keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy")
    tune = FineTune(images[0], images[1], images[2:], verbose=0)
    model.fit(images[0], images[1], epochs=1, callbacks=[tune], verbose=0)
    start, epoch = tune.records
    assert epoch["accuracy"] == pytest.approx(start["accuracy"], abs=0.01)
    assert epoch["resolved_accuracy"] > start["accuracy"] + 0.02
    assert epoch["resolved_loss"] < start["loss"]


def test_the_rate_warms_up(images):
    model = fitted(images)
    rates = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            rate = self.model.optimizer.learning_rate
            rates.append(float(keras.ops.convert_to_numpy(rate)))

    model.compile(keras.optimizers.Adam(1e-4), "sparse_categorical_crossentropy")
    tune = FineTune(images[0], images[1], images[2:], warmup_epochs=0.5, verbose=0)
    model.fit(
        images[0],
        images[1],
        batch_size=50,
        epochs=1,
        callbacks=[tune, Watch()],
        verbose=0,
    )
    np.testing.assert_allclose(
        rates, [2.5e-5, 5e-5, 7.5e-5, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4], rtol=1e-4
    )


def test_it_goes_on_in_a_second_call(images):
    model = fitted(images)
    model.compile(keras.optimizers.Adam(1e-4), "sparse_categorical_crossentropy")
    tune = FineTune(images[0], images[1], images[2:], verbose=0)
    model.fit(images[0], images[1], epochs=1, callbacks=[tune], verbose=0)
    model.fit(
        images[0], images[1], initial_epoch=1, epochs=2, callbacks=[tune], verbose=0
    )
    assert [record["epoch"] for record in tune.records] == [0, 1, 2]


@pytest.mark.parametrize("kind", ["one-hot", "sigmoid", "regression", "stream"])
def test_other_targets(images, kind):
    x, y, x_test, y_test = images
    one_hot = np.eye(10, dtype="float32")
    data, held, options, outputs = (x, y), (x_test, y_test), {}, 10
    if kind == "one-hot":
        data, held = (x, one_hot[y]), (x_test, one_hot[y_test])
    if kind == "sigmoid":
        data, held = (x, one_hot[y][:, :4]), (x_test, one_hot[y_test][:, :4])
        options, outputs = {"classifier_activation": "sigmoid"}, 4
    if kind == "regression":
        data, held = (x, y.astype("float32")), (x_test, y_test.astype("float32"))
        options, outputs = {"classifier_activation": None}, 1
    model = SwimHead(backbone(), outputs, units=80, image_size=None, **options)
    swim_fit(model, *data, seed=0, verbose=0)
    if kind == "stream":

        class Batches(keras.utils.PyDataset):
            num_batches = 8

            def __getitem__(self, index):
                part = slice(50 * index, 50 * index + 50)
                return x[part], y[part]

        data = (Batches(),)
        history = fine_tune(model, *data, validation_data=held, epochs=1, verbose=0)
    else:
        history = fine_tune(model, *data, held, epochs=1, verbose=0)
    start, epoch = history.fine_tune.records
    score = "r2" if kind == "regression" else "accuracy"
    assert history.fine_tune.best[score] >= start[score] - 1e-6
    assert np.isfinite(epoch["resolved_loss"])


def test_refused(images):
    model = keras.Sequential([SampledDense(9), keras.layers.Dense(10, "softmax")])
    x = images[0].reshape(-1, 64)
    swim_fit(model, x, images[1], verbose=0)
    with pytest.raises(ValueError, match="no backbone"):
        fine_tune(model, x, images[1], (x, images[1]), verbose=0)
    with pytest.raises(ValueError, match="validation_data"):
        fine_tune(model, x, images[1], verbose=0)
    with pytest.raises(ValueError, match="validation_data"):
        FineTune(x, images[1])
    with pytest.raises(ValueError, match="warmup_epochs"):
        FineTune(x, images[1], (x, images[1]), warmup_epochs=-1)
    with pytest.raises(ValueError, match="positive integer"):
        unfreeze(fitted(images), layers=0)


def test_interrupted_tuning_goes_back_to_the_best(images):
    model = fitted(images)
    before = validation_accuracy(model, images)

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fine_tune(
            model,
            *images[:2],
            images[2:],
            epochs=1,
            learning_rate=10.0,
            callbacks=[Stop()],
            verbose=0,
        )
    assert validation_accuracy(model, images) == pytest.approx(before, abs=1e-6)
    rate = float(keras.ops.convert_to_numpy(model.optimizer.learning_rate))
    assert rate == pytest.approx(10.0)


def test_a_refused_call_unfreezes_nothing(images):
    model = fitted(images)
    with pytest.raises(ValueError, match="labels from 0 to 9"):
        fine_tune(model, images[0], images[1] + 1, images[2:], verbose=0)
    assert not model.get_layer("backbone").trainable
    with pytest.raises(ValueError, match="only once"):
        fine_tune(model, iter([images[:2]]), None, images[2:], verbose=0)


def test_a_callback_on_another_model_begins_anew(images):
    tune = FineTune(images[0], images[1], images[2:], verbose=0)
    for units in (100, 60):
        model = fitted(images, units=units)
        model.compile("adam", "sparse_categorical_crossentropy")
        model.fit(*images[:2], epochs=1, callbacks=[tune], verbose=0)
        assert [record["epoch"] for record in tune.records] == [0, 1]
