"""SwimOperator: maps between functions on periodic grids, from sampled layers."""

import keras
import numpy as np

from keras_swim.layers.canonical import Canonicalize, Restore
from keras_swim.layers.operator_readout import OperatorReadout
from keras_swim.layers.reflection import SIGNS, JoinParities, Reflect
from keras_swim.layers.sampled_dense import SampledDense
from keras_swim.layers.spectral import (
    FromModes,
    GridCoordinate,
    Modes,
    OutputGrid,
    PODBasis,
    Resample,
    checked_modes,
    most_modes,
    sizes,
)

ARCHITECTURES = ("fourier", "signal", "deeponet", "fno", "lifted")

# Steepness of the units. Neighbouring functions differ little, so units between them
# are steep: flatter ones see more of the rows. Chosen on validation rows of Burgers'
# equation (benchmarks/operators.py).
_SCALES = {"fourier": 0.5, "signal": 1.0, "deeponet": 0.5, "fno": 0.5, "lifted": 0.5}
_FRAME_SCALE = 0.25
_BLOCK_SCALE = 0.1
# How much the prediction so far counts beside the input, in a block's distances.
_PREDICTION_WEIGHT = 2.0


def SwimOperator(
    points,
    architecture="fourier",
    units=1024,
    modes=None,
    *,
    output_modes=None,
    blocks=2,
    channels=4,
    symmetries=(),
    reflection=None,
    activation="tanh",
    scale=None,
    block_scale=None,
    power=0.0,
    sampler="gradient",
    seed=None,
    dtype=None,
    name="swim_operator",
):
    """Builds a network from functions to functions, for `swim_fit`.

    Functions are given by their values on a periodic grid. What the network sees of
    them and what it predicts is up to the architecture:

    - `"fourier"`: from the lowest Fourier modes to Fourier modes;
    - `"signal"`: from grid values to grid values;
    - `"deeponet"`: from Fourier modes to the coefficients of a basis taken from the
      outputs (POD-DeepONet);
    - `"fno"`: residual blocks of sampled layers on Fourier modes. Each sees the input
      and the prediction so far, and is fitted to what is still wrong;
    - `"lifted"`: the Fourier neural operator as it is usually drawn: each point is
      lifted to some channels (from its value and its coordinate), and a sampled
      network sees the modes of each channel.

    If the operator commutes with a symmetry, say so: it is worth more than any width.

    Args:
        points: Points of the grid: an integer, or two for functions of two variables.
        architecture: See above.
        units: Units of each sampled layer.
        modes: Fourier modes of the input on each axis, the mean included. Defaults to
            16, or to as many as the grid has. The architecture `"signal"` does not look
            at it.
        output_modes: Fourier modes of the output (for `"deeponet"`: basis functions).
            Defaults to twice `modes` (to 64), or to as many as the grid has.
        blocks: Blocks of the architecture `"fno"`, the first included.
        channels: Channels of the architecture `"lifted"`; they share the units.
        symmetries: List of `Canonicalize` layers, the outermost first:
            `[GalileanFrame(time=1.0), PeriodicShift()]`.
        reflection: `"odd"` if the operator commutes with `u -> -u(-x)`, `"even"` if it
            commutes with `u -> u(-x)`. It then does exactly.
        activation: Activation of the sampled layers.
        scale: Steepness of the units, see `SampledDense`. Defaults to what was best
            for Burgers' equation: 0.5 (1 for `"signal"`), 0.25 in a canonical frame.
        block_scale: The same for the blocks of `"fno"` behind the first. Defaults to
            0.1.
        power: Mode k of the input counts `(1 + k) ** power` in distances.
        sampler: See `SampledDense`.
        seed: Seed of the sampled layers.
        dtype: `"float32"` or `"float64"` (TensorFlow and torch). Errors below 1e-5
            need float64. Defaults to Keras' `floatx`; set that rather than this
            argument (`keras.config.set_floatx("float64")`), because `model.predict`
            rounds its inputs to it.
        name: Name of the model.

    Returns:
        A functional `keras.Model` from `(rows, *points)` to `(rows, *points)`. Fit it
        with `swim_fit(model, u0, u1)`.

    Example:

    Functions and their derivatives:

    >>> rng = np.random.default_rng(0)
    >>> x = 2 * np.pi * np.arange(32) / 32
    >>> shift = rng.uniform(0, 2 * np.pi, size=(300, 1))
    >>> u0, u1 = np.sin(x + shift), np.cos(x + shift)
    >>> model = SwimOperator(32, units=64, modes=4, seed=0)
    >>> history = swim_fit(model, u0, u1, verbose=0)
    >>> history.history["cv_relative_error"][0] < 1e-3
    True
    """
    points = sizes(points, "points")
    if architecture not in ARCHITECTURES:
        raise ValueError(
            f"`architecture` must be one of {', '.join(map(repr, ARCHITECTURES))}. "
            f"Received: architecture={architecture!r}"
        )
    if reflection is not None and reflection not in SIGNS:
        raise ValueError(
            '`reflection` must be None, "odd" (-u(-x)) or "even" (u(-x)). Received: '
            f"reflection={reflection!r}"
        )
    symmetries = _checked_symmetries(symmetries)
    if modes is None or architecture == "signal":
        modes = tuple(min(16, most_modes(axis)) for axis in points)
    modes = checked_modes("modes", modes, points)
    if architecture == "lifted" and np.ndim(units) == 0 and units < channels:
        raise ValueError(
            "The channels of a lifted operator share its units: `units` must be "
            f"`channels` or more. Received: units={units!r}, channels={channels!r}"
        )
    (blocks,), (channels,) = sizes(blocks, "blocks"), sizes(channels, "channels")
    if scale is None:
        in_frame = symmetries and architecture != "signal"
        scale = _FRAME_SCALE if in_frame else _SCALES[architecture]
    dtype = dtype or keras.config.floatx()
    _check_dtype(dtype)
    parts = _Parts(
        points=points,
        modes=modes,
        output_modes=_output_modes(output_modes, modes, points, architecture),
        units=units,
        channels=channels,
        architecture=architecture,
        reflection=reflection,
        power=power,
        dtype=dtype,
        sampled=dict(activation=activation, sampler=sampler, seed=seed, dtype=dtype),
    )
    inputs = keras.Input(points, dtype=dtype, name="inputs")
    x, before = inputs, []
    for frame in symmetries:
        if frame.compute_dtype != dtype:
            # It was made without knowing of the operator's dtype, and would round.
            frame.dtype_policy = keras.DTypePolicy(dtype)
        before.append(x)
        x = frame(x)
    prediction = parts.block(x, None, scale, 1)
    block_scale = _BLOCK_SCALE if block_scale is None else block_scale
    for number in range(2, blocks + 1 if architecture == "fno" else 2):
        rest = parts.block(x, prediction, block_scale, number)
        prediction = keras.layers.Add(name=f"prediction_{number}", dtype=dtype)(
            [prediction, rest]
        )
    for number, (frame, u) in enumerate(
        zip(reversed(symmetries), reversed(before), strict=True), start=1
    ):
        name_back = f"restore_{len(symmetries) + 1 - number}"
        prediction = Restore(frame, name=name_back, dtype=dtype)([prediction, u])
    return keras.Model(inputs, prediction, name=name)


