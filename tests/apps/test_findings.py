"""findings: what it says of models of every kind, and what it leaves out."""

import keras
import numpy as np
import pytest

import keras_swim
from keras_swim import FineTune, SampledDense, SwimHead, pair_report, swim_select
from keras_swim.apps.report.findings import findings
from keras_swim.apps.report.page import render_report
from keras_swim.apps.report.scores import wilson
from keras_swim.layers.labeled_dense import LabeledDense


def swim_fit(*args, **kwargs):
    return keras_swim.swim_fit(*args, seed=0, verbose=0, **kwargs)


def head(classes, units=60, activation="softmax"):
    return keras.Sequential(
        [SampledDense(units), keras.layers.Dense(classes, activation=activation)]
    )


@pytest.fixture(scope="module")
def fitted(digits):
    """A model of digits, its history, and a part of the data."""
    x, y, x_val, y_val = digits
    x, y, x_val, y_val = x[:400], y[:400], x_val[:200], y_val[:200]
    model = head(10)
    history = swim_fit(model, x, y)
    return model, history, x, y, (x_val, y_val)


@pytest.fixture(scope="module")
def report(fitted):
    model, history, x, y, validation = fitted
    return findings(
        model,
        x,
        y,
        validation_data=validation,
        history=history,
        names=[f"train/{i}.png" for i in range(len(x))],
        validation_names=[f"val/{i}.png" for i in range(200)],
        thumbnail=lambda part, row: b"\xff\xd8" + f"{part} {row}".encode(),
        title="Digits",
        facts={"Backbone": "none", "Activation": "as always"},
    )


def is_plain(value):
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(
            map(is_plain, value.values())
        )
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or type(value) in (str, int, float, bool, bytes)


def test_the_report_is_plain_and_complete(report):
    assert is_plain(report)
    assert set(report) == {
        *("title", "kind", "item", "date", "lead", "facts", "notes", "seconds"),
        *("scores", "confusion", "classes", "calibration", "mistakes", "suspects"),
        *("closest", "strongest", "stages"),
    }
    assert "<h1>Digits</h1>" in render_report(report)


def test_scores_are_those_of_the_validation_rows(fitted, report):
    model, _, _, _, (x_val, y_val) = fitted
    chances = model.predict(x_val, verbose=0)
    right = chances.argmax(axis=1) == y_val
    found = report["scores"]
    assert (found["source"], found["rows"]) == ("validation", 200)
    assert found["accuracy"] == pytest.approx(right.mean())
    assert (found["low"], found["high"]) == wilson(found["accuracy"], 200)
    loss = -np.log(chances[np.arange(200), y_val]).mean()
    assert found["loss"] == pytest.approx(loss, rel=1e-3)
    assert report["lead"] == "10 classes, 400 training images, 200 validation images"


def test_counts_agree_with_each_other(report):
    counts = np.array(report["confusion"]["counts"])
    assert counts.sum() == 200
    wrong = counts.sum() - np.trace(counts)
    assert report["mistakes"]["count"] == wrong > 0
    assert report["scores"]["accuracy"] == pytest.approx(1 - wrong / 200)
    assert [row["rows"] for row in report["classes"]] == counts.sum(axis=1).tolist()
    assert sum(part["rows"] for part in report["calibration"]["bins"]) == 200


def test_mistakes_are_wrong_and_the_surest_come_first(fitted, report):
    model, _, _, _, (x_val, y_val) = fitted
    chances = model.predict(x_val, verbose=0)
    shown = report["mistakes"]["shown"]
    sure = [one["probability"] for one in shown]
    assert sure == sorted(sure, reverse=True)
    for one in shown:
        row = int(one["name"].split("/")[1].split(".")[0])
        assert one["label"] == str(y_val[row]) != one["predicted"]
        assert one["predicted"] == str(chances[row].argmax())
        assert one["probability"] == pytest.approx(chances[row].max(), rel=1e-4)
        assert one["image"] == b"\xff\xd8" + f"validation {row}".encode()


def test_suspects_are_those_of_the_pair_report(fitted):
    model, _, x, y, _ = fitted
    wrong = y.copy()
    wrong[:20] = (wrong[:20] + 1) % 10
    model = head(10)
    swim_fit(model, x, wrong)
    report = findings(model, x, wrong)
    expected = pair_report(model, x, wrong)
    names = [f"row {row}" for row in expected.suspects[:12]]
    assert [one["name"] for one in report["suspects"]["shown"]] == names
    chances = [one["label_probability"] for one in report["suspects"]["shown"]]
    assert chances == pytest.approx(1 - expected.suspicion[:12], abs=1e-5)
    found = [int(name.split()[1]) < 20 for name in names]
    assert sum(found) >= 9


