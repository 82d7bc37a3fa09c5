"""The periodic solver against exact solutions, SciPy and symmetries."""

import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from keras_swim.core import periodic_pde
from keras_swim.core.periodic_pde import (
    burgers,
    kdv,
    kuramoto_sivashinsky,
    solve_periodic,
)

TAU = 2 * np.pi


def _grid(points, length=TAU):
    return length * np.arange(points) / points


def _starts(rows=3, points=64, modes=4, size=0.4, mean=0.0, seed=0):
    """Smooth random functions."""
    rng = np.random.default_rng(seed)
    c = rng.normal(size=(rows, modes + 1)) + 1j * rng.normal(size=(rows, modes + 1))
    c *= size / np.arange(1, modes + 2) ** 2
    c[:, 0] = mean
    return np.fft.irfft(c, points, norm="forward")


def _right_side(u, length, linear, power, factor):
    """`u_t` by full transforms: `linear(ik) u + factor d/dx u^power`, Galerkin."""
    n = u.shape[1]
    j = np.fft.fftfreq(n, 1 / n)
    k = 2j * np.pi * j / length
    c = np.fft.fft(u, axis=1)
    kept = np.abs(j) < n // 2
    # Twice the points: products of up to three modes do not fold back.
    wide = np.zeros((len(u), 2 * n), dtype=complex)
    wide[:, j[kept].astype(int)] = 2 * c[:, kept]
    product = np.fft.fft(np.fft.ifft(wide, axis=1).real ** power, axis=1) / 2
    term = np.zeros_like(c)
    term[:, kept] = product[:, j[kept].astype(int)]
    return np.fft.ifft(linear(k) * c + factor * k * term, axis=1).real


def _by_scipy(u0, time, length, linear, power=2, factor=-0.5):
    def side(_, u):
        return _right_side(u.reshape(u0.shape), length, linear, power, factor).ravel()

    solved = solve_ivp(
        side, (0, time), u0.ravel(), method="DOP853", rtol=1e-11, atol=1e-12
    )
    assert solved.success
    return solved.y[:, -1].reshape(u0.shape)


