"""Canonical frames: exact inverses, and equal functions for equal orbits."""

import keras
import numpy as np
import pytest

from keras_swim import Canonicalize, GalileanFrame, PeriodicShift, RemoveMean
from keras_swim.layers.canonical import Restore, shifted
from keras_swim.layers.reflection import JoinParities, Reflect

POINTS = 32
# The dtype, and how far from exact it may be.
DTYPES = [("float32", 1e-6)]
if keras.backend.backend() != "jax":
    DTYPES.append(("float64", 1e-12))


def functions(rows=20, points=POINTS, modes=9, seed=0, without=()):
    """Smooth random functions, and a function that shifts them."""
    rng = np.random.default_rng(seed)
    c = np.zeros((rows, points // 2 + 1), dtype=complex)
    c[:, :modes] = rng.normal(size=(rows, modes)) + 1j * rng.normal(size=(rows, modes))
    c[:, 0] = c[:, 0].real
    c /= 1 + np.arange(c.shape[1]) ** 2
    c[:, list(without)] = 0
    return np.fft.irfft(c, points, norm="forward")


def moved(u, angle):
    """`u(x + angle)`, by an independent transform."""
    c = np.fft.rfft(u)
    waves = np.exp(1j * np.arange(c.shape[1]) * np.reshape(angle, (-1, 1)))
    return np.fft.irfft(c * waves, u.shape[1])


def mirrored(u, sign=-1.0):
    return sign * np.roll(u[:, ::-1], 1, axis=1)


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


def tensor(x, dtype):
    return keras.ops.convert_to_tensor(x, dtype=dtype)


FRAMES = {
    "mean": lambda dtype: RemoveMean(dtype=dtype),
    "shift": lambda dtype: PeriodicShift(dtype=dtype),
    "galilean": lambda dtype: GalileanFrame(time=0.7, dtype=dtype),
}


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("points", [32, 31])
def test_back_undoes_into_target(name, dtype, tolerance, points):
    frame = FRAMES[name](dtype)
    u, y = functions(points=points), functions(points=points, seed=1)
    # Rough functions too: nothing may be lost on the way.
    y = y + 0.1 * np.random.default_rng(2).normal(size=y.shape)
    u, y = tensor(u, dtype), tensor(y, dtype)
    again = frame.back(frame.into_target(y, u), u)
    assert np.abs(array(again) - array(y)).max() < 10 * tolerance


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("without", [(), (1,), (1, 2), (2,)])
def test_shifted_functions_have_the_same_frame(dtype, tolerance, without):
    u = functions(without=without)
    angle = np.random.default_rng(3).uniform(-9, 9, size=len(u))
    frame = PeriodicShift(dtype=dtype)
    one = array(frame(tensor(u, dtype)))
    other = array(frame(tensor(moved(u, angle), dtype)))
    assert np.linalg.norm(one - other) < tolerance * np.linalg.norm(one)
    # It is a shift: sizes of modes stay.
    sizes = [np.abs(np.fft.rfft(part)) for part in (u, one)]
    assert np.abs(sizes[0] - sizes[1]).max() < 100 * tolerance


def test_the_first_mode_gets_the_phase():
    u = functions()
    for phase in (-np.pi / 2, 0.0, 1.0):
        v = array(PeriodicShift(phase)(u))
        angles = np.angle(np.fft.rfft(v)[:, 1])
        assert np.abs(np.exp(1j * angles) - np.exp(1j * phase)).max() < 1e-5


@pytest.mark.parametrize("kind", ["odd", "even"])
@pytest.mark.parametrize("without", [(), (1,)])
def test_the_frame_of_a_mirror_image_is_the_mirror_image(kind, without):
    sign = {"odd": -1.0, "even": 1.0}[kind]
    frame = PeriodicShift(-np.pi / 2 if kind == "odd" else 0.0)
    u = functions(without=without)
    one = mirrored(array(frame(u)), sign)
    other = array(frame(mirrored(u, sign)))
    assert np.abs(one - other).max() < 1e-5


def test_two_variables():
    rng = np.random.default_rng(0)
    x = 2 * np.pi * np.arange(16) / 16
    u = np.zeros((5, 16, 16))
    for a in range(3):
        for b in range(3):
            phases = rng.uniform(0, 6, size=(5, 1, 1))
            u += rng.normal(size=(5, 1, 1)) * np.cos(
                a * x[:, None] + b * x[None] + phases
            )
    frame = PeriodicShift()
    one = array(frame(u))
    other = array(frame(np.roll(u, (3, 5), axis=(1, 2))))
    assert np.abs(one - other).max() < 1e-5
    assert np.abs(array(frame.back(frame(u), tensor(u, "float32"))) - u).max() < 1e-5


def test_a_constant_function_has_a_frame():
    u = np.full((2, 8), 3.0)
    assert np.allclose(array(PeriodicShift()(u)), u, atol=1e-6)


def test_the_galilean_frame_moves_with_the_mean():
    u = functions()
    mean = u.mean(axis=1, keepdims=True)
    frame = GalileanFrame(time=0.5, speed=2.0, length=4 * np.pi)
    assert np.abs(array(frame(u)) - (u - mean)).max() < 1e-6
    y = functions(seed=5)
    found = array(frame.into_target(tensor(y, "float32"), tensor(u, "float32")))
    expected = moved(y - mean, mean * 0.5 * 2.0 * 2 * np.pi / (4 * np.pi))
    assert np.abs(found - expected).max() < 1e-5


def test_shifting_keeps_the_highest_mode():
    u = functions(points=8, modes=4) + np.array([1, -1] * 4)
    found = array(shifted(tensor(u, "float32"), tensor([0.3] * len(u), "float32")))
    assert np.allclose(np.fft.rfft(found)[:, -1], np.fft.rfft(u)[:, -1], atol=1e-5)


@keras.saving.register_keras_serializable(package="tests")
def over_height(x, u):
    return x / keras.ops.max(keras.ops.abs(u), axis=1, keepdims=True)


@keras.saving.register_keras_serializable(package="tests")
def times_height(v, u):
    return v * keras.ops.max(keras.ops.abs(u), axis=1, keepdims=True)


def test_a_symmetry_of_ones_own(tmp_path):
    frame = Canonicalize(over_height, times_height)
    inputs = keras.Input((POINTS,))
    hidden = keras.layers.Dense(POINTS, activation="tanh")(frame(inputs))
    model = keras.Model(inputs, Restore(frame)([hidden, inputs]))
    u = functions()
    one = array(model(u))
    assert np.allclose(array(model(5 * u)), 5 * one, rtol=1e-4, atol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert np.array_equal(array(loaded(u)), one)


@keras.saving.register_keras_serializable(package="tests")
class TimesHeight(keras.layers.Layer):
    def call(self, v, u):
        return times_height(v, u)


def test_a_symmetry_may_be_made_of_layers():
    frame = Canonicalize(over_height, TimesHeight())
    again = Canonicalize.from_config(frame.get_config())
    u = tensor(functions(), "float32")
    assert np.allclose(array(again.back(again(u), u)), array(u), atol=1e-6)


def test_lambdas_are_refused_when_saved():
    frame = Canonicalize(lambda x, u: x, lambda v, u: v)
    with pytest.raises(ValueError, match="register_keras_serializable"):
        frame.get_config()


def test_bad_arguments():
    with pytest.raises(ValueError, match="needs `into` and `back`"):
        Canonicalize()
    with pytest.raises(TypeError, match="function or a layer"):
        Canonicalize(into=1, back=2)
    with pytest.raises(ValueError, match="length"):
        GalileanFrame(1.0, length=0)
    with pytest.raises(TypeError, match="Canonicalize"):
        Restore(keras.layers.Dense(2))
    with pytest.raises(ValueError, match="one variable"):
        frame = GalileanFrame(1.0)
        u = keras.ops.zeros((2, 4, 4))
        frame.back(u, u)
    with pytest.raises(ValueError, match='"odd"'):
        Reflect("left")


@pytest.mark.parametrize("kind", ["odd", "even"])
def test_parities_are_joined_and_taken_apart(kind):
    layer = JoinParities(kind)
    y = tensor(functions(), "float32")
    even, odd = layer.pull_back(y, [None, None])
    assert np.allclose(array(layer([even, odd])), array(y), atol=1e-6)
    sign = {"odd": -1.0, "even": 1.0}[kind]
    assert np.allclose(mirrored(array(even), sign), array(even), atol=1e-6)
    assert np.allclose(mirrored(array(odd), sign), -array(odd), atol=1e-6)
    again = JoinParities.from_config(layer.get_config())
    assert again.kind == kind
