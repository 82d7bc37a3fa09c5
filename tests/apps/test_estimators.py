"""SwimClassifier and SwimRegressor as scikit-learn's users know estimators."""

import pickle
import subprocess
import sys

import keras
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from keras_swim import SwimClassifier, SwimRegressor
from keras_swim.apps.table_input import read_columns

ESTIMATORS = (SwimClassifier, SwimRegressor)
QUICK = {"units": 30, "rounds": 5, "random_state": 0}


@parametrize_with_checks(
    [
        estimator(method=method, units=20, rounds=4)
        for estimator in ESTIMATORS
        for method in ("layer", "boost")
    ]
)
def test_all_of_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def mixed():
    """Numbers, categories, missing values; the label depends on two columns."""
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n).round(),
            "town": rng.choice(["Rome", "Oslo", "Lima"], n),
            "member": rng.random(n) > 0.5,
            "income": np.exp(rng.normal(size=n) * 2),
            "same": 1.0,
            "grade": pd.Categorical(rng.integers(0, 4, n)),
        }
    )
    y = np.where((frame.age > 40) ^ (frame.town == "Rome"), "yes", "no")
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    frame.loc[rng.random(n) < 0.1, "town"] = None
    return frame, y


def test_mixed_columns(mixed):
    frame, y = mixed
    model = SwimClassifier(random_state=0, rounds=40).fit(frame[:300], y[:300])
    assert model.score(frame[300:], y[300:]) > 0.8
    assert list(model.classes_) == ["no", "yes"]
    assert list(model.feature_names_in_) == list(frame.columns)
    chances = model.predict_proba(frame[300:])
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    logits = model.decision_function(frame[300:])
    assert np.array_equal(logits > 0, chances[:, 1] > 0.5)


def test_columns_may_come_in_another_order_and_with_others(mixed):
    frame, y = mixed
    model = SwimClassifier(**QUICK).fit(frame, y)
    other = frame[list(frame.columns)[::-1]].assign(more=1)
    np.testing.assert_allclose(model.predict_proba(other), model.predict_proba(frame))
    with pytest.raises(ValueError, match="lacks: 'town'"):
        model.predict(frame.drop(columns="town"))


def test_polars_gives_what_pandas_gives(mixed):
    frame, y = mixed
    frame = frame.assign(grade=frame.grade.astype(str))
    columns = {
        name: [None if pd.isna(value) else value for value in frame[name]]
        for name in frame
    }
    model = SwimClassifier(**QUICK).fit(frame, y)
    other = SwimClassifier(**QUICK).fit(pl.DataFrame(columns), y)
    assert list(other.feature_names_in_) == list(frame.columns)
    np.testing.assert_allclose(
        other.predict_proba(pl.DataFrame(columns)), model.predict_proba(frame)
    )


def test_what_was_not_seen_before(mixed):
    frame, y = mixed
    model = SwimClassifier(**QUICK).fit(frame, y)
    new = frame[:3].copy()
    new["town"] = ["Paris", None, "Rome"]
    new["grade"] = [9, 1, 2]
    new["income"] = [np.nan, 1e300, -5]
    assert np.isfinite(model.predict_proba(new)).all()
    new["age"] = ["40", "41.5", ""]
    assert np.isfinite(model.predict_proba(new)).all()
    new["age"] = ["forty", "41", "42"]
    with pytest.raises(ValueError, match=r"'age' had numbers.*'forty' in row 0"):
        model.predict(new)


def test_values_of_several_types_stay_apart():
    values = np.array([1, True, "1", 1.0, np.nan, None, "a", float("nan")], object)
    column = read_columns(values[:, None])[0]
    assert column.tolist() == ["1", "True", "1", "1", None, None, "a", None]
    # An array of floats makes new NaNs each time that one looks.
    numbers = read_columns(np.array([[2.0], [np.nan], [0.5], [np.nan]]), [0])[0]
    assert numbers.tolist() == ["2", None, "0.5", None]


def test_dates_are_refused_with_advice(mixed):
    frame, y = mixed
    days = pd.date_range("2020-01-01", periods=len(frame))
    with pytest.raises(ValueError, match=r"'day' holds dates.*weekday"):
        SwimClassifier(**QUICK).fit(frame.assign(day=days), y)
    dates = frame.assign(day=[day.date() for day in days])
    with pytest.raises(ValueError, match="'day' holds dates"):
        SwimClassifier(**QUICK).fit(dates, y)
    with pytest.raises(ValueError, match="holds dates"):
        SwimClassifier(**QUICK).fit(pl.DataFrame({"day": days.to_list()}), y)


@pytest.mark.parametrize("method", ["layer", "boost"])
def test_pipeline_grid_search_clone_pickle(method):
    x, y = load_iris(return_X_y=True)
    model = SwimClassifier(method=method, rounds=5, random_state=0)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), model),
        {"swimclassifier__units": [2, 60]},
        cv=3,
    ).fit(x, y)
    assert search.best_score_ > 0.93
    scores = search.cv_results_["mean_test_score"]
    assert method == "boost" or scores[0] != scores[1]
    small, large = (clone(model).set_params(units=units).fit(x, y) for units in (2, 60))
    assert np.abs(small.predict_proba(x) - large.predict_proba(x)).max() > 0.01
    again = pickle.loads(pickle.dumps(large))
    np.testing.assert_array_equal(again.predict_proba(x), large.predict_proba(x))
    assert cross_val_score(model, x, y, cv=3).mean() > 0.9


