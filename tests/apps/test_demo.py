"""The demo: what it says is so, and what it saves works."""

import builtins

import keras
import numpy as np
import pytest

from keras_swim.apps import demo
from keras_swim.apps.demo import draw, load_digits, run_demo
from keras_swim.layers.labeled_dense import class_names


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short demo: its results, its folder, and the lines that it said."""
    folder = tmp_path_factory.mktemp("demo") / "new"
    lines = []
    found = run_demo(folder, units=128, epochs=6, draws=2, say=lines.append)
    return found, folder, lines


def test_methods_are_compared(run):
    methods = run[0]["methods"]
    assert set(methods) == {
        "sampled head",
        "plain ridge",
        "random weights",
        "Adam",
        "sampled head on pixels",
    }
    for found in methods.values():
        assert 0.8 < found["accuracy"] <= 1
        assert 0 < found["log_loss"] < 1
        assert found["seconds"] > 0 and found["draws"] == 2
    by_pixels = methods["sampled head on pixels"]["accuracy"]
    assert methods["sampled head"]["accuracy"] > max(0.94, by_pixels)


def test_the_saved_model_takes_raw_images(run):
    found, folder, _ = run
    model = keras.models.load_model(folder / "model.keras")
    _, test = load_digits()
    chances = model.predict(test.x, verbose=0)
    accuracy = np.mean(chances.argmax(axis=1) == test.y)
    assert accuracy == pytest.approx(found["model"]["accuracy"], abs=0.003)
    assert found["model"]["reload_difference"] < 1e-5
    assert class_names(model) == [str(digit) for digit in range(10)]


def test_the_account_has_the_figures(run):
    found, folder, lines = run
    text = "\n".join(lines)
    assert f"{found['model']['accuracy']:.1%}" in text
    assert str(folder / "model.keras") in text
    for name, method in found["methods"].items():
        (line,) = [line for line in lines if line.startswith(f"{name}  ")]
        assert f"{method['accuracy']:.3f}" in line


def test_the_head_is_the_model_without_its_backbone():
    pool, test = load_digits()
    ((train, _),) = draw(len(pool.y), 60, 20, draws=1)
    few = demo.Rows(test.x[:50], test.y[:50])
    fitted = demo.fit_head(pool, few, train, units=32, say=lambda line: None)
    np.testing.assert_allclose(
        fitted.head.predict(fitted.test_features.x, verbose=0),
        fitted.model.predict(few.x, verbose=0),
        atol=1e-5,
    )
    assert len(fitted.pool_features.x) == len(pool.x)


def test_draws_and_test_images_are_apart():
    pool, test = load_digits()
    assert pool.x.dtype == "uint8" and pool.x.shape[1:] == (8, 8, 3)
    assert len(pool.y) + len(test.y) == 1797
    parts = draw(len(pool.y), 200, 100, draws=2)
    for train, validation in parts:
        assert len(train) == 200 and len(validation) == 100
        assert not set(train) & set(validation)
    assert set(parts[0][0]) != set(parts[1][0])


def test_bad_arguments(tmp_path):
    for options in ({"train": 0}, {"train": 800, "validation": 100}, {"draws": 0}):
        with pytest.raises(ValueError, match="together at most 897"):
            run_demo(tmp_path, **options)


def test_scikit_learn_is_asked_for(monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.startswith("sklearn"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"keras-swim\[demo\]"):
        load_digits()
