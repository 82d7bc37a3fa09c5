from functools import partial

import keras
import numpy as np
import pytest

from keras_swim import SwimHead
from keras_swim.build.heads import split_head
from keras_swim.build.select_head import select_head


@pytest.fixture
def build():
    inputs = keras.Input((6, 6, 1))
    backbone = keras.Model(inputs, keras.layers.Flatten()(inputs), name="flat")
    return partial(SwimHead, backbone, 2, units=48, seed=0, class_names=["no", "yes"])


def _rows(n=120, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(n, 6, 6, 1)).astype("float32")
    return images, images.reshape(n, -1), (images[:, 0, 0, 0] > 0).astype(int)


def test_parts_of_a_head_share_its_layers(build):
    for settings in ({}, {"transform": "sqrt"}, {"skip": True}, {"hidden_layers": 0}):
        model = build(**settings)
        features, head = split_head(model)
        images, x, _ = _rows(5)
        np.testing.assert_allclose(features.predict(images, verbose=0), x, rtol=1e-6)
        np.testing.assert_allclose(
            head.predict(x, verbose=0), model.predict(images, verbose=0), atol=1e-6
        )
        assert head.layers[-1] is model.layers[-1]


def test_other_models_cannot_be_split():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="SwimHead"):
        split_head(model)


def test_the_chosen_head_is_the_whole_models(build):
    images, x, y = _rows()
    seen = []
    choice = select_head(
        build,
        x,
        y,
        report=lambda settings, selection: seen.append((settings, selection)),
        scales=(1.0, 2.0),
        seed=0,
        verbose=0,
    )
    assert [settings for settings, _ in seen] == [
        {},
        {"transform": "sqrt"},
        {"skip": True},
        {"transform": "sqrt", "skip": True},
    ]
    losses = [selection.surface.loss.min() for _, selection in seen]
    best = int(np.argmin(losses))
    assert choice.settings == seen[best][0]
    layer = choice.model.get_layer("sampled_1")
    assert layer.units == choice.selection.width
    assert layer.scale == choice.selection.scale
    own = choice.selection.model.get_layer("sampled_1")
    np.testing.assert_array_equal(layer.pairs, own.pairs)
    np.testing.assert_allclose(
        choice.model.predict(images, verbose=0),
        choice.selection.model.predict(x, verbose=0),
        atol=1e-6,
    )
    assert choice.model.layers[-1].class_names == ["no", "yes"]
