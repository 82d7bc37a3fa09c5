"""`pair_report`: the rows behind each unit, and wrong labels."""

import warnings

import keras
import numpy as np
import pytest

from keras_swim import SampledDense, pair_report, swim_fit

layers = keras.layers


def fitted(x, y, *hidden, outputs=3, activation="softmax", **options):
    model = keras.Sequential(
        [keras.Input(x.shape[1:]), *hidden, layers.Dense(outputs, activation)]
    )
    swim_fit(model, x, y, seed=0, verbose=0, **options)
    return model


def by_hand(x, codes, pairs, **constructor):
    """A model whose only sampled layer has exactly the given pairs."""
    layer = SampledDense(len(pairs), **constructor)
    classes = int(codes.max()) + 1
    model = keras.Sequential(
        [keras.Input(x.shape[1:]), layer, layers.Dense(classes, "softmax")]
    )
    step = x[pairs[:, 1]] - x[pairs[:, 0]]
    kernel = np.log(3) * step.T / (step**2).sum(1)
    middle = (x[pairs[:, 1]] + x[pairs[:, 0]]) / 2
    layer.set_weights([kernel, -np.einsum("dk,kd->k", kernel, middle)])
    layer._pairs = pairs
    return model


def assert_same(report, other):
    for name, column in report.columns().items():
        np.testing.assert_allclose(
            column, other.columns()[name], rtol=1e-4, atol=1e-5, err_msg=name
        )
    np.testing.assert_allclose(report.suspicion, other.suspicion, atol=1e-5)


@pytest.fixture
def classes(rng):
    centres = 3 * rng.normal(size=(3, 5))
    y = rng.integers(0, 3, size=400)
    return (centres[y] + rng.normal(size=(400, 5))).astype("float32"), y


@pytest.fixture
def small():
    x = np.array([[0, 0], [3, 4], [0, 1], [6, 8], [1, 0]], dtype="float32")
    y = np.array([0, 1, 1, 2, 0])
    pairs = np.array([[0, 3], [0, 4], [1, 0], [0, 2], [2, 1]])
    model = by_hand(x, y, pairs)
    kernel = np.array(
        [[3, 0, -3], [1, 0, -1], [0, 0, 0], [0, 4, -3], [2, 2, -4]], "float32"
    )
    model.layers[-1].set_weights([kernel, np.zeros(3, "float32")])
    return model, x, y


def test_a_table_worked_out_by_hand(small):
    report = pair_report(*small)
    # Opposite labels by distance 1, 5, 10; then the pairs of equal labels.
    assert report.unit.tolist() == [3, 2, 0, 1, 4]
    assert report.row_a.tolist() == [0, 1, 0, 0, 2]
    assert report.row_b.tolist() == [2, 0, 3, 4, 1]
    assert report.label_a.tolist() == [0, 1, 0, 0, 1]
    assert report.label_b.tolist() == [1, 0, 2, 0, 1]
    np.testing.assert_allclose(report.distance, [1, 5, 10, 1, np.sqrt(18)], rtol=1e-6)
    # tanh rises by exactly 1 over its pair, so these are norms of kernel rows.
    np.testing.assert_allclose(
        report.strength, [5, 0, np.sqrt(18), np.sqrt(2), np.sqrt(24)], atol=1e-5
    )
    assert report.counts.tolist() == [[1, 2, 1], [2, 1, 0], [1, 0, 0]]


def test_suspicion_is_one_minus_the_own_probability(small):
    model, x, y = small
    report = pair_report(*small)
    own = model.predict(x, verbose=0)[np.arange(5), y]
    assert report.suspects.tolist() == np.argsort(own).tolist()
    np.testing.assert_allclose(report.suspicion, 1 - np.sort(own), atol=1e-6)
    np.testing.assert_allclose(report.suspicion_a, 1 - own[report.row_a], atol=1e-6)
    np.testing.assert_allclose(report.suspicion_b, 1 - own[report.row_b], atol=1e-6)


