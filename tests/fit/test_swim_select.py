"""Width, ridge, scale and seed from held-out rows."""

import gzip

import keras
import numpy as np
import pytest

from keras_swim import SampledDense, swim_fit, swim_select
from keras_swim.core.folds import held_out_folds, untouched_units
from keras_swim.core.readout import ReadoutState
from keras_swim.core.surface import Tally
from keras_swim.fit.options import FOLD_STREAM
from keras_swim.fit.progress import Progress
from keras_swim.fit.select_arguments import PENALTIES
from keras_swim.fit.swim_select import widened_surface

L2 = [1e-4, 1e-2, 1.0]


def network(units=64, outputs=10, activation="softmax", **kwargs):
    return keras.Sequential(
        [SampledDense(units, **kwargs), keras.layers.Dense(outputs, activation)]
    )


def features_of(model, x):
    return keras.ops.convert_to_numpy(model.layers[0](x)).astype(float)


def full_layer(x, y, units, seed):
    """The features that `swim_select` sees, and their pairs."""
    model = network(units)
    swim_fit(model, x, y, l2=1.0, seed=seed, verbose=0)
    return features_of(model, x), model.layers[0].pairs, model


def ridge(features, targets, columns, penalty):
    f, y = features[:, columns], targets
    fc, yc = f - f.mean(axis=0), y - y.mean(axis=0)
    kernel = np.linalg.solve(fc.T @ fc + penalty * np.eye(len(columns)), fc.T @ yc)
    return kernel, y.mean(axis=0) - f.mean(axis=0) @ kernel


def penalty_of(features, l2):
    centred = features - features.mean(axis=0)
    return l2 * (centred**2).sum() / features.shape[1]


def test_folds_equal_the_same_by_hand(digits):
    x, y = digits[0][:300], digits[1][:300]
    widths = [16, 64]
    found = swim_select(network(), x, y, widths=widths, l2=L2, seed=3, verbose=0)
    features, pairs, _ = full_layer(x, y, 64, seed=3)
    targets = np.eye(10)[y]
    rng = np.random.default_rng([3, FOLD_STREAM])
    folds = held_out_folds(300, rng, y, 5, enough=301)
    losses = np.zeros((2, 3, 300))
    for rows in folds:
        others = np.setdiff1d(np.arange(300), rows)
        keep = np.flatnonzero(untouched_units(pairs, rows, 300))
        for j, l2 in enumerate(L2):
            penalty = penalty_of(features[others][:, keep], l2)
            for i, width in enumerate(widths):
                columns = keep[:width]
                kernel, bias = ridge(
                    features[others], targets[others], columns, penalty
                )
                gaps = features[rows][:, columns] @ kernel + bias - targets[rows]
                losses[i, j, rows] = (gaps**2).sum(axis=1)
    surface = found.surface
    assert surface.rows == 300
    np.testing.assert_allclose(surface.loss, losses.mean(axis=-1), rtol=1e-3)
    np.testing.assert_allclose(
        surface.loss_error, losses.std(axis=-1) / np.sqrt(300), rtol=1e-3
    )


@pytest.mark.parametrize("widths", [[16, 64], "all"])
def test_validation_equals_the_same_by_hand(digits, widths):
    x, y, x_test, y_test = digits
    x, y = x[:500], y[:500]
    found = swim_select(
        network(),
        x,
        y,
        validation_data=(x_test, y_test),
        widths=widths,
        l2=L2,
        seed=0,
        verbose=0,
    )
    features, _, model = full_layer(x, y, 64, seed=0)
    new = features_of(model, x_test)
    surface = found.surface
    assert surface.loss.shape == (len(surface.widths), 3)
    for i, width in enumerate(surface.widths):
        if width not in (16, 64):
            continue
        for j, l2 in enumerate(L2):
            kernel, bias = ridge(
                features, np.eye(10)[y], np.arange(width), penalty_of(features, l2)
            )
            scores = new[:, :width] @ kernel + bias
            loss = ((scores - np.eye(10)[y_test]) ** 2).sum(axis=1).mean()
            assert surface.loss[i, j] == pytest.approx(loss, rel=1e-3)
            right = (scores.argmax(axis=1) == y_test).mean()
            assert surface.accuracy[i, j] == pytest.approx(right, abs=0.002)


