"""The constants put the promised part of each activation between two rows."""

import math

import numpy as np
import pytest
from scipy import special

from keras_swim.core.activations import CONSTANTS, constants_for

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def _softplus(z):
    return np.logaddexp(0.0, z)


FUNCTIONS = {
    "tanh": np.tanh,
    "sigmoid": special.expit,
    "sin": np.sin,
    "softsign": lambda z: z / (1 + np.abs(z)),
    "hard_tanh": lambda z: np.clip(z, -1.0, 1.0),
    "linear": lambda z: 1.0 * z,
    "relu": lambda z: np.maximum(z, 0.0),
    "relu6": lambda z: np.clip(z, 0.0, 6.0),
    "leaky_relu": lambda z: np.where(z > 0, z, 0.2 * z),
    "elu": lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0.0))),
    "selu": lambda z: (
        SELU_SCALE * np.where(z > 0, z, SELU_ALPHA * np.expm1(np.minimum(z, 0.0)))
    ),
    "gelu": lambda z: z * special.ndtr(z),
    "silu": lambda z: z * special.expit(z),
    "softplus": _softplus,
    "mish": lambda z: z * np.tanh(_softplus(z)),
}

SMOOTH = ("gelu", "silu", "softplus", "mish")


def _unit(name, place, constants=None):
    """The unit of (a, b) at a + place * (b - a)."""
    s1, s2 = (constants or constants_for(name))[:2]
    return FUNCTIONS[name](s1 * np.asarray(place, dtype=float) - s2)


def _distance_from_affine(name, constants=None):
    """How far the unit of (b, a) is from the best c0 + c1 * unit of (a, b)."""
    place = np.linspace(-4.0, 5.0, 901)
    there, back = _unit(name, place, constants), _unit(name, 1.0 - place, constants)
    basis = np.stack([np.ones_like(there), there], axis=1)
    best = basis @ np.linalg.lstsq(basis, back, rcond=None)[0]
    return np.abs(best - back).max() / np.abs(back).max()


def test_every_activation_of_the_table_is_tested_here():
    assert set(FUNCTIONS) == set(CONSTANTS)


@pytest.mark.parametrize(
    "name, at_a, half_way, at_b",
    [
        ("tanh", -0.5, 0.0, 0.5),
        ("sigmoid", 0.25, 0.5, 0.75),
        ("sin", -0.5, 0.0, 0.5),
        ("softsign", -0.5, 0.0, 0.5),
        ("hard_tanh", -0.5, 0.0, 0.5),
        ("linear", 0.0, 0.5, 1.0),
        ("relu", 0.0, 0.5, 1.0),
        ("relu6", 0.0, 0.5, 1.0),
        ("leaky_relu", 0.0, 0.5, 1.0),
        ("elu", 0.0, 0.5, 1.0),
        ("selu", 0.0, 0.5 * SELU_SCALE, SELU_SCALE),
    ],
)
def test_values_at_the_two_rows_and_half_way(name, at_a, half_way, at_b):
    values = _unit(name, [0.0, 0.5, 1.0])
    np.testing.assert_allclose(values, [at_a, half_way, at_b], atol=1e-14)


@pytest.mark.parametrize("name", ["relu", "relu6", "leaky_relu", "elu", "selu"])
def test_corner_lies_at_the_first_row(name):
    # elu has no corner in its slope, but in its curvature: linear from a on.
    after = _unit(name, [0.0, 0.3, 0.6, 0.9])
    np.testing.assert_allclose(np.diff(after, 2), 0.0, atol=1e-14)
    around = _unit(name, [-0.3, 0.0, 0.3])
    assert abs(np.diff(around, 2)[0]) > 0.01


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_rectifier_is_5_percent_from_its_asymptote_at_the_second_row(name):
    s1, s2 = constants_for(name)[:2]
    z = s1 - s2
    assert abs(_unit(name, 1.0) - z) / z == pytest.approx(0.05, abs=1e-12)