def test_other_orders(small):
    assert pair_report(*small, sort="strength").unit.tolist() == [3, 0, 2, 4, 1]
    report = pair_report(*small, sort="suspicion")
    worst = np.maximum(report.suspicion_a, report.suspicion_b)
    assert (np.diff(worst[:3]) <= 0).all() and (np.diff(worst[3:]) <= 0).all()
    assert sorted(report.unit[:3]) == [0, 2, 3]


def test_text_records_and_data_frame(small):
    pandas = pytest.importorskip("pandas")
    report = pair_report(*small)
    text = report.to_text(limit=2)
    assert "5 units" in text and "... 3 more" in text and "0-1 (2)" in text
    assert text.splitlines()[3].split()[:6] == ["3", "0", "2", "0", "1", "1"]
    assert str(report) == report.to_text()
    assert "more" not in str(report)
    assert len(report) == len(report.records()) == 5
    assert report.records(1)[0]["row_b"] == 2
    frame = pandas.DataFrame(report.columns())
    assert list(frame.columns[:3]) == ["unit", "row_a", "row_b"]
    assert frame["distance"].tolist() == report.distance.tolist()


def test_real_pairs_agree_with_the_layer(classes):
    x, y = classes
    model = fitted(x, y, SampledDense(50))
    report = pair_report(model, x, y)
    pairs = model.layers[0].pairs[report.unit]
    np.testing.assert_array_equal(np.stack([report.row_a, report.row_b], 1), pairs)
    np.testing.assert_array_equal(report.label_a, y[report.row_a])
    exact = np.linalg.norm(x[report.row_a] - x[report.row_b], axis=1)
    np.testing.assert_allclose(report.distance, exact, rtol=1e-5)
    assert (np.diff(report.distance) >= 0).all()
    kernel = keras.ops.convert_to_numpy(model.layers[-1].kernel)[report.unit]
    np.testing.assert_allclose(
        report.strength, np.linalg.norm(kernel, axis=1), rtol=1e-3
    )
    assert sorted(report.suspects) == list(range(400))
    assert np.trace(report.counts) == 0 and report.counts.sum() == 100


@pytest.mark.parametrize("form", ["one-hot", "column", "float labels"])
def test_other_forms_of_labels(classes, form):
    x, y = classes
    model = fitted(x, y, SampledDense(30))
    forms = {"one-hot": np.eye(3)[y], "column": y[:, None], "float labels": y + 0.0}
    assert_same(pair_report(model, x, forms[form]), pair_report(model, x, y))


def test_yes_or_no(classes):
    x, y = classes
    y = (y == 1).astype("float32")
    model = fitted(x, y, SampledDense(30), outputs=1, activation="sigmoid")
    report = pair_report(model, x, y)
    assert report.counts.tolist() == [[0, 30], [30, 0]]
    gap = np.abs(y - model.predict(x, verbose=0)[:, 0])
    np.testing.assert_allclose(report.suspicion, np.sort(gap)[::-1], atol=1e-5)


def test_several_yes_or_no_outputs(classes):
    x, y = classes
    y = np.stack([y == 1, x[:, 0] > 0], axis=1).astype("float32")
    model = fitted(x, y, SampledDense(30), outputs=2, activation="sigmoid")
    report = pair_report(model, x, y)
    assert report.counts is None
    np.testing.assert_array_equal(report.label_a, y[report.row_a])
    assert {"label_a_0", "label_a_1"} <= set(report.columns())
    assert "label_b_1" in str(report)


def test_logits_are_judged_as_probabilities(classes):
    x, y = classes
    model = keras.Sequential([keras.Input((5,)), SampledDense(30), layers.Dense(3)])
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    swim_fit(model, x, y, seed=0, verbose=0)
    logits = keras.ops.convert_to_tensor(model.predict(x, verbose=0))
    own = keras.ops.convert_to_numpy(keras.ops.softmax(logits))[np.arange(400), y]
    report = pair_report(model, x, y)
    np.testing.assert_allclose(report.suspicion, 1 - np.sort(own), atol=1e-5)