def _moved(u, distance, length=TAU):
    """`u(x - distance)` of each row; none of them has a Nyquist mode."""
    k = TAU / length * np.arange(u.shape[1] // 2 + 1)
    return np.fft.irfft(np.fft.rfft(u) * np.exp(-1j * k * distance), u.shape[1])


def test_burgers_agrees_with_scipy():
    u0 = _starts(size=0.6, mean=0.3)
    expected = _by_scipy(u0, 1.0, TAU, lambda ik: 0.1 * ik**2)
    assert np.abs(expected - u0).max() > 0.3
    np.testing.assert_allclose(burgers(u0), expected, rtol=0, atol=1e-8)


def test_kdv_agrees_with_scipy():
    u0 = _starts(points=128, mean=0.2)
    expected = _by_scipy(u0, 2.0, 40.0, lambda ik: -0.5 * ik**3, factor=-1.5)
    solved = kdv(u0, 2.0, nonlinear=3.0, dispersion=0.5, length=40.0, steps=1000)
    assert np.abs(expected - u0).max() > 0.1
    np.testing.assert_allclose(solved, expected, rtol=0, atol=1e-8)


def test_kuramoto_sivashinsky_agrees_with_scipy():
    u0 = _starts(points=32, size=1.0)
    expected = _by_scipy(u0, 3.0, 22.0, lambda ik: -(ik**2) - ik**4)
    assert np.abs(expected - u0).max() > 0.5
    solved = kuramoto_sivashinsky(u0, 3.0)
    np.testing.assert_allclose(solved, expected, rtol=0, atol=1e-8)


def test_own_cubic_equation_agrees_with_scipy():
    u0 = _starts(size=0.5, mean=0.1)
    solved = solve_periodic(
        u0,
        1.0,
        lambda k: -0.05 * k**2,
        lambda c, to_grid, to_modes, k: -1j * k * to_modes(to_grid(c) ** 3),
        steps=400,
        padding=2,
    )
    expected = _by_scipy(u0, 1.0, TAU, lambda ik: 0.05 * ik**2, 3, -1.0)
    np.testing.assert_allclose(solved, expected, rtol=0, atol=1e-8)


def test_soliton_keeps_its_shape():
    length, speed, time = 60.0, 1.5, 8.0
    x = _grid(192, length)

    def soliton(at):
        away = (x - at + length / 2) % length - length / 2
        return speed / 2 / np.cosh(np.sqrt(speed) / 2 * away) ** 2

    solved = kdv(soliton(20.0)[None], time, steps=1600, length=length)
    # The soliton on the whole line, folded: tails of about 1e-15.
    np.testing.assert_allclose(solved[0], soliton(20.0 + speed * time), atol=1e-8)


@pytest.mark.parametrize(
    "solve",
    [burgers, lambda u, steps: kdv(u, 0.4, length=20.0, steps=steps)],
    ids=["burgers", "kdv"],
)
def test_fourth_order_in_the_step(solve):
    u0 = _starts()
    exact = solve(u0, steps=1600)
    errors = [np.abs(solve(u0, steps=n) - exact).max() for n in (50, 100, 200)]
    ratios = np.divide(errors[:-1], errors[1:])
    assert np.all((13 < ratios) & (ratios < 19)), errors


def test_linear_part_is_exact_in_one_step():
    x = _grid(32)
    u0 = np.stack([1 + np.cos(3 * x), np.sin(2 * x)])
    solved = solve_periodic(
        u0, 0.7, lambda k: -0.2 * k**2 - 1.1j * k, lambda c, *_: 0 * c, steps=1
    )
    expected = np.stack(
        [
            1 + np.exp(-0.2 * 9 * 0.7) * np.cos(3 * (x - 0.77)),
            np.exp(-0.2 * 4 * 0.7) * np.sin(2 * (x - 0.77)),
        ]
    )
    np.testing.assert_allclose(solved, expected, atol=1e-14)


def test_nyquist_mode_only_decays():
    zigzag = np.cos(16 * _grid(32))[None]
    smooth = _starts(rows=1, points=32)
    for symbol, factor in (
        (lambda k: 1j * k**3, 1.0),
        (lambda k: -0.01 * k**2, np.exp(-0.01 * 16**2)),
    ):

        def solve(u0, symbol=symbol):
            return solve_periodic(u0, 1.0, symbol, periodic_pde._advection(1.0), 50)

        np.testing.assert_allclose(
            solve(smooth + zigzag), solve(smooth) + factor * zigzag, atol=1e-13
        )


def test_coefficients_are_accurate():
    nodes, weights = np.polynomial.legendre.leggauss(60)
    s, w = (nodes + 1) / 2, weights / 2
    size = np.array([0.0, 1e-12, 1e-5, 0.1, 1.0, 1.999, 2.0, 2.001, 5.0, 12.0])
    z = (size[:, None] * np.array([-1, 1j, -1j, 0.1 + 0.2j])).ravel()
    # phi_j is the integral of e^((1 - s) z) s^(j - 1) / (j - 1)!.
    kernel = w * np.exp((1 - s) * z[:, None])
    for found, power, factor in zip(
        periodic_pde._phi(z), (0, 1, 2), (1, 1, 0.5), strict=True
    ):
        np.testing.assert_allclose(
            found, factor * (kernel * s**power).sum(axis=1), rtol=1e-14, atol=1e-14
        )
    phi1, phi2, phi3 = periodic_pde._phi(np.array([-1e8]))
    np.testing.assert_allclose(
        [phi1, phi2, phi3], np.array([[1e-8], [1e-8 - 1e-16], [0.5e-8 - 1e-16]])
    )


EQUATIONS = {
    "burgers": (lambda u: burgers(u, 0.8, steps=100), TAU, 0.8),
    "kdv": (lambda u: kdv(u, 0.3, 1.0, 0.1, steps=200), TAU, 0.3),
    "kuramoto_sivashinsky": (
        lambda u: kuramoto_sivashinsky(u, 1.0, steps=200),
        22.0,
        1.0,
    ),
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_symmetries(name):
    solve, length, time = EQUATIONS[name]
    u0 = _starts()
    solved = solve(u0)
    np.testing.assert_allclose(
        solve(np.roll(u0, 5, axis=1)), np.roll(solved, 5, axis=1), atol=1e-13
    )
    np.testing.assert_allclose(
        solve(_moved(u0, 0.123, length)), _moved(solved, 0.123, length), atol=1e-12
    )
    # The step's error is not Galilean, the equation is.
    np.testing.assert_allclose(
        solve(u0 + 0.6), 0.6 + _moved(solved, 0.6 * time, length), atol=1e-7
    )
    if name != "kdv":
        mirrored = -np.roll(u0[:, ::-1], 1, axis=1)
        np.testing.assert_allclose(
            solve(mirrored), -np.roll(solved[:, ::-1], 1, axis=1), atol=1e-13
        )


def test_padding_removes_aliasing():
    u0 = _starts(points=16, modes=7, size=2.0)

    def solve(padding):
        return burgers(u0, 0.2, viscosity=0.01, steps=50, padding=padding)

    np.testing.assert_allclose(solve(1.5), solve(3), rtol=0, atol=1e-13)
    assert np.abs(solve(1) - solve(3)).max() > 1e-3


def test_rows_do_not_depend_on_their_block(monkeypatch):
    u0 = _starts(rows=7)
    together = burgers(u0, steps=20)
    monkeypatch.setattr(periodic_pde, "_BLOCK_ELEMENTS", 3 * 96)
    np.testing.assert_allclose(burgers(u0, steps=20), together, atol=1e-14)
    np.testing.assert_allclose(burgers(u0[4:5], steps=20), together[4:5], atol=1e-14)


def test_snapshots_lie_on_the_way():
    u0 = _starts()
    states = burgers(u0, 1.0, steps=40, snapshots=4)
    assert states.shape == (3, 4, 64)
    np.testing.assert_array_equal(states[:, -1], burgers(u0, 1.0, steps=40))
    np.testing.assert_allclose(
        states[:, 0], burgers(u0, 0.25, steps=10), rtol=0, atol=1e-14
    )
    with pytest.raises(ValueError, match=r"must divide.*Use for example steps=44"):
        burgers(u0, steps=42, snapshots=4)


def test_default_steps_fit_the_snapshots():
    u0 = _starts(rows=1, points=32)
    states = kuramoto_sivashinsky(u0, 0.5, snapshots=7)
    np.testing.assert_allclose(
        states[:, -1], kuramoto_sivashinsky(u0, 0.5), rtol=0, atol=1e-9
    )


def test_progress_counts_up(monkeypatch):
    monkeypatch.setattr(periodic_pde, "_BLOCK_ELEMENTS", 2 * 96)
    told = []
    burgers(_starts(rows=5), steps=50, progress=lambda *now: told.append(now))
    assert {total for _, total in told} == {250}
    done = [now for now, _ in told]
    assert done == sorted(set(done)) and done[0] > 0 and done[-1] == 250
    assert len(done) == 6


def test_input_is_kept_and_cast():
    u0 = _starts().astype(np.float32)
    kept = u0.copy()
    solved = burgers(u0, steps=20)
    np.testing.assert_array_equal(u0, kept)
    assert solved.dtype == np.float64
    np.testing.assert_array_equal(solved, burgers(u0.astype(np.float64), steps=20))
    assert burgers(np.empty((0, 16))).shape == (0, 16)
    assert burgers(np.ones((2, 16), dtype=int)).tolist() == [[1.0] * 16] * 2


@pytest.mark.parametrize(
    ("u0", "message"),
    [
        (np.zeros((2, 16), dtype=complex), "real numbers.*complex128"),
        (np.full((2, 16), "a"), "real numbers"),
        (np.zeros(16), r"shape \(rows, points\).*\(16,\).*u0\[None\]"),
        (np.zeros((2, 3, 16)), r"shape \(rows, points\)"),
        (np.zeros((2, 15)), r"even.*\(2, 15\)"),
        (np.zeros((2, 6)), "at least 8"),
        (np.where(np.eye(3, 16, -1), np.nan, 0), "finite.*2 of 3 rows.*row 1"),
        (np.where(np.eye(3, 16), np.inf, 0), "finite.*3 of 3"),
    ],
)
def test_bad_starts_are_refused(u0, message):
    with pytest.raises(ValueError, match=message):
        burgers(u0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "`steps`.*at least 1.*0"),
        ({"steps": 2.5}, "`steps`.*whole.*2.5"),
        ({"time": 0.0}, "`time`.*positive.*0.0"),
        ({"time": -1}, "`time`.*positive"),
        ({"time": np.nan}, "`time`.*positive and finite.*nan"),
        ({"time": None}, "`time`.*None"),
        ({"length": 0}, "`length`.*positive"),
        ({"viscosity": -0.1}, "`viscosity`.*positive"),
        ({"padding": 0.5}, "`padding`.*at least 1"),
        ({"snapshots": 0}, "`snapshots`"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        burgers(_starts(), **options)


def test_bad_functions_are_refused():
    u0 = _starts(points=16)

    def solve(symbol, nonlinearity=lambda c, *_: 0 * c, steps=1):
        return solve_periodic(u0, 1.0, symbol, nonlinearity, steps)

    with pytest.raises(ValueError, match="9 finite numbers for 9 wavenumbers"):
        solve(lambda k: k[1:])
    with pytest.raises(ValueError, match="finite numbers"):
        solve(lambda k: np.where(k > 3, np.nan, 0))
    with pytest.raises(ValueError, match=r"real at wavenumber 0.*1j"):
        solve(lambda k: 1j + k)
    with pytest.raises(ValueError, match=r"grow.*more `steps`"):
        solve(lambda k: 1e3 * k**2)
    with pytest.raises(ValueError, match=r"\(3, 9\).*\(3, 24\).*to_modes"):
        solve(lambda k: 0, lambda c, to_grid, to_modes, k: to_grid(c))


def test_blow_up_is_told_with_advice(monkeypatch):
    monkeypatch.setattr(periodic_pde, "_BLOCK_ELEMENTS", 2 * 96)
    u0 = _starts(rows=4)
    u0[2] *= 1e4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FloatingPointError, match=r"row 2 .*steps=40.*more `steps`"):
            burgers(u0, steps=40)
        # An equation that ends in finite time, however small the steps.
        with pytest.raises(FloatingPointError, match=r"by time 1\.\d* of 2"):
            solve_periodic(
                np.ones((1, 16)),
                2.0,
                lambda k: 0,
                lambda c, to_grid, to_modes, k: to_modes(to_grid(c) ** 2),
                steps=2000,
            )
