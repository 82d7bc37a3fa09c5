"""Operators: each architecture, its symmetries, other grids, files, bad input."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_swim import (
    GalileanFrame,
    PeriodicShift,
    RemoveMean,
    SampledDense,
    SwimOperator,
    swim_fit,
)
from keras_swim.build.operators import ARCHITECTURES, on_grid
from keras_swim.core.periodic_pde import burgers
from keras_swim.layers.canonical import Restore
from keras_swim.layers.operator_readout import OperatorReadout

POINTS = 64
BACKEND = keras.backend.backend()
# Each architecture on TensorFlow; elsewhere those that have all kinds of layers, on
# JAX, which compiles every model for seconds, one.
SOME = {
    "tensorflow": ARCHITECTURES,
    "torch": ("deeponet", "fno", "lifted"),
}.get(BACKEND, ("fno",))
# What does not depend on the backend is looked at once.
ONCE = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="the same on every backend, and slow"
)
ON_JAX = pytest.mark.skipif(BACKEND == "jax", reason="JAX computes in float32")


def initial(rows, points=POINTS, seed=0):
    rng = np.random.default_rng(seed)
    c = np.zeros((rows, points // 2 + 1), dtype=complex)
    c[:, :4] = rng.normal(size=(rows, 4)) + 1j * rng.normal(size=(rows, 4))
    c[:, 0] = c[:, 0].real
    c /= 3 * (1 + np.arange(c.shape[1])) ** 2
    return np.fft.irfft(c, points, norm="forward")


def solved(u0):
    return burgers(u0, time=0.5, viscosity=0.2, steps=50)


@pytest.fixture(scope="module")
def functions():
    """Burgers' equation: 500 pairs to fit, 100 to test."""
    u0 = initial(600)
    u1 = solved(u0)
    return u0[:500], u1[:500], u0[500:], u1[500:]


@pytest.fixture(params=["float32", pytest.param("float64", marks=ON_JAX)])
def dtype(request):
    before = keras.config.floatx()
    keras.config.set_floatx(request.param)
    yield request.param
    keras.config.set_floatx(before)


@pytest.fixture
def float64():
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx(before)


def frames():
    return [GalileanFrame(time=0.5), PeriodicShift()]


def fitted(functions, units=100, modes=8, **arguments):
    fit = {key: arguments.pop(key) for key in ("l2",) if key in arguments}
    model = SwimOperator(POINTS, units=units, modes=modes, seed=0, **arguments)
    history = swim_fit(model, *functions[:2], seed=0, verbose=0, **fit)
    return model, history.history


def symmetric(functions, architecture, **arguments):
    """A small operator with all symmetries."""
    arguments.update(symmetries=frames(), reflection="odd", units=40)
    return fitted(functions, architecture=architecture, **arguments)[0]


def error(model, u0, u1):
    wrong = np.linalg.norm(model.predict(u0, verbose=0) - u1, axis=1)
    return float(np.mean(wrong / np.linalg.norm(u1, axis=1)))


def apart(one, other):
    return np.linalg.norm(one - other) / np.linalg.norm(other)


def moved(u, angle):
    c = np.fft.rfft(u)
    waves = np.exp(1j * np.arange(c.shape[1]) * np.reshape(angle, (-1, 1)))
    return np.fft.irfft(c * waves, u.shape[1])


def mirrored(u):
    return -np.roll(u[:, ::-1], 1, axis=1)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_predicts_unseen_functions(functions, architecture):
    model, logs = fitted(functions, architecture=architecture)
    found = error(model, *functions[2:])
    persistence = np.linalg.norm(functions[2] - functions[3], axis=1)
    persistence = (persistence / np.linalg.norm(functions[3], axis=1)).mean()
    assert found < 0.15 * persistence
    # Held-out rows tell the error beforehand.
    assert 0.5 * found < logs["cv_relative_error"][0] < 2 * found
    sampled = [one for one in model.layers if isinstance(one, SampledDense)]
    assert sampled
    assert all(one.pairs is not None for one in sampled)


@pytest.mark.parametrize("architecture", SOME)
def test_a_prediction_does_not_depend_on_its_batch(functions, architecture):
    model, _ = fitted(functions, units=50, architecture=architecture, l2=1e-6)
    u = functions[2]
    alone = np.concatenate([np.asarray(_array(model(u[i : i + 1]))) for i in range(5)])
    together = _array(model(u))[:5]
    assert np.abs(alone - together).max() < 1e-5


@ONCE
def test_each_block_earns_its_place(functions):
    one, two, three = (
        error(fitted(functions, architecture="fno", blocks=b)[0], *functions[2:])
        for b in (1, 2, 3)
    )
    assert two < 0.8 * one
    assert three < two