def test_rows_left_out_show_labels_that_a_wide_layer_has_learnt(fitted):
    _, _, x, y, _ = fitted
    x, wrong = x[:300], y[:300].copy()
    wrong[:5] = (wrong[:5] + 1) % 10
    model = head(10, units=400)
    history = swim_fit(model, x, wrong, l2=1e-4, keep_state=True)
    learnt = findings(model, x, wrong)["suspects"]
    assert learnt["count"] < 5
    report = findings(model, x, wrong, history=history)
    assert report["suspects"]["left_out"]
    rows = [int(one["name"].split()[1]) for one in report["suspects"]["shown"]]
    assert set(range(5)) <= set(rows)
    assert "leave-one-out" in render_report(report)
    assert "leave-one-out" not in render_report({**report, "suspects": learnt})


def test_pairs_are_those_of_the_pair_report(fitted, report):
    model, _, x, y, _ = fitted
    expected = pair_report(model, x, y)
    for one, a, b in zip(
        report["closest"], expected.row_a, expected.row_b, strict=False
    ):
        assert (one["a"]["name"], one["b"]["name"]) == (
            f"train/{a}.png",
            f"train/{b}.png",
        )
        assert (one["a"]["label"], one["b"]["label"]) == (str(y[a]), str(y[b]))
        assert one["a"]["label"] != one["b"]["label"]
        assert one["b"]["image"] == b"\xff\xd8" + f"train {b}".encode()
    distances = [one["distance"] for one in report["closest"]]
    assert distances == sorted(distances)
    strengths = [one["strength"] for one in report["strongest"]]
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[0] == pytest.approx(expected.strength.max())


def test_facts_and_stages(fitted, report):
    history = fitted[1].history
    assert report["facts"]["Hidden units"] == "60"
    assert report["facts"]["Activation"] == "as always"
    assert next(iter(report["facts"])) == "Backbone"
    assert report["facts"]["Ridge (l2)"] == f"{history['l2'][0]:.2g}"
    assert report["stages"]["adding up the features"] == history["seconds_sums"][0]
    assert report["seconds"] == history["seconds"][0]
    given = findings(
        *(fitted[0], fitted[2], fitted[3]),
        stages={"all": 2.0, "rest": 1.0},
        facts={"Activation": None},
    )
    assert given["seconds"] == 3.0
    assert given["stages"] == {"all": 2.0, "rest": 1.0}
    assert "Activation" not in given["facts"]


def test_without_validation_data_the_held_out_figures_stand_in(fitted):
    model, history, x, y, _ = fitted
    report = findings(model, x, y, history=history)
    found = report["scores"]
    assert found["source"] == "held-out"
    assert found["accuracy"] == history.history["cv_accuracy"][0]
    assert found["loss"] == history.history["cv_loss"][0]
    assert (found["low"], found["high"]) == wilson(found["accuracy"], 400)
    assert not {"confusion", "classes", "calibration", "mistakes"} & set(report)
    assert {"suspects", "closest", "strongest"} <= set(report)
    assert "no validation rows" in report["notes"][0]
    assert "held-out training rows" in render_report(report)


def test_without_anything_the_training_rows_are_named_as_such(fitted):
    model, _, x, y, _ = fitted
    report = findings(model, x, y)
    assert report["scores"]["source"] == "training"
    assert "will do worse" in report["notes"][0]
    assert "stages" not in report and "seconds" not in report
    render_report(report)


def test_a_class_without_validation_rows(fitted):
    model, _, x, y, (x_val, y_val) = fitted
    keep = y_val != 3
    report = findings(model, x, y, validation_data=(x_val[keep], y_val[keep]))
    assert report["classes"][3]["recall"] is None
    assert any("1 class without any validation row: 3." in n for n in report["notes"])
    render_report(report)


def test_without_hidden_layers_there_are_no_pairs(digits):
    x, y, x_val, y_val = digits
    model = keras.Sequential([keras.layers.Dense(10, activation="softmax")])
    history = swim_fit(model, x[:300], y[:300])
    report = findings(
        *(model, x[:300], y[:300]),
        validation_data=(x_val, y_val),
        history=history,
    )
    assert not {"closest", "strongest"} & set(report)
    assert "Hidden units" not in report["facts"]
    assert report["suspects"]["count"] > 0
    render_report(report)


