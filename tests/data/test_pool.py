"""The pool: the same uniform sample of rows, however the rows come."""

import tracemalloc

import numpy as np
import pytest

from keras_swim import SampledDense
from keras_swim.data.pool import draw_pool, pool_indices, pool_size
from keras_swim.data.sources import as_source


def numbered(rows):
    """Arrays whose entries say which row they belong to."""
    number = np.arange(rows)
    x = np.stack([number, -number], axis=1).astype("float64")
    return x, number % 7, number + 0.5


def stream(arrays, size):
    return lambda: (
        tuple(array[start : start + size] for array in arrays)
        for start in range(0, len(arrays[0]), size)
    )


def pool_of(source, size, seed=0):
    return draw_pool(source, size, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("units", "size"), [(1, 10_000), (2500, 10_000), (2501, 10_004)]
)
def test_pool_size(units, size):
    assert pool_size(units) == size


@pytest.mark.parametrize("rows", [300, 20, 19, 1])
@pytest.mark.parametrize("batch_size", [1, 7, 25, 300])
def test_streams_and_arrays_give_the_same_pool(rows, batch_size):
    arrays = numbered(rows)
    numbers, batch = pool_of(as_source(*arrays), 20)
    again, streamed = pool_of(as_source(stream(arrays, batch_size)), 20)
    np.testing.assert_array_equal(again, numbers)
    for ours, theirs in zip(streamed, batch, strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("streamed", [False, True])
def test_rows_belong_to_their_numbers(streamed):
    arrays = numbered(300)
    source = as_source(stream(arrays, 13)) if streamed else as_source(*arrays)
    numbers, batch = pool_of(source, 20)
    assert len(numbers) == 20
    assert (np.diff(numbers) > 0).all()
    for arrays_of_pool, array in zip(batch, arrays, strict=True):
        np.testing.assert_array_equal(arrays_of_pool[0], array[numbers])


@pytest.mark.parametrize("streamed", [False, True])
def test_a_pool_as_large_as_the_data_is_the_data(streamed):
    arrays = numbered(20)
    source = as_source(stream(arrays, 6)) if streamed else as_source(*arrays)
    for size in (20, 21):
        numbers, batch = pool_of(source, size)
        np.testing.assert_array_equal(numbers, np.arange(20))
        np.testing.assert_array_equal(batch.x[0], arrays[0])


def test_the_generator_goes_on_alike_whether_or_not_rows_were_left_out():
    # What is drawn after the pool must not depend on how the pool was read.
    arrays = numbered(50)
    drawn = set()
    for source in (as_source(*arrays), as_source(stream(arrays, 8))):
        for size in (10, 50):
            rng = np.random.default_rng(0)
            draw_pool(source, size, rng)
            drawn.add(rng.random())
    assert len(drawn) == 1


def test_every_row_is_equally_likely():
    counts = np.zeros(20)
    for seed in range(2000):
        counts[pool_indices(20, 5, np.random.default_rng(seed))] += 1
    # Binomial(2000, 1/4): standard deviation 19.4; 500 expected.
    assert counts.sum() == 10_000
    assert np.abs(counts - 500).max() < 5 * 19.4


def test_a_stream_is_never_kept_as_a_whole():
    batch = np.ones((500, 100), dtype="float32")
    source = as_source(lambda: (batch + i for i in range(200)))
    tracemalloc.start()
    numbers, _ = pool_of(source, 100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert numbers.max() > 50_000
    # 40 MB went by; the pool is 40 kB, a batch 0.2 MB.
    assert peak < 4e6


# Pools behind a layer.

ROWS = 12_000


@pytest.fixture(scope="module")
def long_data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 2)).astype("float32")
    return x, rng.integers(0, 4, size=ROWS)


def test_pairs_number_the_rows_of_the_whole_data(long_data):
    x, y = long_data
    layer = SampledDense(64, seed=0)
    layer.adapt(x, y)
    # Some pairs lie behind the first 10 000 rows.
    assert layer.pairs.max() >= 10_000
    assert (y[layer.pairs[:, 0]] != y[layer.pairs[:, 1]]).all()

    a = x[layer.pairs[:, 0]].astype("float64")
    b = x[layer.pairs[:, 1]].astype("float64")
    square = ((b - a) ** 2).sum(axis=1, keepdims=True)
    kernel = np.log(3) * (b - a) / square
    bias = -(kernel * a).sum(axis=1) - np.log(3) / 2
    np.testing.assert_allclose(layer.get_weights()[0], kernel.T, rtol=1e-5)
    # The bias belongs to the kernel as rounded: close pairs make it large.
    scale = 1 + np.abs(bias)
    np.testing.assert_allclose(layer.get_weights()[1] / scale, bias / scale, atol=1e-5)


@pytest.mark.parametrize("batch_size", [100, 1111, ROWS])
def test_streams_and_arrays_give_the_same_pairs(long_data, batch_size):
    layer, streamed = SampledDense(64, seed=0), SampledDense(64, seed=0)
    layer.adapt(*long_data)
    streamed.adapt(stream(long_data, batch_size))
    np.testing.assert_array_equal(streamed.pairs, layer.pairs)
    for ours, theirs in zip(streamed.get_weights(), layer.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_pairs_come_from_the_pool_only(long_data):
    layer = SampledDense(2500, sampler="uniform", seed=0)
    layer.adapt(*long_data)
    pool = pool_indices(ROWS, 10_000, layer.generator())
    assert np.isin(layer.pairs, pool).all()
    # The pool is no block of rows.
    assert pool.max() > 11_000


@pytest.mark.parametrize("streamed", [False, True])
def test_rows_of_weight_zero_take_no_place_in_the_pool(long_data, streamed):
    x, y = long_data
    weight = np.zeros(ROWS)
    # Ten rows make 45 pairs, some of one class.
    alive = np.arange(10) * 1000
    weight[alive] = 1.0
    layer = SampledDense(45, sampler="uniform", seed=0)
    if streamed:
        layer.adapt(stream((x, y, weight), 500))
    else:
        layer.adapt(x, y, weight)
    np.testing.assert_array_equal(np.unique(layer.pairs), alive)
