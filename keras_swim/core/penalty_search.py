"""The penalty of an orthogonal factorisation, from held-out rows.

Every penalty costs a triangular factorisation, so few are tried: from a start,
downhill, until neither neighbour is better.
"""

import numpy as np

# Exponents of ten of the relative penalty. In float64 the error hardly depends on it;
# in float32 the rounding of large coefficients does, steeply.
_EXPONENTS = {"float64": (-14, 2, -26, -2), "float32": (-9, 1, -13, -1)}
# A Gram matrix is no longer positive beyond these.
GRAM_EXPONENTS = (-12, 1, -13, -1)

# Of penalties whose errors differ by less, the largest: its coefficients are smaller,
# and round better.
_AS_GOOD = 1.05


def choose_penalty(coefficients, error, dtype="float64", exponents=None):
    """The relative penalty of least held-out error.

    Args:
        coefficients: Function from a penalty to a kernel and a bias.
        error: Function from both to a number: the error on held-out rows, computed in
            the dtype that will predict.
        dtype: That dtype's name.
        exponents: `None`, or where to start, the step, the lowest and the highest.

    Returns:
        The penalty and a dict with the error of each that was tried.

    Example:

    >>> found, tried = choose_penalty(
    ...     lambda l2: (np.log10(l2), 0.0), lambda kernel, bias: (kernel + 12) ** 2 + 1
    ... )
    >>> f"{found:.0e}"
    '1e-12'
    """
    start, step, lowest, highest = exponents or _EXPONENTS.get(
        dtype, _EXPONENTS["float32"]
    )
    tried: dict[int, float] = {}

    def at(exponent):
        if exponent not in tried:
            try:
                found = error(*coefficients(10.0**exponent))
            except np.linalg.LinAlgError:
                found = np.inf  # Too small for the Gram matrix: not to be chosen.
            tried[exponent] = found if np.isfinite(found) else np.inf
        return tried[exponent]

    best = start
    while at(best) == np.inf and best + step <= highest:
        best += step
    while True:
        near = [
            exponent
            for exponent in (best - step, best, best + step)
            if lowest <= exponent <= highest
        ]
        better = min(near, key=at)
        if at(better) >= at(best):
            break
        best = better
    good = [exponent for exponent in tried if tried[exponent] <= _AS_GOOD * at(best)]
    return 10.0 ** max(good), {10.0**key: value for key, value in tried.items()}