@ONCE
def test_the_channels_of_a_lifted_operator_earn_theirs(functions):
    one, four = (
        error(
            fitted(functions, architecture="lifted", units=25 * c, channels=c)[0],
            *functions[2:],
        )
        for c in (1, 4)
    )
    assert four < one


@ONCE
def test_symmetries_are_worth_more_than_width(functions):
    plain = error(fitted(functions)[0], *functions[2:])
    wide = error(fitted(functions, units=200)[0], *functions[2:])
    shift = error(fitted(functions, symmetries=[PeriodicShift()])[0], *functions[2:])
    both = error(fitted(functions, symmetries=frames())[0], *functions[2:])
    mirror = error(
        fitted(functions, symmetries=frames(), reflection="odd")[0], *functions[2:]
    )
    assert wide < plain
    assert shift < 0.7 * plain
    assert both < 0.3 * min(shift, wide)
    assert mirror < 0.7 * both


@pytest.mark.parametrize("architecture", SOME)
def test_equivariance(functions, architecture, dtype):
    # A penalty that keeps coefficients small, so that rounding shows as what it is.
    model = symmetric(functions, architecture, l2=1e-4, dtype=dtype)
    tolerance = 1e-10 if dtype == "float64" else 1e-6
    if architecture == "lifted" and dtype == "float32":
        tolerance = 1e-5  # Units between neighbouring points are steep, and magnify.
    c = np.fft.rfft(functions[2][:40])
    c[20:, 1] = 0  # Functions without a first mode.
    u = np.fft.irfft(c, POINTS)
    angle = np.random.default_rng(1).uniform(-9, 9, size=len(u))
    before = model.predict(u, verbose=0)
    after = model.predict(moved(u, angle), verbose=0)
    assert apart(after, moved(before, angle)) < tolerance
    after = model.predict(mirrored(u), verbose=0)
    assert apart(after, mirrored(before)) < tolerance
    # Faster frames: the whole solution moves with the mean.
    after = model.predict(u + 0.3, verbose=0)
    expected = moved(before, np.full(len(u), -0.3 * 0.5)) + 0.3
    assert apart(after, expected) < tolerance


@ON_JAX
def test_float64_goes_where_float32_cannot(functions, float64, tmp_path):
    arguments = {
        "units": 250,
        "modes": 5,
        "output_modes": 20,
        "symmetries": frames(),
        "reflection": "odd",
        "power": -0.5,
    }
    model, _ = fitted(functions, **arguments)
    double = error(model, *functions[2:])
    keras.config.set_floatx("float32")
    arguments["symmetries"] = frames()
    single, _ = fitted(functions, **arguments)
    found = error(single, *functions[2:])
    assert double < 3e-5
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert error(loaded, *functions[2:]) == pytest.approx(double, rel=1e-2)
    assert double < found < 1e-3
    # The penalty was chosen for float32: in float64 the same weights do no better.
    keras.config.set_floatx("float64")
    arguments["symmetries"] = frames()
    exact = SwimOperator(POINTS, **arguments)
    exact.set_weights(single.get_weights())
    assert found < 1.5 * error(exact, *functions[2:])


@pytest.mark.parametrize("architecture", SOME)
def test_other_grids(functions, architecture):
    model, _ = fitted(functions, architecture=architecture)
    found = error(model, *functions[2:])
    for points in (40, 50, 256):
        u0 = initial(600, points)[500:]
        u1 = initial(600, 512)[500:]
        u1 = _on(solved(u1), points)
        other = on_grid(model, points)
        assert error(other, u0, u1) < 1.2 * found
        pairs = [one.pairs for one in other.layers if isinstance(one, SampledDense)]
        assert all(one is not None for one in pairs)