@pytest.mark.parametrize("rows", [300, 40, 15])
def test_leave_one_out_equals_leaving_one_out(digits, rows):
    x, y = digits[0][:rows], digits[1][:rows]
    found = swim_select(
        network(),
        x,
        y,
        method="leave_one_out",
        widths=[16, 64],
        l2=[1e-2],
        seed=0,
        verbose=0,
    )
    features, _, _ = full_layer(x, y, 64, seed=0)
    targets = np.eye(10)[y]
    for i, width in enumerate([16, 64]):
        losses = []
        for row in range(rows):
            others = np.arange(rows) != row
            kernel, bias = ridge(
                features[others],
                targets[others],
                np.arange(width),
                penalty_of(features, 1e-2),
            )
            gaps = features[row, :width] @ kernel + bias - targets[row]
            losses.append((gaps**2).sum())
        assert found.surface.loss[i, 0] == pytest.approx(np.mean(losses), rel=1e-3)


def test_the_model_is_really_smaller(digits, tmp_path):
    x, y, x_test, y_test = digits
    model = network(512)
    found = swim_select(
        model, x, y, rule="one_standard_error", metric="accuracy", seed=0, verbose=0
    )
    assert found.width < 512
    assert (
        found.model.layers[0].units == found.width == len(found.model.layers[0].pairs)
    )
    found.model.save(tmp_path / "small.keras")
    swim_fit(model, x, y, seed=0, verbose=0)
    model.save(tmp_path / "large.keras")
    sizes = [(tmp_path / f"{name}.keras").stat().st_size for name in ("small", "large")]
    assert sizes[0] < 0.9 * sizes[1]
    again = keras.models.load_model(tmp_path / "small.keras")
    chances = again.predict(x_test, verbose=0)
    np.testing.assert_allclose(
        chances, found.model.predict(x_test, verbose=0), atol=1e-6
    )
    accuracy = (chances.argmax(axis=1) == y_test).mean()
    assert accuracy > 0.95
    # What it promises is what it holds.
    assert abs(found.metrics["accuracy"] - accuracy) < 0.03


def test_the_readout_is_that_of_the_chosen_width(digits):
    x, y, _, _ = digits
    found = swim_select(network(), x, y, widths=[16, 48], seed=0, verbose=0)
    assert found.width == 48
    features = features_of(found.model, x)
    solved = ReadoutState(48, 10).update(features, np.eye(10)[y]).solve(found.l2)
    kernel = keras.ops.convert_to_numpy(found.model.layers[1].kernel)
    np.testing.assert_allclose(
        kernel / found.state.temperature, solved.kernel, atol=2e-4
    )


def test_the_given_model_stays_as_it_is(digits):
    x, y, _, _ = digits
    inputs = keras.Input((64,))
    hidden = keras.layers.Normalization()(inputs)
    frozen = keras.layers.Dense(30, trainable=False)
    hidden = keras.layers.BatchNormalization()(SampledDense(80)(frozen(hidden)))
    model = keras.Model(inputs, keras.layers.Dense(10, "softmax")(hidden))
    before = model.get_weights()
    found = swim_select(model, x, y, scales=[1.0, 3.0], seed=0, verbose=0)
    for mine, theirs in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    sampled = next(part for part in model.layers if isinstance(part, SampledDense))
    assert sampled.scale == 1.0 and sampled.pairs is None
    assert frozen in found.model.layers
    accuracy = found.model.predict(x, verbose=0).argmax(axis=1) == y
    assert accuracy.mean() > 0.9


def test_columns_beside_the_units_stay(digits):
    x, y, x_test, y_test = digits
    inputs = keras.Input((64,))
    joined = keras.layers.Concatenate()([SampledDense(100)(inputs), inputs])
    model = keras.Model(inputs, keras.layers.Dense(10, "softmax")(joined))
    found = swim_select(model, x, y, widths=[5, 10], seed=0, verbose=0)
    assert found.model.layers[-1].kernel.shape[0] == 64 + found.width
    accuracy = found.model.predict(x_test, verbose=0).argmax(axis=1) == y_test
    assert accuracy.mean() > 0.9


