"""SwimMLP: sampled layers and a readout; the choice of depth and width."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_swim import SampledDense, SwimMLP, swim_fit
from keras_swim.build.candidates import choose_among
from keras_swim.build.select_mlp import select_mlp


@pytest.fixture(scope="module")
def rows():
    """Four columns of different size and place; two of them matter."""
    x = np.random.default_rng(0).uniform(-1, 1, size=(600, 4))
    return x, x * [1, 100, 0.01, 1] + [0, 1000, 0, 5]


def real(x):
    return np.sin(4 * x[:, 0]) + x[:, 0] * x[:, 1]


def classes(x):
    return (x[:, 0] > 0) + (x[:, 0] * x[:, 1] > 0).astype(int)


def sampled(model):
    return [layer for layer in model.layers if isinstance(layer, SampledDense)]


@pytest.mark.parametrize("shape", [None, 4, (4,)])
def test_classes(rows, shape):
    plain, x = rows
    y = classes(plain)
    model = SwimMLP(3, 200, input_shape=shape, seed=0)
    swim_fit(model, x[:400], y[:400], verbose=0)
    chances = model.predict(x[400:], verbose=0)
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-5)
    assert np.mean(chances.argmax(axis=1) == y[400:]) > 0.9


def test_shape_given_or_seen_is_the_same(rows):
    plain, x = rows
    y = real(plain)
    found = []
    for shape in (None, 4):
        model = SwimMLP(1, 50, 2, input_shape=shape, output_activation=None, seed=0)
        swim_fit(model, x, y, verbose=0, seed=0)
        found.append(model.predict(x, verbose=0))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-4)


def test_real_outputs(rows):
    plain, x = rows
    y = np.stack([real(plain), plain[:, 1]], axis=1)
    model = SwimMLP(2, 200, output_activation=None, seed=0)
    history = swim_fit(
        model, x[:400], y[:400], validation_data=(x[400:], y[400:]), verbose=0
    )
    assert history.history["val_r2"][0] > 0.95


def test_yes_or_no_labels(rows):
    plain, x = rows
    labels = np.stack([plain[:, 0] > 0, plain[:, 0] * plain[:, 1] > 0, x[:, 3] > 5], 1)
    model = SwimMLP(3, 200, output_activation="sigmoid", seed=0)
    swim_fit(model, x[:400], labels[:400].astype("float32"), verbose=0)
    assert np.mean((model.predict(x[400:], verbose=0) > 0.5) == labels[400:]) > 0.9


@pytest.mark.parametrize("depth", range(6))
def test_any_depth_is_fitted_and_saved(rows, depth, tmp_path):
    plain, x = rows
    shape = 4 if depth % 2 else None
    model = SwimMLP(3, 80, depth, input_shape=shape, skip=shape is not None, seed=0)
    history = swim_fit(model, x, classes(plain), verbose=0)
    assert len(sampled(model)) == depth
    # Plain ridge cannot know a product of two columns.
    assert history.history["cv_accuracy"][0] > (0.8 if depth else 0.5)
    assert [layer.name for layer in sampled(model)] == [
        f"sampled_{number + 1}" for number in range(depth)
    ]
    model.save(tmp_path / "mlp.keras")
    again = keras.models.load_model(tmp_path / "mlp.keras")
    np.testing.assert_allclose(
        again.predict(x, verbose=0), model.predict(x, verbose=0), atol=1e-6
    )
    for mine, loaded in zip(sampled(model), sampled(again), strict=True):
        np.testing.assert_array_equal(mine.pairs, loaded.pairs)


def test_units_of_each_layer(rows):
    plain, x = rows
    model = SwimMLP(1, [30, 20, 10], output_activation=None)
    swim_fit(model, x, real(plain), verbose=0)
    assert [layer.units for layer in sampled(model)] == [30, 20, 10]
    assert [layer.units for layer in sampled(SwimMLP(2, (5, 6), 2))] == [5, 6]
    assert [layer.units for layer in sampled(SwimMLP(2, 7, 2))] == [7, 7]


def test_columns_count_alike(rows):
    """Standardised: the model does not see in which unit a column was measured."""
    plain, x = rows
    y = real(plain)
    found = []
    for data in (plain, x):
        model = SwimMLP(1, 60, output_activation=None, seed=0)
        swim_fit(model, data, y, seed=0, verbose=0)
        found.append(model.predict(data, verbose=0))
    np.testing.assert_allclose(found[0], found[1], atol=0.01)
    model = SwimMLP(1, 60, output_activation=None, normalize=False)
    assert not any(isinstance(one, keras.layers.Normalization) for one in model.layers)


@pytest.mark.parametrize("shape", [None, (2, 2)])
def test_rows_of_any_shape_are_flattened(rows, shape):
    plain, x = rows
    model = SwimMLP(3, 100, input_shape=shape, seed=0)
    swim_fit(model, x.reshape(-1, 2, 2), classes(plain), verbose=0)
    assert model.predict(x.reshape(-1, 2, 2), verbose=0).shape == (600, 3)


@pytest.mark.parametrize("normalize", [True, False])
def test_skip_gives_the_readout_the_columns(rows, normalize):
    x = rows[1]
    y = 3 * x[:, 1] + 1000 * x[:, 2]
    model = SwimMLP(
        1, 5, input_shape=4, output_activation=None, skip=True, normalize=normalize
    )
    history = swim_fit(model, x, y, verbose=0)
    assert model.get_layer("predictions").kernel.shape == (9, 1)
    assert history.history["cv_r2"][0] > 0.999


def test_random_weights_use_no_data(rows):
    plain, x = rows
    kernels = []
    for y in (plain[:, 0], plain[:, 1]):
        model = SwimMLP(1, 20, sampler="random", output_activation=None, seed=0)
        swim_fit(model, x, y, verbose=0)
        kernels.append(model.get_layer("sampled_1").get_weights()[0])
    np.testing.assert_array_equal(*kernels)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_outputs": 0}, "positive integer"),
        ({"num_outputs": 2.0}, "positive integer"),
        ({"num_outputs": 1}, "two or more outputs"),
        ({"output_activation": "relu"}, "real outputs"),
        ({"hidden_layers": -1}, "0 or more"),
        ({"hidden_layers": True}, "0 or more"),
        ({"units": 0}, "`units`"),
        ({"units": "wide"}, "`units`"),
        ({"units": [10, 0]}, "`units`"),
        ({"units": [10, 10], "hidden_layers": 3}, "one integer a layer"),
        ({"input_shape": (None, 3)}, "number of columns"),
        ({"input_shape": 0}, "number of columns"),
        ({"skip": True}, "input_shape"),
        ({"sampler": "best"}, "gradient"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        SwimMLP(**{"num_outputs": 3, **options})


def test_depth_and_width_are_selected(rows):
    plain, x = rows
    build = partial(SwimMLP, 1, units=128, output_activation=None)
    seen = {}

    def select(rule):
        return select_mlp(
            build,
            x,
            real(plain),
            depths=(2, 1),
            report=lambda depth, selection: seen.update({depth: selection}),
            scales=(0.5, 1.0),
            rule=rule,
            seed=0,
            verbose=0,
        )

    best = select("best")
    assert list(seen) == [1, 2]
    losses = {depth: one.surface.loss.min() for depth, one in seen.items()}
    assert best.hidden_layers == min(losses, key=losses.get)
    assert best.selection is seen[best.hidden_layers]
    layers = sampled(best.model)
    assert len(layers) == best.hidden_layers
    assert layers[-1].units == best.selection.width
    assert layers[-1].scale == best.selection.scale
    assert [layer.units for layer in layers[:-1]] == [128] * (len(layers) - 1)
    fitted = best.model.predict(x, verbose=0)[:, 0]
    assert np.mean((fitted - real(plain)) ** 2) < 0.01

    small = select("one_standard_error")
    assert small.hidden_layers <= best.hidden_layers
    units = [sum(layer.units for layer in sampled(one.model)) for one in (small, best)]
    assert units[0] < units[1]


def test_depth_where_it_pays():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(400, 2))
    quadrants = (x[:, 0] * x[:, 1] > 0).astype(int)
    noisy = np.sin(3 * x[:, 0]) + rng.normal(0, 0.3, size=400)
    options = {"depths": (1, 3), "seed": 0, "verbose": 0}
    deep = select_mlp(partial(SwimMLP, 2, units=96), x, quadrants, **options)
    assert deep.hidden_layers == 3
    build = partial(SwimMLP, 1, units=96, output_activation=None)
    flat = select_mlp(build, x, noisy, rule="one_standard_error", **options)
    assert flat.hidden_layers == 1
    assert flat.selection.width < 60


def test_a_layer_too_narrow_loses(rows):
    plain, x = rows
    models = (
        (units, SwimMLP(1, units, output_activation=None)) for units in (1, 2, 100)
    )
    found = choose_among(models, x, real(plain), seed=0, verbose=0)
    assert found.settings == 100
    assert found.loss == found.best == found.selection.surface.loss.min()


def test_equal_candidates_the_first(rows):
    plain, x = rows
    models = ((name, SwimMLP(3, 20)) for name in ("first", "second"))
    assert choose_among(models, x, classes(plain), seed=0, verbose=0).settings == (
        "first"
    )
    with pytest.raises(ValueError, match="at least one"):
        choose_among([], x, classes(plain))


def test_depths_that_cannot_be_selected(rows):
    for depths in ((), (0, 1)):
        with pytest.raises(ValueError, match="1 or more"):
            select_mlp(partial(SwimMLP, 2), rows[1], depths=depths)
