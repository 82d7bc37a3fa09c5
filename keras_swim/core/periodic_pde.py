"""Periodic equations in one dimension, many starts at once.

`u_t = L u + N(u)`: the linear part is solved exactly, mode by mode, and the
nonlinear part by the fourth-order exponential Runge-Kutta method of Cox and
Matthews (ETDRK4), so that stiff terms do not limit the step. Its coefficients
cancel badly where `h L` is small; they are summed as series there.

Modes are those of `rfft(u, norm="forward")`, which do not depend on the number of
points, so that padding with zero modes needs no scaling.
"""

import math
import operator

import numpy as np

# Grid values worked on at once: few enough for the cache of a core, enough to
# make up for the cost of a call.
_BLOCK_ELEMENTS = 1 << 15
# Steps between two looks at whether the solution is still finite.
_CHECK_EVERY = 32
_MIN_POINTS = 8


def solve_periodic(
    u0,
    time,
    symbol,
    nonlinearity,
    steps,
    length=2 * math.pi,
    padding=1.5,
    snapshots=None,
    progress=None,
):
    """Solves `u_t = L u + N(u)` on a periodic interval, for each row of `u0`.

    The highest (Nyquist) mode has no sign of its own: odd derivatives vanish
    there, and the nonlinear term neither reads nor changes it.

    Args:
        u0: Real array of shape `(rows, points)`: each row a start, at
            `x_j = j * length / points`. The number of points is even.
        time: Time to solve for.
        symbol: Function from wavenumbers `k = 2 pi j / length`, `j = 0` to
            `points / 2`, to the factors by which `L` multiplies `exp(i k x)`:
            `lambda k: -k**2` for `u_xx`, `lambda k: (1j * k) ** 3` for `u_xxx`.
        nonlinearity: Function `(c, to_grid, to_modes, k)` from the modes `c` of
            some rows to the modes of `N(u)`, as a new array. `to_grid` gives
            values on the padded grid, `to_modes` goes back:
            `lambda c, to_grid, to_modes, k: -0.5j * k * to_modes(to_grid(c) ** 2)`
            for `-u u_x`.
        steps: Number of time steps.
        length: Length of the interval.
        padding: Points of the grid on which `N` is evaluated, for each point of
            `u0`. 1.5 makes quadratic terms free of aliasing, 2 cubic ones, 1 is
            the plain grid.
        snapshots: `None`, or how many states to return, equally spaced in time
            and ending at `time`. Must divide `steps`.
        progress: `None`, or a function `(done, total)`, called now and then with
            the number of steps done, summed over rows.

    Returns:
        Array `(rows, points)` of float64 at `time`, or `(rows, snapshots, points)`.

    Example:

    Heat: the wave `cos(x)` decays as `exp(-t)`.

    >>> x = 2 * np.pi * np.arange(16) / 16
    >>> u = solve_periodic(
    ...     np.cos(x)[None], 0.5, lambda k: -(k**2), lambda c, *_: 0 * c, steps=1
    ... )
    >>> bool(np.allclose(u, np.exp(-0.5) * np.cos(x)))
    True
    """
    u0 = _checked_start(u0)
    time = _number("time", time, positive=True)
    length = _number("length", length, positive=True)
    steps = _count("steps", steps)
    saved = 1 if snapshots is None else _count("snapshots", snapshots)
    if steps % saved:
        raise ValueError(
            "`snapshots` must divide `steps`. Received: "
            f"steps={steps}, snapshots={snapshots}. Use for example "
            f"steps={(steps // saved + 1) * saved}."
        )
    rows, points = u0.shape
    grid = 2 * math.ceil(points * _number("padding", padding, lowest=1) / 2)
    k = 2 * math.pi / length * np.arange(points // 2 + 1)
    step = _Step(_symbol_values(symbol, k), time / steps, nonlinearity, k, grid)

    result = np.empty((rows, saved, points))
    size = max(1, _BLOCK_ELEMENTS // grid)
    for start in range(0, rows, size):
        part = slice(start, min(start + size, rows))
        c = np.fft.rfft(u0[part], norm="forward")
        # A blow-up is told once, with advice, and not by warnings of NumPy.
        with np.errstate(over="ignore", invalid="ignore"):
            for number in range(1, steps + 1):
                c = step(c)
                save, left = divmod(number * saved, steps)
                if not left:
                    result[part, save - 1] = np.fft.irfft(c, points, norm="forward")
                if number % _CHECK_EVERY == 0 or number == steps:
                    _refuse_blow_up(c, start, number, steps, time)
                    if progress is not None:
                        done = start * steps + len(c) * number
                        progress(done, rows * steps)
    return result[:, 0] if snapshots is None else result


def burgers(u0, time=1.0, viscosity=0.1, steps=200, length=2 * math.pi, **options):
    """Solves `u_t + u u_x = viscosity u_xx`.

    Args:
        u0: Starts, of shape `(rows, points)`.
        time: Time to solve for.
        viscosity: Positive number.
        steps: Number of time steps.
        length: Length of the periodic interval.
        **options: `padding`, `snapshots`, `progress` of `solve_periodic`.

    Returns:
        Array `(rows, points)` at `time`, or `(rows, snapshots, points)`.

    Example:

    >>> x = 2 * np.pi * np.arange(64) / 64
    >>> u = burgers(1.0 + np.sin(x)[None], steps=50)
    >>> u.shape, round(float(u.mean()), 9)
    ((1, 64), 1.0)
    """
    viscosity = _number("viscosity", viscosity, positive=True)
    return solve_periodic(
        u0, time, lambda k: -viscosity * k**2, _advection(1.0), steps, length, **options
    )


def kdv(
    u0,
    time=1.0,
    nonlinear=6.0,
    dispersion=1.0,
    steps=1000,
    length=2 * math.pi,
    **options,
):
    """Solves the Korteweg-de Vries equation `u_t + a u u_x + b u_xxx = 0`.

    Args:
        u0: Starts, of shape `(rows, points)`.
        time: Time to solve for.
        nonlinear: The number `a`.
        dispersion: The number `b`.
        steps: Number of time steps.
        length: Length of the periodic interval.
        **options: `padding`, `snapshots`, `progress` of `solve_periodic`.

    Returns:
        Array `(rows, points)` at `time`, or `(rows, snapshots, points)`.

    Example:

    A soliton of height 1/2 moves with speed 1.

    >>> x = 40 * np.arange(128) / 128
    >>> start = 0.5 / np.cosh((x - 20) / 2) ** 2
    >>> u = kdv(start[None], time=5.0, steps=200, length=40.0)
    >>> bool(np.allclose(u[0], np.roll(start, 16), atol=1e-6))
    True
    """
    nonlinear = _number("nonlinear", nonlinear)
    dispersion = _number("dispersion", dispersion)
    return solve_periodic(
        u0,
        time,
        lambda k: 1j * dispersion * k**3,
        _advection(nonlinear),
        steps,
        length,
        **options,
    )


def kuramoto_sivashinsky(u0, time, length=22.0, steps=None, **options):
    """Solves `u_t + u u_x + u_xx + u_xxxx = 0`.

    Args:
        u0: Starts, of shape `(rows, points)`.
        time: Time to solve for.
        length: Length of the periodic interval. 22 is a common chaotic case.
        steps: Number of time steps. `None`: as few as make each at most 0.01 long,
            and a multiple of `snapshots`.
        **options: `padding`, `snapshots`, `progress` of `solve_periodic`.

    Returns:
        Array `(rows, points)` at `time`, or `(rows, snapshots, points)`.

    Example:

    >>> x = 22 * np.arange(64) / 64
    >>> u = kuramoto_sivashinsky(np.cos(2 * np.pi * x / 22)[None], 10.0, snapshots=5)
    >>> u.shape
    (1, 5, 64)
    """
    if steps is None:
        saved = options.get("snapshots")
        saved = 1 if saved is None else _count("snapshots", saved)
        steps = saved * math.ceil(_number("time", time, positive=True) / saved / 0.01)
    return solve_periodic(
        u0, time, lambda k: k**2 - k**4, _advection(1.0), steps, length, **options
    )


def _advection(factor):
    """`-factor u u_x`, as a derivative of the square."""

    def nonlinearity(c, to_grid, to_modes, k):
        return -0.5j * factor * k * to_modes(to_grid(c) ** 2)

    return nonlinearity


class _Step:
    """One step of ETDRK4, with the coefficients of Kassam and Trefethen."""

    def __init__(self, linear, h, nonlinearity, k, grid):
        z = h * linear
        with np.errstate(over="ignore", invalid="ignore"):
            phi1, phi2, phi3 = _phi(z)
            self.whole, self.half = np.exp(z), np.exp(z / 2)
            self.q = h / 2 * _phi(z / 2)[0]
            self.first = h * (phi1 - 3 * phi2 + 4 * phi3)
            self.middle = h * (2 * phi2 - 4 * phi3)
            self.last = h * (4 * phi3 - phi2)
        if not np.isfinite(self.whole + self.first + self.middle + self.last).all():
            raise ValueError(
                "The linear part must not grow beyond floating point in one step. "
                f"Received: a symbol of up to {linear.real.max():.3g} for steps of "
                f"{h:.3g}. Check its sign, or use more `steps`."
            )
        self.nonlinearity, self.k, self.grid = nonlinearity, k, grid

    def __call__(self, c):
        n_c = self._n(c)
        middle = self.half * c
        a = middle + self.q * n_c
        n_a = self._n(a)
        n_b = self._n(middle + self.q * n_a)
        n_d = self._n(self.half * a + self.q * (2 * n_b - n_c))
        c = self.whole * c + self.first * n_c + self.last * n_d
        return c + self.middle * (n_a + n_b)

    def _n(self, c):
        n = self.nonlinearity(c, self._to_grid, self._to_modes, self.k)
        if np.shape(n) != c.shape:
            raise ValueError(
                "`nonlinearity` must return modes of the shape that it is given, "
                f"{c.shape}. Received: {np.shape(n)}. Go back from the grid by "
                "`to_modes`."
            )
        return n

    def _to_grid(self, c):
        return np.fft.irfft(c[..., :-1], self.grid, norm="forward")

    def _to_modes(self, u):
        c = np.fft.rfft(u, norm="forward")[..., : len(self.k)]
        c[..., -1] = 0
        return c


def _phi(z):
    """`(e^z - 1) / z` and the next two: `phi_{j+1} = (phi_j - 1 / j!) / z`."""
    small = np.abs(z) < 2
    near, far = np.where(small, z, 0), np.where(small, 2, z)
    series3 = np.zeros_like(near)
    for j in range(32, 2, -1):
        series3 = series3 * near + 1 / math.factorial(j)
    series2 = 0.5 + near * series3
    phi1 = np.expm1(far) / far
    phi2 = (phi1 - 1) / far
    phi3 = (phi2 - 0.5) / far
    return (
        np.where(small, 1 + near * series2, phi1),
        np.where(small, series2, phi2),
        np.where(small, series3, phi3),
    )


def _symbol_values(symbol, k):
    values = np.asarray(symbol(k), dtype=np.complex128)
    if values.shape not in ((), k.shape) or not np.isfinite(values).all():
        raise ValueError(
            f"`symbol` must give {len(k)} finite numbers for {len(k)} wavenumbers. "
            f"Received: {values}. Write it with array operations, like "
            "`lambda k: -k**2`."
        )
    values = np.broadcast_to(values, k.shape).copy()
    if values[0].imag:
        raise ValueError(
            "`symbol` must be real at wavenumber 0, or real functions would not stay "
            f"real. Received: {values[0]}. Odd derivatives are odd powers of `1j * k`."
        )
    values[-1] = values[-1].real
    return values


def _refuse_blow_up(c, start, number, steps, time):
    finite = np.isfinite(c).all(axis=1)
    if not finite.all():
        raise FloatingPointError(
            f"The solution of row {start + int(np.argmin(finite))} must stay finite. "
            f"Received: infinity or NaN by time {time * number / steps:.4g} of "
            f"{time:.4g}, with steps={steps}. Use more `steps`, say {4 * steps}; if "
            "that does not help, this start has no bounded solution."
        )


def _checked_start(u0):
    u0 = np.asarray(u0)
    if u0.dtype.kind not in "fiub":
        raise ValueError(
            f"`u0` must be real numbers. Received: dtype {u0.dtype}. Solve for the "
            "real part, or transform modes back to the grid first."
        )
    if u0.ndim != 2:
        raise ValueError(
            "`u0` must have the shape (rows, points). Received: shape "
            f"{u0.shape}. A single start is `u0[None]`."
        )
    if u0.shape[1] % 2 or u0.shape[1] < _MIN_POINTS:
        raise ValueError(
            f"`u0` must have an even number of points, at least {_MIN_POINTS}. "
            f"Received: shape {u0.shape}. Sample the functions on such a grid, without "
            "its end, which is its beginning."
        )
    u0 = u0.astype(np.float64)
    finite = np.isfinite(u0).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"`u0` must be finite. Received: NaN or infinity in {(~finite).sum()} of "
            f"{len(u0)} rows, first in row {int(np.argmin(finite))}. Leave them out."
        )
    return u0


def _number(name, value, lowest=-math.inf, positive=False):
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < lowest or (positive and number <= 0):
        kind = "finite" if lowest == -math.inf else f"at least {lowest}"
        raise ValueError(
            f"`{name}` must be {'positive and finite' if positive else kind}. "
            f"Received: {value!r}. Pass such a number."
        )
    return number


def _count(name, value):
    # A fraction of a step is no count; it must not be rounded in silence.
    if not hasattr(value, "__index__") or operator.index(value) < 1:
        raise ValueError(
            f"`{name}` must be a whole number of at least 1. Received: {value!r}. "
            "Pass an integer."
        )
    return operator.index(value)