@pytest.mark.parametrize(
    "name, slope", [("gelu", 0.5), ("silu", 0.5), ("softplus", 0.5), ("mish", 0.6)]
)
def test_smooth_rectifier_bends_at_the_first_row(name, slope):
    s2 = constants_for(name).s2
    step = 1e-6
    found = (FUNCTIONS[name](-s2 + step) - FUNCTIONS[name](-s2 - step)) / (2 * step)
    assert found == pytest.approx(slope, abs=1e-8)


def test_closed_forms_of_the_docstring():
    assert constants_for("silu").s1 == pytest.approx(math.log(19), abs=1e-15)
    assert special.ndtr(constants_for("gelu").s1) == pytest.approx(0.95, abs=1e-14)


def test_sigmoid_unit_is_the_tanh_unit_up_to_an_affine_map():
    place = np.linspace(-3.0, 4.0, 50)
    np.testing.assert_allclose(
        _unit("sigmoid", place), (1 + _unit("tanh", place)) / 2, atol=1e-15
    )


@pytest.mark.parametrize("name", sorted(CONSTANTS))
def test_mirrored_says_whether_swapping_the_rows_gives_nothing_new(name):
    if constants_for(name).mirrored:
        assert _distance_from_affine(name) < 1e-12
    else:
        assert _distance_from_affine(name) > 1e-2


def _slope(name, z, step=1e-5):
    return (FUNCTIONS[name](z + step) - FUNCTIONS[name](z - step)) / (2 * step)


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "sin", "softsign"])
def test_slope_at_the_bend_is_two_thirds_of_the_largest(name):
    bend = constants_for(name).bend
    assert _slope(name, bend) == pytest.approx(2 / 3 * _slope(name, 0.0), rel=1e-4)


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_sigmoidal_activations_are_curved_most_at_the_bend(name):
    bend = constants_for(name).bend
    places = np.linspace(0.0, 5.0, 5001)
    curvature = np.diff(FUNCTIONS[name](places), 2)
    assert places[1:-1][np.argmin(curvature)] == pytest.approx(bend, abs=2e-3)


def test_only_what_is_centred_and_no_line_has_a_bend():
    for name, constants in CONSTANTS.items():
        assert (constants.bend > 0) == (constants.mirrored and name != "linear")


@pytest.mark.parametrize(
    "name, pair, mirrored",
    [
        ("tanh", (2.0, 1.0), True),
        ("tanh", (2.0, 0.9), False),
        ("sigmoid", (-2.0, -1.0), True),
        ("linear", (3.0, 0.2), True),
        ("relu", (2.0, 1.0), False),
        ("gelu", (2.0, 1.0), False),
    ],
)
def test_explicit_constants_keep_the_flag_honest(name, pair, mirrored):
    found = constants_for(name, pair)
    assert found[:3] == (*pair, mirrored)
    assert (_distance_from_affine(name, found) < 1e-12) == mirrored


def test_explicit_constants_serve_unknown_activations():
    assert constants_for("my_activation", [2, 1]) == (2.0, 1.0, False, 0.0)


def test_aliases():
    assert constants_for("swish") == constants_for("silu")
    assert constants_for("identity") == constants_for("linear")


def test_unknown_activation_is_named_with_what_to_do():
    with pytest.raises(ValueError, match=r"(?s)'wobble'.*constants=\(s1, s2\).*tanh"):
        constants_for("wobble")


@pytest.mark.parametrize("bad", [3.0, (1.0,), (1.0, 2.0, 3.0), ("a", "b"), (None, 0)])
def test_constants_that_are_no_pair_are_refused(bad):
    with pytest.raises(ValueError, match=r"(?s)pair of numbers \(s1, s2\).*Received"):
        constants_for("tanh", bad)


@pytest.mark.parametrize("bad", [(0.0, 1.0), (np.nan, 0.0), (1.0, np.inf)])
def test_constants_that_make_no_unit_are_refused(bad):
    with pytest.raises(ValueError, match=r"(?s)finite and s1 must not be 0.*Received"):
        constants_for("tanh", bad)
