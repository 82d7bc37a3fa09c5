"""Features on disk: reused, checked, and gone on from."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import keras
import numpy as np
import pytest

from keras_swim import SampledDense, swim_fit, swim_select
from keras_swim.core.readout import ReadoutState
from keras_swim.fit import cache, checkpoint, load


def network(seed=0, gain=1.0):
    keras.utils.set_random_seed(seed)
    frozen = keras.layers.Dense(32, activation="tanh", trainable=False)
    return keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Rescaling(gain),
            frozen,
            SampledDense(50),
            keras.layers.Dense(10, "softmax"),
        ]
    )


def stream(x, y, size=100):
    def batches():
        for start in range(0, len(x), size):
            yield x[start : start + size], y[start : start + size]

    return batches


def weights(model):
    return [keras.ops.convert_to_numpy(weight.value) for weight in model.weights]


def assert_same_model(first, second):
    for mine, theirs in zip(weights(first), weights(second), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.fixture
def runs(monkeypatch):
    """Number of rows that went through a prefix."""
    rows = []
    whole = load.feed

    def counted(graph, keys, arrays):
        if list(keys) == list(graph.inputs):
            rows.append(len(arrays[0]))
        return whole(graph, keys, arrays)

    monkeypatch.setattr(load, "feed", counted)
    return rows


def test_a_second_fit_does_not_run_the_frozen_layers(digits, tmp_path, runs):
    x, y = digits[:2]
    models = []
    for _ in range(2):
        model = network()
        swim_fit(model, stream(x, y), cache_dir=tmp_path / "cache", verbose=0)
        models.append(model)
    # All rows once, and four to see that the layers are the same.
    assert sum(runs) == len(x) + 4
    # No seed was given: the folder remembers the one that was drawn.
    assert_same_model(*models)


def test_arrays_and_other_batches_find_the_same_features(digits, tmp_path, runs):
    x, y = digits[:2]
    first, second, alone = network(), network(), network()
    swim_fit(first, x, y, cache_dir=tmp_path, seed=1, verbose=0)
    swim_fit(second, stream(x, y, 77), cache_dir=tmp_path, seed=1, verbose=0)
    assert sum(runs) == len(x) + 4
    swim_fit(alone, x, y, seed=1, verbose=0)
    assert_same_model(first, second)
    assert_same_model(first, alone)


def test_new_rows_at_the_end_are_added(digits, tmp_path, runs):
    x, y = digits[:2]
    swim_fit(network(), x[:500], y[:500], cache_dir=tmp_path, verbose=0)
    model = network()
    swim_fit(model, x, y, cache_dir=tmp_path, seed=2, verbose=0)
    assert sum(runs) == len(x) + 4
    alone = network()
    swim_fit(alone, x, y, seed=2, verbose=0)
    assert_same_model(model, alone)


def test_selection_uses_the_same_features(digits, tmp_path, runs):
    x, y, x_test, y_test = digits
    swim_fit(network(), x, y, cache_dir=tmp_path, verbose=0)
    for _ in range(2):
        swim_select(
            network(),
            x,
            y,
            validation_data=(x_test, y_test),
            cache_dir=tmp_path,
            verbose=0,
        )
    assert sum(runs) == len(x) + len(x_test) + 3 * 4


def test_other_data_is_refused(digits, tmp_path):
    x, y = digits[:2]
    swim_fit(network(), x, y, cache_dir=tmp_path, verbose=0)
    order = np.r_[0:600, 601:1200, 600]
    with pytest.raises(ValueError, match="Row 600 is not the row"):
        swim_fit(network(), x[order], y[order], cache_dir=tmp_path, verbose=0)
    with pytest.raises(ValueError, match="Received: 700 rows"):
        swim_fit(network(), x[:700], y[:700], cache_dir=tmp_path, verbose=0)


def test_other_layers_are_refused(digits, tmp_path):
    x, y = digits[:2]
    swim_fit(network(), x, y, cache_dir=tmp_path, verbose=0)
    with pytest.raises(ValueError, match="other frozen layers"):
        swim_fit(network(seed=1), x, y, cache_dir=tmp_path, verbose=0)
    # The same weights behind another preprocessing, if only slightly so.
    for gain in (3.0, 1.001):
        with pytest.raises(ValueError, match="other frozen layers"):
            swim_fit(network(gain=gain), x, y, cache_dir=tmp_path, verbose=0)


def test_layers_that_hide_their_settings_are_tried_out(digits, tmp_path):
    x, y = digits[:2]

    def model(gain):
        keras.utils.set_random_seed(0)
        inputs = keras.Input((64,))
        frozen = keras.layers.Dense(32, activation="tanh", trainable=False)
        hidden = SampledDense(50)(frozen(gain(inputs)))
        return keras.Model(inputs, keras.layers.Dense(10, "softmax")(hidden))

    swim_fit(model(lambda v: v * 1.0), x, y, cache_dir=tmp_path, verbose=0)
    with pytest.raises(ValueError, match=r"no longer give|other frozen layers"):
        swim_fit(model(lambda v: v * 3.0), x, y, cache_dir=tmp_path, verbose=0)


def test_other_folders_are_refused(digits, tmp_path):
    x, y = digits[:2]
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(ValueError, match="no feature cache"):
        swim_fit(network(), x, y, cache_dir=tmp_path, verbose=0)
    with pytest.raises(ValueError, match="must be a folder"):
        swim_fit(network(), x, y, cache_dir=tmp_path / "thesis.txt", verbose=0)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "cache.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        swim_fit(network(), x, y, cache_dir=tmp_path / "cache", verbose=0)
    swim_fit(network(), x, y, cache_dir=tmp_path / "good", verbose=0)
    next((tmp_path / "good" / "train").glob("rows-*")).unlink()
    swim_fit(network(), x, y, cache_dir=tmp_path / "good", verbose=0)


def test_interrupted_reading_goes_on(digits, tmp_path, runs):
    x, y = digits[:2]

    def stopped():
        yield from list(stream(x, y)())[:6]
        raise KeyboardInterrupt

    model = network()
    before = weights(model)
    with pytest.raises(KeyboardInterrupt):
        swim_fit(model, stopped, cache_dir=tmp_path, verbose=0)
    for mine, theirs in zip(weights(model), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert sum(runs) == 600
    swim_fit(model, stream(x, y), cache_dir=tmp_path, verbose=0)
    assert sum(runs) == len(x) + 4
    alone = network()
    seed = cache.Cache(tmp_path).seed()
    swim_fit(alone, stream(x, y), seed=seed, verbose=0)
    assert_same_model(model, alone)


@pytest.mark.parametrize("l2", ["auto", 1e-3])
def test_interrupted_sums_go_on(digits, tmp_path, monkeypatch, l2):
    x, y = digits[:2]
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)
    update = ReadoutState.update
    rows = []

    def counted(self, features, *args):
        rows.append(len(features))
        if len(rows) == stop:
            raise KeyboardInterrupt
        return update(self, features, *args)

    monkeypatch.setattr(ReadoutState, "update", counted)
    options = {"batch_size": 100, "l2": l2, "cache_dir": tmp_path, "verbose": 0}
    stop = 8
    model = network()
    with pytest.raises(KeyboardInterrupt):
        swim_fit(model, x, y, **options)
    assert (tmp_path / "sums.npz").exists()
    before = sum(rows)
    rows.clear()
    stop = -1
    swim_fit(model, x, y, **options)
    assert not (tmp_path / "sums.npz").exists()
    again = sum(rows)
    rows.clear()
    alone = network()
    seed = cache.Cache(tmp_path).seed()
    swim_fit(alone, x, y, seed=seed, l2=l2, batch_size=100, verbose=0)
    # Less than the whole was added up again.
    assert again < sum(rows) and before > 0
    for mine, theirs in zip(weights(model), weights(alone), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_sums_of_another_fit_are_not_used(digits, tmp_path, monkeypatch):
    x, y = digits[:2]
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint.Checkpoint, "remove", lambda self: None)
    swim_fit(network(), x, y, seed=0, batch_size=100, cache_dir=tmp_path, verbose=0)
    assert (tmp_path / "sums.npz").exists()
    model, alone = network(), network()
    other = (y + 1) % 10
    swim_fit(model, x, other, seed=0, batch_size=100, cache_dir=tmp_path, verbose=0)
    swim_fit(alone, x, other, seed=0, batch_size=100, verbose=0)
    assert_same_model(model, alone)


SCRIPT = """
import sys, time
import numpy as np, keras
from keras_swim import SampledDense, swim_fit