def test_scale_and_seed(digits):
    x, y, _, _ = digits
    options = {"seed": 5, "verbose": 0}  # The same folds for all.
    found = swim_select(
        network(), x[:600], y[:600], scales=[1.0, 40.0], seeds=[0, 1], **options
    )
    assert len(found.surfaces) == 4 and found.scale == 1.0
    assert found.model.layers[0].scale == found.scale
    # Of two seeds the one of the smaller log loss.
    losses = {}
    for seed in (0, 1):
        one = swim_select(network(), x[:600], y[:600], seeds=[seed], **options)
        losses[seed] = one.metrics["loss"]
    assert found.seed == min(losses, key=losses.get)
    assert found.metrics["loss"] == pytest.approx(min(losses.values()))


def test_a_second_layer_and_regression(rng):
    x = rng.normal(size=(600, 3)).astype("float32")
    y = np.sin(2 * x[:, 0]) * x[:, 1]
    model = keras.Sequential(
        [SampledDense(50), SampledDense(100), keras.layers.Dense(1)]
    )
    found = swim_select(model, x[:500], y[:500], seed=0, verbose=0)
    assert found.surface.accuracy is None
    assert found.model.layers[0].units == 50
    error = np.mean((found.model.predict(x[500:], verbose=0)[:, 0] - y[500:]) ** 2)
    assert error < 0.2 * y.var()
    with pytest.raises(ValueError, match="real numbers"):
        swim_select(model, x, y, metric="accuracy", verbose=0)


class Valley:
    """A judge whose best penalty is known."""

    def __init__(self, exponent):
        self.exponent = exponent
        self.progress = Progress(0, stages=1)

    def surface(self, l2):
        tally = Tally([8], l2)
        for j, value in enumerate(l2):
            gap = np.log10(value) - self.exponent
            tally.add(np.full((2, 1, 1), gap), np.zeros((2, 1)), np.ones(2), (..., [j]))
        return tally.surface()


@pytest.mark.parametrize("exponent", [-20, -9, -3, 2, 3, 9])
def test_penalties_widen_while_the_best_is_at_an_end(exponent):
    found = widened_surface(
        Valley(exponent), PENALTIES, True, metric="loss", rule="best"
    )
    best = found.l2[found.choose()[1]]
    assert np.log10(best) == pytest.approx(np.clip(exponent, -12, 4))
    np.testing.assert_allclose(np.diff(np.log10(found.l2)), 1.0)


def test_given_penalties_are_not_widened(digits):
    given = swim_select(network(), digits[0], digits[1], l2=[1e-3], verbose=0)
    assert given.surface.l2.tolist() == [1e-3]


def test_weights_count(digits):
    x, y = digits[0][:300], digits[1][:300]
    weight = np.ones(300)
    weight[:100] = 0.0
    found = swim_select(
        network(seed=0), x, y, sample_weight=weight, l2=L2, widths=[64], verbose=0
    )
    assert found.surface.rows == 200
    assert found.model.layers[0].pairs.min() >= 100


def test_streams(digits):
    x, y = digits[0][:400], digits[1][:400]

    def batches():
        for start in range(0, 400, 50):
            yield x[start : start + 50], y[start : start + 50]

    found = [
        swim_select(network(), *data, l2=L2, widths=[32, 64], seed=0, verbose=0)
        for data in ((x, y), (batches,))
    ]
    np.testing.assert_allclose(found[0].surface.loss, found[1].surface.loss, rtol=1e-4)


def test_plot(digits, tmp_path):
    pytest.importorskip("matplotlib")
    found = swim_select(network(), digits[0], digits[1], l2=L2, verbose=0)
    found.plot(tmp_path / "surface.png")
    assert (tmp_path / "surface.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"widths": [0, 5]}, "from 1 to 64"),
        ({"widths": [65]}, "from 1 to 64"),
        ({"widths": "some"}, '"all"'),
        ({"l2": [-1.0]}, "l2"),
        ({"l2": [0.0]}, "positive"),
        ({"method": "guess"}, "leave_one_out"),
        ({"method": "validation"}, "needs validation data"),
        ({"method": "folds", "validation_split": 0.2}, "does not use"),
        ({"rule": "first"}, "one_standard_error"),
        ({"metric": "f1"}, "accuracy"),
        ({"scales": [0.0]}, "positive"),
        ({"seeds": [-1]}, "non-negative"),
        ({"folds": 1}, "2 or more"),
    ],
)
def test_bad_arguments(digits, arguments, message):
    with pytest.raises(ValueError, match=message):
        swim_select(network(), digits[0][:50], digits[1][:50], verbose=0, **arguments)


