"""The two constants that place an activation between a pair of rows.

A unit built from rows `a` and `b` has the pre-activation `z(a) = -s2`,
`z(b) = s1 - s2` and is linear in between. The constants decide which part of
the activation lies between the two rows:

- **Sigmoidal** activations are centred: `z = 0` half way, and the activation
  covers half of its range. `tanh(ln(3) / 2) = 1/2`, so `s1 = ln 3`,
  `s2 = ln(3) / 2`. `sigmoid(z) = (1 + tanh(z / 2)) / 2`, so the same unit (up to
  an affine map) has twice these constants. `sin(pi / 6) = 1/2`.
  `softsign(1) = 1/2`.
- **Rectifiers with a corner** (relu, leaky_relu, elu, selu, relu6) have the
  corner at `a` and the value 1 at `b` (selu: its scale): `s1 = 1`, `s2 = 0`.
- **Smooth rectifiers** (softplus, gelu, silu, mish) have the middle of their
  bend, where the slope is half of its limit (mish: 0.6), at `a`, and have
  become linear at `b`: there they differ from their asymptote `z` by 5 % of
  it. gelu: `1 - Phi(z) = 0.05`. silu: `1 - sigmoid(z) = 0.05`, that is
  `z = ln 19`. softplus: `log(1 + exp(-z)) = 0.05 z`. mish:
  `1 - tanh(softplus(z)) = 0.05`.
- **linear**: 0 at `a`, 1 at `b`.

An activation is `mirrored` when the unit of `(b, a)` is, up to a constant, the
negative of the unit of `(a, b)`. Together with a bias behind them, the two
span the same space, so only one of them is worth having.

**Bends.** A centred unit is odd about the middle of its pair, and has no curvature
there. In many dimensions that is where almost all other rows lie (rows that are as far
from `a` as from `b` are projected to the middle), so a layer of such units is hardly
more than a linear map. Adding `bend` to the pre-activation puts the middle where the
slope has fallen to two thirds of its largest: for tanh and sigmoid exactly where they
are curved most, `tanh(bend)^2 = 1/3`. Rectifiers bend between the two rows anyway.
"""

import math
from typing import NamedTuple


class Constants(NamedTuple):
    """Where an activation lies between two rows.

    Attributes:
        s1, s2: The pre-activation is `-s2` at the first row, `s1 - s2` at the second.
        mirrored: Whether swapping the two rows gives nothing new.
        bend: How far from its centre the activation bends, 0 if it is not centred.
    """

    s1: float
    s2: float
    mirrored: bool = False
    bend: float = 0.0


_LN3 = math.log(3.0)
_TANH_BEND = math.atanh(math.sqrt(1 / 3))

CONSTANTS: dict[str, Constants] = {
    "tanh": Constants(_LN3, _LN3 / 2, mirrored=True, bend=_TANH_BEND),
    "sigmoid": Constants(2 * _LN3, _LN3, mirrored=True, bend=2 * _TANH_BEND),
    "sin": Constants(math.pi / 3, math.pi / 6, mirrored=True, bend=math.acos(2 / 3)),
    "softsign": Constants(2.0, 1.0, mirrored=True, bend=math.sqrt(1.5) - 1),
    "hard_tanh": Constants(1.0, 0.5, mirrored=True, bend=1.0),
    "linear": Constants(1.0, 0.0, mirrored=True),
    "relu": Constants(1.0, 0.0),
    "relu6": Constants(1.0, 0.0),
    "leaky_relu": Constants(1.0, 0.0),
    "elu": Constants(1.0, 0.0),
    "selu": Constants(1.0, 0.0),
    "gelu": Constants(1.6448536269514722, 0.0),
    "silu": Constants(math.log(19.0), 0.0),
    "softplus": Constants(2.1674872283351516, 0.0),
    "mish": Constants(1.6572748602272906, 0.0),
}

_ALIASES = {"swish": "silu", "identity": "linear"}


def constants_for(name, explicit=None):
    """Returns the `Constants` of an activation.

    Args:
        name: Name of the activation, for example `"tanh"`.
        explicit: `None`, or a pair `(s1, s2)` that replaces the table's. An
            activation that is not in the table needs it.

    Example:

    >>> constants_for("relu")
    Constants(s1=1.0, s2=0.0, mirrored=False, bend=0.0)
    """
    known = CONSTANTS.get(_ALIASES.get(name, name))
    if explicit is not None:
        try:
            s1, s2 = (float(value) for value in explicit)
        except (TypeError, ValueError):
            raise ValueError(
                "`constants` must be a pair of numbers (s1, s2): the "
                "pre-activation is -s2 at the first row of a pair and s1 - s2 "
                f"at the second. Received: constants={explicit!r}"
            ) from None
        if not (math.isfinite(s1) and math.isfinite(s2) and s1 != 0.0):
            raise ValueError(
                "`constants` must be finite and s1 must not be 0. "
                f"Received: constants={explicit!r}"
            )
        # Off-centre constants break the symmetry that makes twins equal;
        # only a linear unit has no centre.
        mirrored = bool(known and known.mirrored) and (
            known is CONSTANTS["linear"] or math.isclose(s1, 2 * s2)
        )
        bend = known.bend if known and mirrored else 0.0
        return Constants(s1, s2, mirrored, bend)
    if known is None:
        raise ValueError(
            f"No constants are known for the activation {name!r}. Pass "
            "`constants=(s1, s2)`: the pre-activation is -s2 at the first row "
            "of a pair and s1 - s2 at the second. Known activations: "
            f"{', '.join(sorted(CONSTANTS))}."
        )
    return known