def on_grid(model, points):
    """The same operator for functions on another grid.

    Fourier modes mean the same on every grid, and what needs the grid of the training
    data is interpolated.

    Args:
        model: Fitted model of `SwimOperator`, also a loaded one.
        points: Points of the new grid; it must resolve the model's modes, those of the
            output included.

    Returns:
        A new model with a copy of the weights.

    Example:

    >>> coarse = SwimOperator(32, units=16, modes=4, seed=0)
    >>> on_grid(coarse, 64).output_shape
    (None, 64)
    """
    points = sizes(points, "points")
    old = tuple(model.input_shape[1:])
    if len(points) != len(old):
        raise ValueError(
            f"The model's functions have {len(old)} variable(s). Received: "
            f"points={points}"
        )
    for layer in model.layers:
        if isinstance(layer, (Modes, FromModes)):
            checked_modes("modes", layer.modes, points)
    config = model.get_config()
    for layer in config["layers"]:
        # Or layers would be built for the old grid before they are called on the new.
        layer.pop("build_config", None)
        own = layer["config"]
        if layer["class_name"] == "InputLayer":
            own["batch_shape"] = (None, *points)
        elif layer["class_name"] in ("FromModes", "OutputGrid"):
            own["points"] = points
    moved = keras.Model.from_config(config)
    moved.set_weights(model.get_weights())
    for layer in moved.layers:
        if isinstance(layer, SampledDense):
            layer._pairs = model.get_layer(layer.name).pairs
    return moved


