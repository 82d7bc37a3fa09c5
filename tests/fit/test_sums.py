"""Sums on the host and on the device, and rows that do not fit in memory."""

import keras
import numpy as np
import pytest

from keras_swim import SampledDense, swim_fit
from keras_swim.core.readout import ReadoutState
from keras_swim.fit import sums as sums_module
from keras_swim.fit.graph import trace
from keras_swim.fit.rows import ArrayRows, SpooledRows
from keras_swim.fit.segment import Segment
from keras_swim.fit.sums import DeviceSums, HostSums


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-10), ("float32", 1e-4)])
def test_device_equals_host(rng, dtype, tolerance):
    features = (5 + rng.normal(size=(300, 20))).astype("float32")
    targets, weight = rng.normal(size=(300, 3)), rng.random(300)
    group = rng.integers(-1, 2, size=300)
    found, scores = [], []
    for kind in (HostSums, DeviceSums):
        sums = kind(20, 3, folds=2, dtype=dtype)
        for start in range(0, 300, 70):
            part = slice(start, start + 70)
            tensor = keras.ops.convert_to_tensor(features[part])
            sums.update(tensor, targets[part], weight[part], group[part])
        scores.append(sums.scorer(0)(np.ones((20, 3)), np.arange(3.0)))
        found.append(
            [
                *sums.state_without(1).system()[:5],
                *sums.held_out(1),
                *sums.whole_state().system()[:5],
            ]
        )
    np.testing.assert_allclose(*scores, rtol=1e-5)
    for host, device in zip(*found, strict=True):
        np.testing.assert_allclose(
            host, device, rtol=tolerance, atol=tolerance * np.abs(host).max()
        )


@pytest.mark.parametrize("n, held", [(400, 0.3), (400, 1.0), (60, 1.0)])
def test_folds_leave_and_come_back(rng, n, held):
    features, targets = rng.normal(3, 1, size=(n, 40)), rng.normal(size=(n, 2))
    weight = rng.uniform(0.5, 2.0, size=n)
    group = np.where(rng.random(n) < held, np.arange(n) % 3, -1)
    sums = HostSums(40, 2, folds=3)
    for part in (slice(0, n // 2), slice(n // 2, n)):
        sums.update(features[part], targets[part], weight[part], group[part])
    for fold in (*range(3), None):
        here = group != fold
        alone = ReadoutState(40, 2)
        alone.update(features[here], targets[here], weight[here])
        found = sums.whole_state() if fold is None else sums.state_without(fold)
        assert found.count == alone.count
        for ours, wanted in zip(found.system(), alone.system(), strict=True):
            np.testing.assert_allclose(ours, wanted, rtol=1e-9, atol=1e-9)


def test_few_blocks_are_not_compiled(rng):
    inputs = keras.Input((5,))
    dense = keras.layers.Dense(7, "tanh")
    model = keras.Model(inputs, dense(inputs))
    graph = trace(model, [inputs], opens=lambda layer: False)
    x = rng.normal(size=(9, 5)).astype("float32")
    compiled, eager = (
        Segment(graph.steps, graph.inputs, graph.outputs, blocks).arrays([x])[0]
        for blocks in (None, 1)
    )
    np.testing.assert_allclose(compiled, eager, atol=1e-6)
    np.testing.assert_allclose(eager, model.predict(x, verbose=0), atol=1e-6)


def test_fit_on_the_device_equals_fit_on_the_host(digits, monkeypatch):
    x, y, x_test, _ = digits
    moved = []
    as_array = sums_module.as_array

    def watched(tensor):
        moved.append(tuple(tensor.shape))
        return as_array(tensor)

    monkeypatch.setattr(sums_module, "as_array", watched)
    found = []
    for device in ("host", "device"):
        moved.clear()
        model = keras.Sequential(
            [
                keras.Input((64,)),
                SampledDense(150, seed=0),
                keras.layers.Dense(10, activation="softmax"),
            ]
        )
        swim_fit(model, x, y, seed=0, sums_device=device, batch_size=400, verbose=0)
        found.append(model.predict(x_test, verbose=0))
    np.testing.assert_allclose(found[0], found[1], atol=2e-3)
    # Features (400 or fewer rows of 150) stay: sums, means and scores leave.
    assert moved and all(
        shape in ((150, 150), (150, 1), (1, 150), (10, 1), (1, 1)) or shape[-1] == 10
        for shape in moved
    )


def test_float32_sums_are_close(digits):
    x, y, x_test, _ = digits
    found = []
    for dtype in ("float64", "float32"):
        model = keras.Sequential(
            [SampledDense(200, seed=0), keras.layers.Dense(10, activation="softmax")]
        )
        swim_fit(model, x, y, l2=1e-3, seed=0, sums_dtype=dtype, verbose=0)
        found.append(model.predict(x_test, verbose=0))
    np.testing.assert_allclose(found[0], found[1], atol=1e-2)


@pytest.mark.parametrize("limit", [0, 4000, 1 << 20])
def test_spooled_rows_are_the_rows(rng, limit):
    x, y = rng.normal(size=(100, 5)).astype("float32"), np.arange(100)
    spooled, dense = SpooledRows(limit), ArrayRows([x, y])
    for start in (0, 7, 8, 60):
        stop = {0: 7, 7: 8, 8: 60, 60: 100}[start]
        spooled.append([x[start:stop], y[start:stop]])
    index = np.array([0, 6, 7, 8, 59, 60, 99])
    for mine, theirs in zip(spooled.take(index), dense.take(index), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for size in (1, 13, 100):
        pieces = zip(spooled.blocks(size), dense.blocks(size), strict=True)
        for (part, mine), (same, theirs) in pieces:
            assert part == same
            for first, second in zip(mine, theirs, strict=True):
                np.testing.assert_array_equal(first, second)
    spooled.close()


def test_stream_larger_than_memory_gives_the_same(digits, monkeypatch):
    x, y, *_ = digits
    monkeypatch.setattr("keras_swim.fit.load.SpooledRows", lambda: SpooledRows(1))

    def model():
        return keras.Sequential(
            [
                keras.Input((64,)),
                SampledDense(80, seed=0),
                keras.layers.Dense(10, activation="softmax"),
            ]
        )

    streamed, dense = model(), model()
    swim_fit(
        streamed,
        lambda: ((x[i : i + 50], y[i : i + 50]) for i in range(0, 1200, 50)),
        seed=0,
        verbose=0,
    )
    swim_fit(dense, x, y, seed=0, verbose=0)
    for first, second in zip(streamed.get_weights(), dense.get_weights(), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4)