def test_regression_puts_the_steepest_pairs_first(rng):
    x = rng.normal(size=(300, 3)).astype("float32")
    y = np.stack([x[:, 0] ** 2, 100 * x[:, 1]], axis=1)
    y[7, 0] += 9
    model = fitted(x, y, SampledDense(60), outputs=2, activation="linear")
    report = pair_report(model, x, y)
    assert report.counts is None
    np.testing.assert_allclose(report.label_b, y[report.row_b])
    steepness = np.abs(report.label_b - report.label_a).max(axis=1) / report.distance
    assert (np.diff(steepness) <= 1e-6 * steepness[0]).all()
    # A wrong value stands out, though the other output has larger residuals.
    assert report.suspects[0] == 7
    single = fitted(x, y[:, 0], SampledDense(60), outputs=1, activation="linear")
    assert pair_report(single, x, y[:, 0]).label_a.ndim == 1


def test_a_frozen_backbone_and_two_inputs(classes):
    x, y = classes
    left, right = keras.Input((2,), name="left"), keras.Input((3,), name="right")
    backbone = layers.Dense(8, activation="relu", trainable=False)
    joint = backbone(layers.Concatenate()([left, right]))
    hidden = layers.BatchNormalization()(SampledDense(40, name="units")(joint))
    hidden = layers.Concatenate()([joint, layers.Dropout(0.5)(hidden)])
    outputs = layers.Dense(3, activation="softmax")(hidden)
    model = keras.Model([left, right], outputs)
    data = {"right": x[:, 2:], "left": x[:, :2]}
    swim_fit(model, data, y, seed=0, verbose=0)
    report = pair_report(model, data, y)
    features = keras.Model(model.inputs, joint).predict([x[:, :2], x[:, 2:]], verbose=0)
    exact = np.linalg.norm(features[report.row_a] - features[report.row_b], axis=1)
    np.testing.assert_allclose(report.distance, exact, rtol=1e-4)
    # The readout sees the units behind eight columns of the backbone, and
    # rescaled by the batch normalisation.
    kernel = keras.ops.convert_to_numpy(model.layers[-1].kernel)[8:][report.unit]
    norm = model.layers[-4]
    assert isinstance(norm, layers.BatchNormalization)
    deviation = np.sqrt(keras.ops.convert_to_numpy(norm.moving_variance) + 1e-3)
    expected = np.linalg.norm(kernel, axis=1) / deviation[report.unit]
    np.testing.assert_allclose(report.strength, expected, rtol=1e-3)


def test_a_deep_model(classes):
    x, y = classes
    first, second = SampledDense(40), SampledDense(25, name="second")
    model = fitted(x, y, first, second)
    hidden = keras.ops.convert_to_numpy(first(x))
    report = pair_report(model, x, y)
    assert report.layer == "second" and len(report) == 25
    exact = np.linalg.norm(hidden[report.row_a] - hidden[report.row_b], axis=1)
    np.testing.assert_allclose(report.distance, exact, rtol=1e-4)
    for layer in (first, first.name):
        report = pair_report(model, x, y, layer=layer)
        assert len(report) == 40
        exact = np.linalg.norm(x[report.row_a] - x[report.row_b], axis=1)
        np.testing.assert_allclose(report.distance, exact, rtol=1e-4)
        assert np.isnan(report.strength).all()


def test_two_outputs(classes):
    x, y = classes
    inputs = keras.Input((5,))
    hidden = SampledDense(30)(inputs)
    kind = layers.Dense(3, activation="softmax", name="kind")(hidden)
    size = layers.Dense(1, name="size")(hidden)
    model = keras.Model(inputs, {"kind": kind, "size": size})
    targets = {"kind": y, "size": x[:, 0]}
    swim_fit(model, x, targets, seed=0, verbose=0)
    assert pair_report(model, x, targets, output="kind").counts.shape == (3, 3)
    report = pair_report(model, x, targets, output="size")
    np.testing.assert_allclose(report.label_a, x[report.row_a, 0])
    with pytest.raises(ValueError, match=r"`output` must be one of .*'size'"):
        pair_report(model, x, targets, output="colour")


