"""A real backbone, trained on from a sampled start: benchmarks/finetune.py in short."""

import keras
import numpy as np
import pytest

from keras_swim import FineTune, SwimHead, swim_fit
from keras_swim.fit.tuning import unfreeze

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="slow, and tests/fit/test_finetune.py runs on all backends",
)


@pytest.fixture(scope="module")
def images(shared_data):
    with np.load(shared_data / "cifar10_small.npz") as file:
        x, y = file["x_train"], file["y_train"].ravel().astype(int)
        x_test, y_test = file["x_test"], file["y_test"].ravel().astype(int)
    return (x[:400], y[:400]), (x[400:600], y[400:600]), (x_test[:500], y_test[:500])


def _backbone(shared_data):
    full = keras.applications.MobileNet(
        weights=None, include_top=False, input_shape=(96, 96, 3)
    )
    cut = full.get_layer("conv_pw_12_relu").output
    net = keras.Model(full.input, cut, name="mobilenet")
    with np.load(shared_data / "mobilenet_pw12.npz") as file:
        for weight in net.weights:
            weight.assign(file[weight.path].astype("float32"))
    return net


def _started(shared_data, train, **options):
    model = SwimHead(
        _backbone(shared_data),
        10,
        units=1024,
        image_size=96,
        preprocessing="tf",
        seed=0,
        **options,
    )
    swim_fit(model, *train, seed=0, verbose=0)
    return model


def _accuracy(model, part):
    return (model.predict(part[0], verbose=0).argmax(axis=1) == part[1]).mean()


def _tuned(model, train, callbacks=()):
    keras.utils.set_random_seed(0)
    unfreeze(model)
    model.compile(keras.optimizers.Adam(2e-5), "sparse_categorical_crossentropy")
    model.fit(*train, batch_size=32, epochs=1, callbacks=[*callbacks], verbose=0)


def test_first_epoch_does_not_destroy_the_start(shared_data, images):
    train, _, test = images
    model = _started(shared_data, train)
    before = _accuracy(model, test)
    assert before > 0.65
    _tuned(model, train)
    assert _accuracy(model, test) >= before


def test_the_input_gain_saves_a_start_without_dropout(shared_data, images):
    train, _, test = images
    model = _started(shared_data, train, dropout=0.0)
    before = _accuracy(model, test)
    weights = model.get_weights()
    _tuned(model, train)
    after = _accuracy(model, test)
    assert after > before - 0.02
    model.set_weights(weights)
    scaling, layer = model.get_layer("scaling"), model.get_layer("sampled_1")
    layer.kernel.assign(layer.kernel * scaling.gain[0])
    scaling.gain.assign([1.0])
    assert _accuracy(model, test) == pytest.approx(before, abs=0.01)
    _tuned(model, train)
    assert _accuracy(model, test) < after - 0.02


def test_the_callback_keeps_what_is_best(shared_data, images):
    train, validation, _ = images
    model = _started(shared_data, train)
    before = _accuracy(model, validation)
    tune = FineTune(*train, validation, verbose=0)
    _tuned(model, train, [tune])
    after = _accuracy(model, validation)
    assert after == pytest.approx(tune.best["accuracy"], abs=1e-6)
    assert after >= before