folder, slow, out = sys.argv[1], float(sys.argv[2]), sys.argv[3]
rng = np.random.default_rng(0)
x = rng.normal(size=(1500, 20)).astype("float32")
y = (x[:, 0] * x[:, 1] > 0).astype(int)
keras.utils.set_random_seed(0)
model = keras.Sequential([
    keras.Input((20,)),
    keras.layers.Dense(30, activation="tanh", trainable=False),
    SampledDense(60),
    keras.layers.Dense(2, activation="softmax"),
])

def batches():
    for start in range(0, 1500, 50):
        time.sleep(slow)
        yield x[start:start + 50], y[start:start + 50]

from keras_swim.fit import cache
cache._FILE_SECONDS = 0.2
print("begins", flush=True)
swim_fit(model, batches, cache_dir=folder, seed=3, verbose=0)
np.savez(out, *model.get_weights())
print("ends", flush=True)
"""


def test_a_killed_process_goes_on(tmp_path):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("files are the same on every backend")
    script = tmp_path / "fit.py"
    script.write_text(textwrap.dedent(SCRIPT))
    folder = tmp_path / "cache"

    def start(slow, out, where=folder):
        command = [sys.executable, script, where, str(slow), tmp_path / out]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    process = start(0.2, "never.npz")
    deadline = time.monotonic() + 120
    while len(list(folder.glob("train/rows-*.npz"))) < 3:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "never.npz").exists()
    known = cache.CachedRows(folder / "train").count
    assert 0 < known < 1500
    for out, where in (("again.npz", folder), ("alone.npz", tmp_path / "other")):
        process = start(0, out, where)
        assert b"ends" in process.communicate()[0]
    with (
        np.load(tmp_path / "again.npz") as mine,
        np.load(tmp_path / "alone.npz") as theirs,
    ):
        for name in mine.files:
            np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-5, atol=1e-6)