@pytest.mark.parametrize("shape", [(4, 5), (None, 5)])
def test_positions_belong_to_rows(rng, shape):
    x = rng.normal(size=(60, 4, 5)).astype("float32")
    y = (x[..., 0] > 0).astype(int)
    layer = SampledDense(20)
    model = keras.Sequential(
        [keras.Input(shape), layer, layers.Dense(2, activation="softmax")]
    )
    swim_fit(model, x, y, seed=0, verbose=0)
    report = pair_report(model, x, y)
    pairs = layer.pairs[report.unit]
    np.testing.assert_array_equal(report.row_b, pairs[:, 1] // 4)
    np.testing.assert_array_equal(report.label_a, y.ravel()[pairs[:, 0]])
    flat = x.reshape(-1, 5)
    exact = np.linalg.norm(flat[pairs[:, 0]] - flat[pairs[:, 1]], axis=1)
    np.testing.assert_allclose(report.distance, exact, rtol=1e-4)
    assert np.isfinite(report.strength).all()
    assert sorted(report.suspects) == list(range(60))


def test_one_label_for_all_positions(rng):
    x = rng.normal(size=(60, 4, 5)).astype("float32")
    y = (x.mean(axis=(1, 2)) > 0).astype(int)
    model = fitted(x, y, SampledDense(20), layers.Flatten(), outputs=2)
    report = pair_report(model, x, y)
    np.testing.assert_array_equal(report.label_a, y[report.row_a])
    assert report.row_a.max() < 60 and np.isnan(report.strength).all()


def test_distance_over_the_columns_that_a_unit_looks_at(classes):
    x, y = classes
    layer = SampledDense(30, subset_sizes=[1])
    report = pair_report(fitted(x, y, layer), x, y)
    kernel = keras.ops.convert_to_numpy(layer.kernel)[:, report.unit]
    steps = (x[report.row_b] - x[report.row_a])[kernel.T != 0]
    np.testing.assert_allclose(report.distance, np.abs(steps), rtol=1e-4)


def test_pairs_of_equal_labels_come_last(classes):
    x, y = classes
    model = fitted(x, y, SampledDense(60, sampler="uniform"))
    report = pair_report(model, x, y)
    equal = report.label_a == report.label_b
    assert 0 < equal.sum() < 60
    assert (np.diff(equal.astype(int)) >= 0).all()
    assert (np.diff(report.distance[equal]) >= 0).all()
    upper = np.triu(report.counts)
    assert upper.sum() == 60 and np.trace(upper) == equal.sum()


def test_a_loaded_model_reports_the_same(classes, tmp_path):
    x, y = classes
    model = fitted(x, y, SampledDense(30), SampledDense(20))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_same(pair_report(loaded, x, y), pair_report(model, x, y))


@pytest.mark.parametrize("suspects", ["all", "pairs"])
@pytest.mark.parametrize("batch_size", [None, 7])
def test_streams_report_the_same(classes, suspects, batch_size):
    x, y = classes
    model = fitted(x, y, SampledDense(20))
    expected = pair_report(model, x, y, suspects=suspects)

    def stream():
        for start in range(0, 400, 64):
            yield x[start : start + 64], y[start : start + 64]

    found = pair_report(model, stream, suspects=suspects, batch_size=batch_size)
    assert_same(found, expected)
    np.testing.assert_array_equal(found.unit, expected.unit)


def test_only_rows_in_pairs_run_if_asked(classes):
    x, y = classes
    model = fitted(x, y, SampledDense(20))
    expected = pair_report(model, x, y)
    rows = np.unique(model.layers[0].pairs)
    report = pair_report(model, x, y, suspects="pairs")
    assert sorted(report.suspects) == rows.tolist()
    np.testing.assert_allclose(report.suspicion_a, expected.suspicion_a, atol=1e-6)
    order = [row for row in expected.suspects if row in rows]
    np.testing.assert_array_equal(report.suspects, order)
    # The other rows do not run.
    others = np.setdiff1d(np.arange(400), rows)
    x = x.copy()
    x[others] = 1e3
    assert_same(pair_report(model, x, y, suspects="pairs"), report)


def test_wrong_rows_are_noticed(classes):
    x, y = classes
    model = fitted(x, y, SampledDense(30, activation="relu", scale=2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        pair_report(model, x, y)
    with pytest.warns(UserWarning, match="same order"):
        pair_report(model, x[::-1], y[::-1])


def test_errors_come_with_advice(classes):
    x, y = classes
    hidden = SampledDense(30, name="hidden")
    model = fitted(x, y, hidden, SampledDense(10, sampler="random", name="last"))
    assert pair_report(model, x, y).layer == "hidden"
    last = int(hidden.pairs.max())
    for data in ((x[:last], y[:last]), (lambda: [(x[:last], y[:last])], None)):
        with pytest.raises(ValueError, match=rf"{last}\. Received: {last} row.*same"):
            pair_report(model, *data)
    with pytest.raises(ValueError, match=r"Received: layer='last'.*\['hidden'\]"):
        pair_report(model, x, y, layer="last")
    with pytest.raises(ValueError, match="same number of rows"):
        pair_report(model, x, y[:-1])
    with pytest.raises(ValueError, match="labels from 0 to 2"):
        pair_report(model, x, y + 1)
    with pytest.raises(ValueError, match="`pair_report` needs targets"):
        pair_report(model, x)
    with pytest.raises(ValueError, match="expects inputs of shape"):
        pair_report(model, x[:, :4], y)
    with pytest.raises(ValueError, match="`sort` must be one of 'distance'"):
        pair_report(model, x, y, sort="length")
    with pytest.raises(ValueError, match="`suspects` must be one of"):
        pair_report(model, x, y, suspects="some")
    with pytest.raises(ValueError, match="batch_size"):
        pair_report(model, x, y, batch_size=0)
    with pytest.raises(ValueError, match="use another `sort`"):
        pair_report(model, x, y, sort="strength")
    with pytest.raises(TypeError, match=r"must be a keras\.Model"):
        pair_report(hidden, x, y)


@pytest.mark.parametrize("sampler", ["gradient", "random"])
def test_a_model_without_pairs_is_refused_and_not_built(classes, sampler):
    model = keras.Sequential([SampledDense(5, sampler=sampler), layers.Dense(3)])
    with pytest.raises(ValueError, match=rf"sampler='{sampler}'.*`swim_fit` first"):
        pair_report(model, *classes)
    assert not model.built
    model = keras.Sequential([keras.Input((5,)), layers.Dense(3)])
    with pytest.raises(ValueError, match="no SampledDense layer"):
        pair_report(model, *classes)


def test_flipped_labels_of_digits_are_found(digits):
    x, y = digits[:2]
    rng = np.random.default_rng(0)
    flipped = rng.choice(len(y), 60, replace=False)
    y = y.copy()
    y[flipped] = (y[flipped] + rng.integers(1, 10, size=60)) % 10
    model = fitted(x, y, SampledDense(600), outputs=10)
    report = pair_report(model, x, y)
    # By chance 3 of the first 60, 0.95 on average.
    assert np.isin(report.suspects[:60], flipped).mean() > 0.85
    # The same for the lines of the table. By chance a tenth of them.
    lines = pair_report(model, x, y, sort="suspicion", suspects="pairs")
    wrong = np.isin(lines.row_a, flipped) | np.isin(lines.row_b, flipped)
    assert wrong[:50].mean() > 0.9 and wrong.mean() < 0.2