class _Parts:
    """What all blocks of an operator have in common."""

    def __init__(self, **settings):
        self.__dict__.update(settings)
        self._made = {}

    def block(self, x, prediction, scale, number):
        """From the input (and the prediction so far) to a function on the grid."""
        units = self._units(scale, number)
        features = units(self._seen(x, prediction))
        if self.reflection is None:
            return self._readout(features, f"block_{number}", True)
        mirror = Reflect(self.reflection, name=f"mirror_{number}", dtype=self.dtype)
        seen = None if prediction is None else mirror(prediction)
        mirrored = units(self._seen(mirror(x), seen))
        pair = [features, mirrored]
        even = keras.layers.Add(name=f"even_units_{number}", dtype=self.dtype)(pair)
        odd = keras.layers.Subtract(name=f"odd_units_{number}", dtype=self.dtype)(pair)
        return JoinParities(
            self.reflection, name=f"parities_{number}", dtype=self.dtype
        )(
            [
                self._readout(even, f"block_{number}_even", True),
                # What changes its sign has no constant part.
                self._readout(odd, f"block_{number}_odd", False),
            ]
        )

    def _seen(self, x, prediction):
        """The numbers that sampled layers see."""
        if self.architecture == "lifted":
            return self._lifted(x)
        if self.architecture == "signal":
            x = self._shared("training_grid", Resample, self.points)(x)
            return keras.layers.Flatten(dtype=self.dtype)(x)
        modes = self._shared("modes", Modes, self.modes, power=self.power)(x)
        if prediction is None:
            return modes
        seen = self._shared("prediction_modes", Modes, self.modes)(prediction)
        weigh = self._shared("weigh", keras.layers.Rescaling, _PREDICTION_WEIGHT)
        return keras.layers.Concatenate(dtype=self.dtype)([modes, weigh(seen)])

    def _lifted(self, x):
        x = self._shared("coordinate", GridCoordinate)(x)
        x = self._shared("lift", SampledDense, self.channels, **self.sampled)(x)
        return [
            self._shared(f"channel_{c + 1}_modes", Modes, self.modes)(x[..., c])
            for c in range(self.channels)
        ]

    def _units(self, scale, number):
        """Function from what is seen to features."""
        if self.architecture != "lifted":
            return SampledDense(
                self.units, scale=scale, name=f"sampled_{number}", **self.sampled
            )
        each = [len(part) for part in np.array_split(range(self.units), self.channels)]
        layers = [
            SampledDense(
                count, scale=scale, name=f"sampled_channel_{c}", **self.sampled
            )
            for c, count in enumerate(each, start=1)
        ]
        join = keras.layers.Concatenate(name="channels", dtype=self.dtype)

        def units(seen):
            parts = [layer(part) for layer, part in zip(layers, seen, strict=True)]
            return join(parts) if len(parts) > 1 else parts[0]

        return units

    def _readout(self, features, name, bias):
        """From features to a function on the grid."""

        def dense(outputs):
            return OperatorReadout(
                int(outputs), use_bias=bias, name=name, dtype=self.dtype
            )(features)

        if self.architecture in ("signal", "deeponet"):
            if self.architecture == "signal":
                values = keras.layers.Reshape(
                    self.points, name=f"{name}_values", dtype=self.dtype
                )(dense(np.prod(self.points)))
            else:
                basis = PODBasis(
                    self.output_modes[0],
                    self.points,
                    center=bias,
                    name=f"{name}_basis",
                    dtype=self.dtype,
                )
                values = basis(dense(self.output_modes[0]))
            return OutputGrid(self.points, name=f"{name}_grid", dtype=self.dtype)(
                values
            )
        grid = FromModes(
            self.output_modes, self.points, name=f"{name}_grid", dtype=self.dtype
        )
        return grid(dense(np.prod([2 * count - 1 for count in grid.modes])))

    def _shared(self, name, layer, *args, **kwargs):
        """One layer of a name, however often it is used."""
        if name not in self._made:
            kwargs = {"dtype": self.dtype, **kwargs, "name": name}
            self._made[name] = layer(*args, **kwargs)
        return self._made[name]


def _checked_symmetries(symmetries):
    if symmetries is None or isinstance(symmetries, Canonicalize):
        symmetries = [] if symmetries is None else [symmetries]
    if isinstance(symmetries, str):
        symmetries = [symmetries]
    for frame in symmetries:
        if not isinstance(frame, Canonicalize):
            raise TypeError(
                "`symmetries` must be a list of `Canonicalize` layers, for example "
                f"[PeriodicShift()]. Received: {frame!r}"
            )
    return list(symmetries)


def _output_modes(output_modes, modes, points, architecture):
    if architecture == "deeponet":
        most = int(np.prod(points))
        found = sizes(
            min(64, most) if output_modes is None else output_modes, "output_modes"
        )
        if len(found) > 1 or found[0] > most:
            raise ValueError(
                "`output_modes` of a DeepONet is its number of basis functions, at "
                f"most {most} here. Received: output_modes={output_modes!r}"
            )
        return found
    if output_modes is None:
        return tuple(
            min(2 * count, most_modes(axis))
            for count, axis in zip(modes, points, strict=True)
        )
    return checked_modes("output_modes", output_modes, points)


def _check_dtype(dtype):
    if dtype not in ("float32", "float64"):
        raise ValueError(
            f'`dtype` must be "float32" or "float64". Received: dtype={dtype!r}'
        )
    if dtype == "float64" and keras.backend.backend() == "jax":
        raise ValueError(
            'dtype="float64" needs TensorFlow or torch: Keras computes in float32 on '
            "JAX. Set KERAS_BACKEND, or use float32."
        )