def test_pairs_of_equal_labels_only(rng):
    x = rng.normal(size=(60, 3)).astype("float32")
    y = np.arange(60) // 30
    # Pairs that do not look at labels; a seed for which they are equal.
    for seed in range(20):
        layer = SampledDense(1, sampler="uniform", seed=seed)
        model = keras.Sequential([layer, keras.layers.Dense(2, activation="softmax")])
        swim_fit(model, x, y)
        if np.ptp(y[layer.pairs]) == 0:
            break
    report = findings(model, x, y)
    assert "closest" not in report
    (pair,) = report["strongest"]
    assert pair["a"]["label"] == pair["b"]["label"]
    render_report(report)


def test_two_classes_by_one_sigmoid():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)).astype("float32")
    y = (x[:, 0] + 0.3 * rng.normal(size=300) > 0).astype("float32")
    model = keras.Sequential(
        [
            SampledDense(20),
            LabeledDense(1, class_names=["ill"], activation="sigmoid"),
        ]
    )
    swim_fit(model, x[:200], y[:200])
    report = findings(model, x[:200], y[:200], validation_data=(x[200:], y[200:, None]))
    assert report["kind"] == "classes"
    assert report["confusion"]["classes"] == ["not ill", "ill"]
    assert np.sum(report["confusion"]["counts"]) == 100
    assert report["closest"][0]["a"]["label"] in ("not ill", "ill")
    render_report(report)


def test_many_classes_have_no_matrix(rng):
    x = rng.normal(size=(400, 5)).astype("float32")
    y = np.arange(400) % 40
    model = head(40, units=20)
    swim_fit(model, x, y)
    report = findings(model, x, y, validation_data=(x[:100], y[:100]))
    assert report["confusion"]["counts"] is None
    assert 0 < len(report["confusion"]["pairs"]) <= 20
    assert len(report["classes"]) == 40
    render_report(report)


@pytest.mark.parametrize("outputs", [1, 2])
def test_regression(outputs, rng):
    x = rng.uniform(-1, 1, size=(300, 2)).astype("float32")
    y = np.stack([x[:, 0] * x[:, 1], 1000 * x[:, 0]], axis=1)[:, :outputs]
    y = y.astype("float32")
    y[5, 0] += 3.0
    model = head(outputs, activation=None)
    history = swim_fit(model, x[:200], y[:200])
    report = findings(
        *(model, x[:200], y[:200]),
        validation_data=(x[200:], y[200:]),
        history=history,
        class_names=["price", "area"][:outputs],
    )
    assert is_plain(report)
    assert report["kind"] == "regression"
    assert len(report["regression"]) == outputs
    assert report["regression"][0]["true"] == pytest.approx(y[200:, 0].tolist())
    assert report["scores"]["r2"] > 0.8
    assert report["suspects"]["shown"][0]["name"].startswith("row 5")
    assert report["suspects"]["shown"][0]["suspicion"] > 3
    assert not {"confusion", "calibration", "classes"} & set(report)
    words = render_report(report)
    assert "Predicted against true" in words and "Where values change" in words
    held = findings(model, x[:200], y[:200], history=history)
    assert held["scores"]["r2"] == history.history["cv_r2"][0]
    assert held["scores"]["rmse"] == history.history["cv_loss"][0] ** 0.5
    render_report(held)


def test_a_selection_gives_the_curve_of_widths(fitted):
    _, _, x, y, validation = fitted
    selection = swim_select(
        *(head(10, units=64), x, y), rule="one_standard_error", seed=0, verbose=0
    )
    report = findings(
        selection.model, x, y, validation_data=validation, selection=selection
    )
    found, surface = report["widths"], selection.surface
    assert is_plain(found)
    assert found["widths"] == surface.widths.tolist()
    assert found["chosen"] == selection.width
    width, l2 = surface.choose("loss", "one_standard_error")
    assert found["values"][width] == surface.accuracy[width, l2]
    assert found["errors"][width] == surface.accuracy_error[width, l2]
    assert report["seconds"] == selection.seconds
    assert report["facts"]["Ridge (l2)"] == f"{selection.l2:.2g}"
    assert not report["notes"]
    held = findings(selection.model, x, y, selection=selection)
    assert held["scores"]["accuracy"] == selection.metrics["accuracy"]
    assert held["scores"]["source"] == "held-out"
    selection.method = "validation"
    report = findings(
        selection.model, x, y, validation_data=validation, selection=selection
    )
    assert "Width and ridge were chosen on validation rows" in report["notes"][0]
    render_report(report)


