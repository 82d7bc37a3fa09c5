"""Fourier modes, grids and bases as layers."""

import keras
import numpy as np
import pytest

from keras_swim.layers.spectral import (
    FromModes,
    Modes,
    OutputGrid,
    PODBasis,
    Resample,
)


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


def smooth(rows=6, points=24, modes=5, seed=0):
    rng = np.random.default_rng(seed)
    c = np.zeros((rows, points // 2 + 1), dtype=complex)
    c[:, :modes] = rng.normal(size=(rows, modes)) + 1j * rng.normal(size=(rows, modes))
    c[:, 0] = c[:, 0].real
    return np.fft.irfft(c, points, norm="forward")


@pytest.mark.parametrize("points", [16, 17])
def test_modes_are_those_of_the_fast_transform(points):
    u = np.random.default_rng(0).normal(size=(4, points))
    found = array(Modes(8)(u))
    c = np.fft.rfft(u, norm="forward")
    assert np.allclose(found[:, :8], c[:, :8].real, atol=1e-6)
    assert np.allclose(found[:, 8:], c[:, 1:8].imag, atol=1e-6)


def test_modes_of_two_variables_are_enough_to_come_back():
    rng = np.random.default_rng(0)
    u = rng.normal(size=(3, 5, 7))
    back = FromModes((3, 4), points=(5, 7))(Modes((3, 4))(u))
    assert np.allclose(array(back), u, atol=1e-5)


def test_power_weighs_modes():
    u = smooth()
    plain, weighed = array(Modes(4)(u)), array(Modes(4, power=-1.0)(u))
    expected = np.array([1, 2, 3, 4, 2, 3, 4.0])
    assert np.allclose(plain / weighed, expected, rtol=1e-4)


def test_the_same_modes_on_every_grid():
    coarse, fine = smooth(points=16), smooth(points=40)
    assert np.allclose(array(Modes(5)(coarse)), array(Modes(5)(fine)), atol=1e-6)


def test_from_modes_is_pulled_back():
    u = keras.ops.convert_to_tensor(smooth(), dtype="float32")
    layer = FromModes(6, points=24)
    (modes,) = layer.pull_back(u, [None])
    assert np.allclose(array(layer(modes)), array(u), atol=1e-5)


def test_resampling():
    assert np.allclose(
        array(Resample(40)(smooth(points=16))), smooth(points=40), atol=1e-5
    )
    assert np.allclose(
        array(OutputGrid(16)(smooth(points=40))), smooth(points=16), atol=1e-5
    )
    u = smooth()
    assert np.array_equal(array(Resample(24)(u)), u.astype("float32"))


def test_pod_is_the_singular_value_decomposition():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 12)) + rng.normal(size=12)
    layer = PODBasis(3, points=12)
    layer.adapt(y)
    (coefficients,) = layer.pull_back(layer.cast(y), [None])
    assert np.allclose(array(layer(coefficients)), y, atol=1e-4)
    basis = array(layer.basis)
    assert np.allclose(basis @ basis.T, np.eye(3), atol=1e-5)
    spread = array(coefficients).std(axis=0)
    assert (np.diff(spread) < 0).all()


def test_pod_of_weighted_rows_ignores_rows_without_weight():
    y = smooth(rows=20)
    weight = np.r_[np.ones(10), np.zeros(10)]
    one, other = PODBasis(2, points=24), PODBasis(2, points=24)
    one.adapt(y, weight)
    other.adapt(y[:10])
    assert np.allclose(array(one.mean), array(other.mean), atol=1e-6)


def test_configs_come_back():
    layers = [
        Modes((3, 4), power=0.5),
        FromModes(3, 8),
        Resample(9),
        PODBasis(2, 8, center=False),
    ]
    for layer in layers:
        again = type(layer).from_config(layer.get_config())
        assert again.get_config() == layer.get_config()


def test_bad_arguments():
    with pytest.raises(ValueError, match="8 modes"):
        Modes(9)(np.ones((1, 16)))
    with pytest.raises(ValueError, match="positive integer"):
        Modes(0)
    with pytest.raises(ValueError, match="one for each"):
        Modes((2, 2))(np.ones((1, 16)))
    with pytest.raises(ValueError, match=r"\(rows, points\)"):
        Modes(2)(np.ones((1, 4, 4, 4)))
    with pytest.raises(ValueError, match="no more basis"):
        PODBasis(9, points=8)