def _on(u, points):
    c = np.fft.rfft(u, norm="forward")
    return np.fft.irfft(c[:, : points // 2 + 1], points, norm="forward")


_LOAD = """
import json, sys
import numpy as np
import keras, keras_swim
model = keras.models.load_model(sys.argv[1])
print(json.dumps(model.predict(np.load(sys.argv[2]), verbose=0).tolist()))
"""


def test_a_saved_operator_is_the_same_in_a_new_process(functions, tmp_path):
    model, _ = fitted(
        functions, architecture="fno", symmetries=frames(), reflection="odd"
    )
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "u.npy", functions[2][:3])
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, tmp_path / "model.keras", tmp_path / "u.npy"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = np.array(json.loads(done.stdout.splitlines()[-1]))
    assert np.abs(found - model.predict(functions[2][:3], verbose=0)).max() < 1e-5


@pytest.mark.parametrize("architecture", SOME)
def test_every_architecture_is_saved(functions, architecture, tmp_path):
    model, _ = fitted(functions, units=40, architecture=architecture, reflection="odd")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    u = functions[2]
    assert np.array_equal(loaded.predict(u, verbose=0), model.predict(u, verbose=0))
    for one, other in zip(model.layers, loaded.layers, strict=True):
        if isinstance(one, SampledDense):
            assert np.array_equal(one.pairs, other.pairs)


@pytest.mark.parametrize("architecture", SOME)
def test_exported_operators_agree(functions, architecture, tmp_path):
    model = symmetric(functions, architecture, l2=1e-6)
    u = functions[2][:4].astype("float32")
    expected = model.predict(u, verbose=0)
    if BACKEND != "torch":
        tf = pytest.importorskip("tensorflow")
        model.export(tmp_path / "saved", verbose=False)
        served = tf.saved_model.load(str(tmp_path / "saved"))
        assert np.abs(np.asarray(served.serve(u)) - expected).max() < 1e-5
    if BACKEND != "jax":
        runtime = pytest.importorskip("onnxruntime")
        model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
        session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
        (found,) = session.run(None, {session.get_inputs()[0].name: u})
        assert np.abs(found - expected).max() < 1e-4


@pytest.mark.parametrize("architecture", ["fourier", "signal", "deeponet", "fno"])
def test_functions_of_two_variables(architecture):
    rng = np.random.default_rng(0)
    x = 2 * np.pi * np.arange(12) / 12
    first, second = x[:, None], x[None]
    a, b = rng.uniform(0, 6, size=(2, 300, 1, 1))
    size = rng.uniform(0.5, 1.5, size=(300, 1, 1))
    u0 = size * np.sin(first + a) * np.cos(second + b)
    u1 = u0**2 + 0.5 * u0
    model = SwimOperator(
        (12, 12),
        architecture,
        units=150,
        modes=3,
        output_modes=20 if architecture == "deeponet" else 4,
        scale=0.5,
        seed=0,
    )
    history = swim_fit(model, u0, u1, seed=0, verbose=0)
    assert history.history["cv_relative_error"][0] < 0.05
    assert model.predict(u0[:2], verbose=0).shape == (2, 12, 12)


def test_a_model_of_ones_own(functions):
    """Frames, sampled layers and readouts, without the builder."""
    frame = RemoveMean()
    inputs = keras.Input((POINTS,))
    hidden = SampledDense(60, scale=0.5, seed=0)(frame(inputs))
    first = OperatorReadout(POINTS)(hidden)
    skip = keras.layers.Add()([first, frame(inputs)])
    model = keras.Model(inputs, Restore(frame)([skip, inputs]))
    history = swim_fit(model, *functions[:2], seed=0, verbose=0)
    assert history.history["cv_r2"][0] > 0.95
    assert error(model, *functions[2:]) < 0.2


@ONCE
def test_weights_count_rows(functions):
    u0, u1 = functions[0][:60], functions[1][:60]
    weight = np.r_[np.ones(40), np.zeros(20)]
    models = [
        SwimOperator(POINTS, units=20, modes=4, sampler="random", scale=0.3, seed=0)
        for _ in range(2)
    ]
    swim_fit(models[0], u0, u1, sample_weight=weight, l2=1e-6, verbose=0)
    swim_fit(models[1], u0[:40], u1[:40], l2=1e-6, verbose=0)
    first, second = (model.predict(functions[2], verbose=0) for model in models)
    assert np.abs(first - second).max() < 1e-3


def test_compiled_metrics_and_validation_data(functions):
    model = SwimOperator(POINTS, units=40, modes=4, seed=0)
    model.compile(loss="mae")
    history = swim_fit(
        model, *functions[:2], validation_data=functions[2:], seed=0, verbose=0
    )
    logs = history.history
    expected = np.abs(model.predict(functions[2], verbose=0) - functions[3]).mean()
    assert logs["val_loss"][0] == pytest.approx(expected, rel=1e-4)
    assert logs["val_relative_error"][0] == pytest.approx(
        error(model, *functions[2:]), rel=1e-4
    )


def test_an_error_leaves_the_model_alone(functions):
    model, _ = fitted(functions, units=30)
    before = model.get_weights()
    u1 = functions[1].copy()
    u1[3, 4] = np.nan
    with pytest.raises(ValueError, match="finite"):
        swim_fit(model, functions[0], u1, verbose=0)
    for one, other in zip(before, model.get_weights(), strict=True):
        assert np.array_equal(one, other)


def test_bad_data(functions):
    model = SwimOperator(POINTS, units=30, modes=4, seed=0)
    u0, u1 = functions[0][:50], functions[1][:50]
    with pytest.raises(ValueError, match=r"on_grid|shape \(None, 64\)"):
        swim_fit(model, u0[:, :32], u1, verbose=0)
    with pytest.raises(ValueError, match=r"y\.shape"):
        swim_fit(model, u0, u1[:, :32], verbose=0)
    with pytest.raises((TypeError, ValueError), match=r"complex|real numbers"):
        swim_fit(model, np.fft.fft(u0), u1, verbose=0)
    with pytest.raises(ValueError, match="class_weight"):
        swim_fit(model, u0, u1, class_weight={0: 1.0}, verbose=0)
    with pytest.raises(ValueError, match="solver"):
        swim_fit(model, u0, u1, solver="dual", verbose=0)
    with pytest.raises(ValueError, match="two or more rows"):
        swim_fit(model, u0[:1], u1[:1], verbose=0)


@ONCE
def test_functions_that_are_not_periodic_are_noticed(functions):
    ramp = np.linspace(0, 1, POINTS) * np.random.default_rng(0).uniform(1, 2, (50, 1))
    model = SwimOperator(POINTS, units=20, modes=4, seed=0)
    with pytest.warns(UserWarning, match="periodic"):
        swim_fit(model, ramp, ramp, verbose=0)


@ONCE
def test_the_fast_solver_is_nearly_as_good(functions, float64):
    arguments = {"symmetries": frames(), "reflection": "odd", "seed": 0, "modes": 5}
    found = {}
    for solver in ("qr", "cholesky"):
        model = SwimOperator(POINTS, units=100, **arguments)
        history = swim_fit(model, *functions[:2], seed=0, solver=solver, verbose=0)
        found[solver] = error(model, *functions[2:])
        arguments["symmetries"] = frames()
        assert solver == "qr" or history.history["l2"][0] >= 1e-13
    assert found["qr"] < found["cholesky"] < 20 * found["qr"]
    same = [SwimOperator(POINTS, units=60, modes=5, seed=0) for _ in range(2)]
    for model, solver in zip(same, found, strict=True):
        swim_fit(model, *functions[:2], seed=0, solver=solver, l2=1e-6, verbose=0)
    one, other = (model.predict(functions[2], verbose=0) for model in same)
    assert np.abs(one - other).max() < 1e-8


@ONCE
def test_few_functions_for_many_units(functions):
    model = SwimOperator(POINTS, units=300, modes=4, seed=0)
    u0, u1 = functions[0][:20], functions[1][:20]
    with pytest.warns(UserWarning, match="20 functions"):
        history = swim_fit(model, u0, u1, seed=0, verbose=0)
    assert np.isfinite(history.history["cv_relative_error"][0])
    assert np.isfinite(model.predict(functions[2], verbose=0)).all()


@pytest.mark.parametrize("points", [50, 33])
def test_any_number_of_points(points):
    u0 = initial(200, 100)
    u1 = np.gradient(u0, axis=1)
    step = {50: 2, 33: 3}[points]
    u0, u1 = u0[:, : points * step : step], u1[:, : points * step : step]
    model = SwimOperator(points, units=60, modes=4, seed=0)
    history = swim_fit(model, u0, u1, seed=0, verbose=0)
    assert np.isfinite(history.history["loss"][0])


def test_bad_arguments():
    with pytest.raises(ValueError, match="architecture"):
        SwimOperator(32, "transformer")
    with pytest.raises(ValueError, match="16 modes"):
        SwimOperator(32, modes=17)
    with pytest.raises(ValueError, match="16 modes"):
        SwimOperator(32, modes=4, output_modes=20)
    with pytest.raises(ValueError, match="positive integer"):
        SwimOperator(32.5)
    with pytest.raises(ValueError, match="reflection"):
        SwimOperator(32, reflection="left")
    with pytest.raises(TypeError, match="Canonicalize"):
        SwimOperator(32, symmetries=["shift"])
    with pytest.raises(ValueError, match="dtype"):
        SwimOperator(32, dtype="float16")
    with pytest.raises(ValueError, match="variable"):
        on_grid(SwimOperator(32, units=4, modes=3), (8, 8))
    with pytest.raises(ValueError, match="has 10 modes"):
        on_grid(SwimOperator(64, units=4, modes=8, output_modes=16), 20)
    with pytest.raises(ValueError, match="channels=4"):
        SwimOperator(32, "lifted", units=2)
    with pytest.raises(ValueError, match="basis functions"):
        SwimOperator(32, "deeponet", output_modes=99)
    assert SwimOperator(8, "signal", units=4, modes=30).output_shape == (None, 8)
    if BACKEND == "jax":
        with pytest.raises(ValueError, match="TensorFlow or torch"):
            SwimOperator(32, dtype="float64")


def _array(tensor):
    return keras.ops.convert_to_numpy(tensor)