def test_class_weight():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = (x[:, 0] + rng.normal(size=400) > 1.5).astype(int)
    plain = SwimClassifier(method="layer", **QUICK).fit(x, y)
    weighted = clone(plain).set_params(class_weight="balanced").fit(x, y)
    assert weighted.predict(x).mean() > 2 * plain.predict(x).mean()
    by_hand = clone(plain).set_params(class_weight={0: 1.0, 1: 3.0}).fit(x, y)
    rows = clone(plain).fit(x, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(by_hand.predict_proba(x), rows.predict_proba(x))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_partial_fit_is_a_fit_of_all_rows_on_the_same_units(estimator):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(900, 3))
    y = x[:, 0] * x[:, 1]
    y = (y > 0).astype(int) if estimator is SwimClassifier else y
    first = {"classes": [0, 1]} if estimator is SwimClassifier else {}
    parts = estimator(units=80, random_state=0).partial_fit(x[:200], y[:200], **first)
    early = parts.score(x[700:], y[700:])
    for start in range(200, 700, 100):
        parts.partial_fit(x[start : start + 100], y[start : start + 100])
    assert parts.stream_.rows == 700
    assert parts.score(x[700:], y[700:]) > early
    two = estimator(units=80, random_state=0).partial_fit(x[:200], y[:200], **first)
    two.partial_fit(x[200:700], y[200:700])
    np.testing.assert_allclose(
        [state.system().gram for state in two.stream_.states],
        [state.system().gram for state in parts.stream_.states],
        rtol=1e-9,
        atol=1e-6,
    )
    assert not hasattr(estimator(method="boost"), "partial_fit")


def test_partial_fit_of_a_classifier_wants_its_classes():
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="classes"):
        SwimClassifier().partial_fit(x, y)
    model = SwimClassifier(units=20).partial_fit(x, y, classes=[0, 1, 2, 3])
    assert model.predict_proba(x).shape == (150, 4)
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(x[:2], [7, 8])
    with pytest.warns(UserWarning, match="begins anew"):
        model.fit(x, y).partial_fit(x, y)


@pytest.mark.parametrize("method", ["layer", "boost"])
def test_to_keras(mixed, method, tmp_path):
    frame, y = mixed
    model = SwimClassifier(method=method, **QUICK).fit(frame[:300], y[:300])
    new = frame[300:].copy()
    new.iloc[0, 1] = "Paris"
    columns = {
        name: np.array(
            ["" if pd.isna(value) else str(value) for value in new[name]], dtype=object
        ).reshape(-1, 1)
        if name in ("town", "grade")
        else new[name].to_numpy("float32").reshape(-1, 1)
        for name in new
    }
    columns = {name: keras.ops.convert_to_tensor(one) for name, one in columns.items()}
    network = model.to_keras()
    expected = model.predict_proba(new)
    np.testing.assert_allclose(network.predict(columns, verbose=0), expected, atol=1e-5)
    network.save(tmp_path / "table.keras")
    again = keras.models.load_model(tmp_path / "table.keras")
    np.testing.assert_allclose(again.predict(columns, verbose=0), expected, atol=1e-5)
    assert again.layers[-1].class_names == ["no", "yes"]


def test_to_keras_of_arrays_and_plain_columns():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3)).astype("float32")
    x[5, 1] = np.nan
    y = x[:, 0] * 50 + 7
    for options in ({}, {"preprocessing": None}):
        rows = x if not options else x[6:]
        model = SwimRegressor(**QUICK, **options).fit(rows, y[-len(rows) :])
        np.testing.assert_allclose(
            model.to_keras().predict(rows, verbose=0)[:, 0],
            model.predict(rows),
            rtol=1e-4,
            atol=1e-3,
        )


def test_preprocessing_can_be_switched_off():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 2)), rng.integers(0, 2, 100)
    model = SwimClassifier(preprocessing=None, **QUICK).fit(x, y)
    assert model.model_.columns is None
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match="categories in column 'a'"):
        SwimClassifier(preprocessing=None).fit(pd.DataFrame({"a": ["x", "y"]}), [0, 1])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"method": "trees"}, "`method` must be"),
        ({"units": 0}, "`units` must be an integer, 1 or more"),
        ({"bags": 1}, "`bags` must be an integer, 2 or more"),
        ({"preprocessing": "scale"}, "`preprocessing` must be"),
        ({"categorical_features": ["b"]}, "Received: 'b'; X has 'a'"),
    ],
)
def test_bad_arguments(options, message):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=message):
        SwimClassifier(**options).fit(frame, [0, 1, 0])


def test_plain_use_does_not_import_scikit_learn():
    # Keras itself imports scikit-learn where it finds it: here it finds none.
    code = """
import sys
sys.modules["sklearn"] = None
import keras_swim
try:
    keras_swim.SwimClassifier
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "pip install keras-swim[sklearn]" in done.stdout