def test_fine_tuning_gives_a_curve_and_no_pairs(fitted):
    _, _, x, y, validation = fitted
    model = head(10)
    swim_fit(model, x, y)
    model.compile("adam", "sparse_categorical_crossentropy")
    tune = FineTune(x, y, validation, verbose=0)
    model.fit(x, y, epochs=2, callbacks=[tune], verbose=0)
    report = findings(model, x, y, validation_data=validation, tuning=tune)
    found = report["tuning"]
    assert is_plain(found)
    assert found["epochs"] == [0, 1, 2]
    assert found["values"][0] == tune.records[0]["accuracy"]
    assert found["resolved"][0] is None
    assert found["best"]["value"] == tune.best["accuracy"]
    assert report["scores"]["accuracy"] == pytest.approx(found["best"]["value"])
    assert not {"closest", "strongest"} & set(report)
    assert "The best epoch was chosen on validation rows" in report["notes"][0]
    assert "Fine-tuning" in render_report(report)


def test_whole_image_models_work_too():
    images = np.random.default_rng(0).integers(0, 256, size=(24, 20, 30, 3))
    images, labels = images.astype("uint8"), np.arange(24) % 2
    backbone = keras.Sequential(
        [keras.Input((16, 16, 3)), keras.layers.Conv2D(4, 3, strides=2)]
    )
    model = SwimHead(backbone, 2, units=8, image_size=16, class_names=["a", "b"])
    swim_fit(model, images, labels)
    report = findings(model, images, labels)
    assert len(report["strongest"]) == 8
    assert report["strongest"][0]["a"]["label"] in ("a", "b")
    assert report["suspects"]["rows"] == 24


def test_names_come_from_the_model_or_the_caller(fitted):
    model, _, x, y, validation = fitted
    names = [f"digit {i}" for i in range(10)]
    report = findings(model, x, y, validation_data=validation, class_names=names)
    assert report["confusion"]["classes"] == names
    assert report["closest"][0]["a"]["label"].startswith("digit ")
    with pytest.raises(ValueError, match="one name for each of the 10 outputs"):
        findings(model, x, y, class_names=["a", "b"])


def test_what_does_not_fit_is_refused(fitted):
    model, _, x, y, validation = fitted
    with pytest.raises(ValueError, match="one name for each row of the train data"):
        findings(model, x, y, names=["a"])
    with pytest.raises(ValueError, match="validation data, 200"):
        findings(model, x, y, validation_data=validation, validation_names=["a"])
    with pytest.raises(ValueError, match="arrays of inputs and of targets"):
        findings(model, x, None)
    with pytest.raises(ValueError, match="labels from 0 to 9"):
        findings(model, x, y + 5)
    several = head(3, activation="sigmoid")
    targets = (x[:, :3] > x[:, :3].mean(axis=0)).astype("float32")
    swim_fit(several, x[:, 3:], targets)
    with pytest.raises(ValueError, match="one label a row"):
        findings(several, x[:, 3:], targets)


def test_a_comparison_is_passed_on(fitted):
    model, _, x, y, _ = fitted
    rows = [{"method": "Adam", "accuracy": 0.9, "loss": 0.3, "seconds": 60.0}]
    assert findings(model, x, y, comparison=rows)["comparison"] == rows
    assert "comparison" not in findings(model, x, y, comparison=[])


def test_of_many_real_outputs_the_weakest_are_shown(rng):
    x = rng.normal(size=(120, 4)).astype("float32")
    y = np.repeat(x[:, :1], 8, axis=1)
    y += np.arange(8) * rng.normal(size=(120, 8))
    model = keras.Sequential([keras.layers.Dense(8)])
    swim_fit(model, x[:80], y[:80])
    report = findings(model, x[:80], y[:80], validation_data=(x[80:], y[80:]))
    names = [output["name"] for output in report["regression"]]
    assert len(names) == 6 and "output 1" not in names
    assert names == sorted(names)
    assert "Of 8 outputs the 6" in report["notes"][0]
    assert render_report(report).count("<h3>") == 6