def test_leaving_one_out_needs_rows_of_their_own(digits):
    x, y = digits[0][:60], digits[1][:60]
    message = "the others would give it away"
    with pytest.raises(ValueError, match=message):
        swim_select(
            network(),
            x,
            y,
            method="leave_one_out",
            augmentation=keras.layers.GaussianNoise(0.1),
            verbose=0,
        )
    positions = keras.Sequential([SampledDense(20), keras.layers.Dense(2, "softmax")])
    with pytest.raises(ValueError, match=message):
        swim_select(
            positions,
            x.reshape(60, 4, 16),
            np.arange(240).reshape(60, 4) % 2,
            method="leave_one_out",
            verbose=0,
        )


def test_models_that_cannot_be_cut_are_refused(digits):
    x, y = digits[0][:50], digits[1][:50]
    inputs = keras.Input((64,))
    hidden = SampledDense(20)(inputs)
    two = keras.Model(inputs, [keras.layers.Dense(2)(hidden) for _ in range(2)])
    with pytest.raises(ValueError, match="one output"):
        swim_select(two, x, [y, y], verbose=0)
    mixed = keras.Sequential(
        [SampledDense(20), keras.layers.LayerNormalization(), keras.layers.Dense(10)]
    )
    with pytest.raises(ValueError, match="traced back"):
        swim_select(mixed, x, y, verbose=0)
    with pytest.raises(ValueError, match="SampledDense"):
        swim_select(keras.Sequential([keras.layers.Dense(10)]), x, y, verbose=0)
    seeded = network(seed=1)
    with pytest.raises(ValueError, match="seed of their own"):
        swim_select(seeded, x, y, seeds=[1, 2], verbose=0)

    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden, self.out = SampledDense(20), keras.layers.Dense(10)

        def call(self, inputs):
            return self.out(self.hidden(inputs))

    with pytest.raises(ValueError, match="subclassed"):
        swim_select(Own(), x, y, verbose=0)


def table(folder, name):
    """Columns that are numbers, standardised, and class codes."""
    with gzip.open(folder / "tabular" / f"{name}.csv.gz", "rt") as file:
        lines = [line.rstrip("\n").split(",") for line in file][1:]
    x = np.array([line[:-1] for line in lines], dtype="float32")
    _, y = np.unique([line[-1] for line in lines], return_inverse=True)
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-6), y


@pytest.mark.parametrize("name", ["digits", "cifar", "segment", "pendigits", "wdbc"])
def test_honest_folds_tell_what_refitting_on_each_fold_tells(name, request):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("the arithmetic is the same on every backend")
    if name == "digits":
        x, y = request.getfixturevalue("digits")[:2]
    elif name == "cifar":
        x, y = (part[:2000] for part in request.getfixturevalue("resnet_features")[:2])
    else:
        x, y = table(request.getfixturevalue("shared_data"), name)
        order = np.random.default_rng(0).permutation(len(x))[:2000]
        x, y = x[order], y[order]
    classes, units, l2 = int(y.max()) + 1, 512, 1e-3
    honest, refitted = [], []
    for seed in range(2):
        # So many that 512 are left in each fold.
        found = swim_select(
            network(900, classes), x, y, widths=[units], l2=[l2], seed=seed, verbose=0
        )
        assert found.surface.limit >= units
        honest.append(found.surface.accuracy[0, 0])
        rng = np.random.default_rng([seed, FOLD_STREAM])
        right = np.zeros(len(x))
        for rows in held_out_folds(len(x), rng, y, 5, enough=len(x) + 1):
            others = np.setdiff1d(np.arange(len(x)), rows)
            layer = SampledDense(units, seed=seed)
            layer.adapt(x[others], y[others])
            features = keras.ops.convert_to_numpy(layer(x))
            state = ReadoutState(units, classes)
            state.update(features[others], np.eye(classes)[y[others]])
            solved = state.solve(l2)
            scores = features[rows] @ solved.kernel + solved.bias
            right[rows] = scores.argmax(axis=1) == y[rows]
        refitted.append(right.mean())
    assert abs(np.mean(honest) - np.mean(refitted)) < 0.01
