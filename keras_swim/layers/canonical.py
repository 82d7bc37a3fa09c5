"""Frames in which functions that are the same up to a symmetry become equal.

An operator that commutes with a symmetry need not learn it: bring the input into a
canonical frame, predict there, and go back.

    v = into(u, u);    w = network(v);    output = back(w, u)

The frame is that of the input `u`; every function that belongs to it is moved by the
same amount. `Canonicalize` layers do the first step, `Restore` the last.
"""

import inspect

import keras
import numpy as np

from keras_swim.layers.products import product
from keras_swim.layers.spectral import analysis, most_modes, synthesis

# A mode smaller than this times the largest has no phase worth the name.
_VANISHING = {"float64": 1e-7}
_VANISHING_SINGLE = 1e-3
# Modes that a frame looks at.
_LOOKED_AT = 16


@keras.saving.register_keras_serializable(package="keras_swim")
class Canonicalize(keras.layers.Layer):
    """Brings functions into the frame that they define themselves.

    `layer(u)` is `into(u, u)`. Put `Restore(layer)` behind the network, and what is
    between the two commutes with the symmetry. Frames can be nested; `SwimOperator`
    takes a list of them as `symmetries`.

    `RemoveMean`, `PeriodicShift` and `GalileanFrame` are such layers. For a symmetry
    of your own pass functions (or layers of two inputs), or write a subclass with
    these methods.

    Args:
        into: Function `(x, u) -> v`: moves `x` into the frame of the input `u`.
        back: Function `(v, u) -> y`: moves a prediction back, for the same `u`.
        into_target: Function `(y, u) -> v`, the inverse of `back`. Defaults to `into`:
            the symmetry does the same to inputs and outputs.
        **kwargs: As for `keras.layers.Layer`.

    Functions must be registered (`keras.saving.register_keras_serializable`) if the
    model is to be saved.

    Example:

    An operator that commutes with factors, on functions divided by their largest value:

    >>> def height(u):
    ...     return keras.ops.max(keras.ops.abs(u), axis=1, keepdims=True)
    >>> layer = Canonicalize(
    ...     into=lambda x, u: x / height(u), back=lambda v, u: v * height(u)
    ... )
    >>> np.asarray(layer(np.array([[1.0, -4.0]])))
    array([[ 0.25, -1.  ]], dtype=float32)
    """

    def __init__(self, into=None, back=None, into_target=None, **kwargs):
        super().__init__(**kwargs)
        self._functions = {"into": into, "back": back, "into_target": into_target}
        own = type(self).into is Canonicalize.into
        if own and (into is None or back is None):
            raise ValueError(
                "`Canonicalize` needs `into` and `back`, functions of (x, u). "
                f"Received: into={into!r}, back={back!r}. Ready-made frames: "
                "RemoveMean, PeriodicShift, GalileanFrame."
            )
        for name, function in self._functions.items():
            if function is not None and not callable(function):
                raise TypeError(
                    f"`{name}` must be a function or a layer. Received: {function!r}"
                )

    def into(self, x, u):
        """Moves a function of the input side into the frame of `u`."""
        return self._functions["into"](x, u)

    def back(self, v, u):
        """Moves a prediction in the frame of `u` back."""
        return self._functions["back"](v, u)

    def into_target(self, y, u):
        """Moves a function of the output side into the frame of `u`."""
        function = self._functions["into_target"]
        return self.into(y, u) if function is None else function(y, u)

    def build(self, input_shape):
        """Nothing to do here: layers that were passed build themselves when called."""

    def call(self, inputs):
        return self.into(inputs, inputs)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        config = super().get_config()
        for name, function in self._functions.items():
            if function is not None:
                config[name] = _serialized(name, function)
        return config

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        for name in ("into", "back", "into_target"):
            if isinstance(config.get(name), dict):
                config[name] = keras.saving.deserialize_keras_object(config[name])
        return cls(**config)


def _serialized(name, function):
    if inspect.isfunction(function) and function.__name__ == "<lambda>":
        raise ValueError(
            f"`{name}` of a `Canonicalize` layer is a lambda, which cannot be saved. "
            "Use a named function, decorated with "
            "`keras.saving.register_keras_serializable()`."
        )
    return keras.saving.serialize_keras_object(function)


@keras.saving.register_keras_serializable(package="keras_swim")
class RemoveMean(Canonicalize):
    """Frame in which the input has mean zero.

    For equations that keep the mean and do not depend on it.

    Example:

    >>> np.asarray(RemoveMean()(np.array([[1.0, 3.0]])))
    array([[-1.,  1.]], dtype=float32)
    """

    def into(self, x, u):
        return x - mean_of(u)

    def back(self, v, u):
        return v + mean_of(u)


@keras.saving.register_keras_serializable(package="keras_swim")
class PeriodicShift(Canonicalize):
    """Frame in which the first Fourier mode has a fixed phase, on each axis.

    Where the first mode vanishes the lowest one that does not is taken; of its k
    possible shifts, the one in which the other modes are nearest to that phase.
    Functions that repeat themselves within the grid have several such shifts, and
    predictions for them differ by as much as the network is wrong. The highest mode of
    an even grid, which has no phase, stays as it is.

    Args:
        phase: Phase of the mode in the frame. The default keeps the frame of
            `-u(-x)` the mirror image of that of `u`; use 0 for equations that
            commute with `u(-x)`.
        **kwargs: As for `keras.layers.Layer`.

    Example:

    >>> x = 2 * np.pi * np.arange(8) / 8
    >>> layer = PeriodicShift()
    >>> shifted = np.asarray(layer(np.stack([np.sin(x), np.sin(x + 1.0)])))
    >>> bool(np.allclose(shifted[0], shifted[1], atol=1e-6))
    True
    """

    def __init__(self, phase=-np.pi / 2, **kwargs):
        super().__init__(**kwargs)
        self.phase = float(phase)

    def into(self, x, u):
        return self._moved(x, u, 1.0)

    def back(self, v, u):
        return self._moved(v, u, -1.0)

    def _moved(self, x, u, sign):
        for axis in range(1, len(u.shape)):
            x = shifted(x, sign * self.angle(u, axis), axis)
        return x

    def angle(self, u, axis=1):
        """`(rows,)` shift along an axis, as an angle: 2 pi is once around."""
        others = [other for other in range(1, len(u.shape)) if other != axis]
        profile = u
        if others:
            count = int(np.prod([int(u.shape[other]) for other in others]))
            profile = keras.ops.sum(u, axis=others) / count
        points = int(profile.shape[1])
        count = min(most_modes(points), _LOOKED_AT + 1)
        if count < 2:
            return keras.ops.zeros_like(profile[:, 0])
        modes = product(profile, _constant(analysis(points, count), profile))
        real, imaginary = modes[:, 1:count], modes[:, count:]
        size = keras.ops.sqrt(real**2 + imaginary**2)
        dtype = keras.backend.standardize_dtype(u.dtype)
        floor = _VANISHING.get(dtype, _VANISHING_SINGLE)
        there = size > floor * keras.ops.max(size, axis=1, keepdims=True)
        first = _first(there, dtype)
        wave = _constant(np.arange(1.0, count), u)
        k = keras.ops.sum(first * wave, axis=1)
        base = (
            self.phase - _angle(*(_picked(part, first) for part in (real, imaginary)))
        ) / k
        # All k shifts that give mode k its phase; beyond the k-th they repeat.
        turns = _constant(2 * np.pi * np.arange(count - 1.0), u)
        shifts = base[:, None] + turns / k[:, None]
        score = self._agreement(real, imaginary, shifts, wave)
        score = keras.ops.where(
            keras.ops.arange(count - 1, dtype=dtype) < k[:, None], score, -np.inf
        )
        highest = keras.ops.max(score, axis=1, keepdims=True)
        return _picked(shifts, _first(score >= highest, dtype))

    def _agreement(self, real, imaginary, shifts, wave):
        """How near the modes come to the phase, for each shift."""
        angles = shifts[:, :, None] * wave - self.phase
        parts = real[:, None] * keras.ops.cos(angles)
        parts = parts - imaginary[:, None] * keras.ops.sin(angles)
        return keras.ops.sum(parts / wave, axis=2)

    def get_config(self):
        return {**super().get_config(), "phase": self.phase}


@keras.saving.register_keras_serializable(package="keras_swim")
class GalileanFrame(Canonicalize):
    """Frame that moves with the mean of the input.

    For equations such as Burgers' and Korteweg-de Vries': if `v(x, t)` solves them, so
    does `m + v(x - speed * m * t, t)`.

    Args:
        time: Time between input and output.
        speed: Speed of the frame for a mean of 1: 1 for `u_t + u u_x`, 6 for
            `u_t + 6 u u_x`.
        length: Length of the period.
        **kwargs: As for `keras.layers.Layer`.

    Example:

    >>> layer = GalileanFrame(time=1.0)
    >>> np.asarray(layer(np.array([[1.0, 3.0]])))
    array([[-1.,  1.]], dtype=float32)
    """

    def __init__(self, time, speed=1.0, length=2 * np.pi, **kwargs):
        super().__init__(**kwargs)
        self.time, self.speed, self.length = float(time), float(speed), float(length)
        if not self.length > 0:
            raise ValueError(f"`length` must be positive. Received: length={length!r}")

    def into(self, x, u):
        return x - mean_of(u)

    def into_target(self, y, u):
        return shifted(y - mean_of(u), self._angle(u))

    def back(self, v, u):
        return shifted(v, -self._angle(u)) + mean_of(u)

    def _angle(self, u):
        if len(u.shape) != 2:
            raise ValueError(
                "`GalileanFrame` takes functions of one variable, (rows, points). "
                f"Received: shape {tuple(u.shape)}."
            )
        turns = 2 * np.pi * self.time * self.speed / self.length
        return turns * mean_of(u)[:, 0]

    def get_config(self):
        config = super().get_config()
        config.update(time=self.time, speed=self.speed, length=self.length)
        return config


@keras.saving.register_keras_serializable(package="keras_swim")
class Restore(keras.layers.Layer):
    """Moves predictions back from the frame of a `Canonicalize` layer.

    Called on `[prediction, u]`, with the `u` that the other layer was called on.

    Args:
        frame: The `Canonicalize` layer.
        **kwargs: As for `keras.layers.Layer`.

    Example:

    >>> mean, u = RemoveMean(), np.array([[1.0, 3.0]])
    >>> np.asarray(Restore(mean)([mean(u), u]))
    array([[1., 3.]], dtype=float32)
    """

    def __init__(self, frame, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(frame, Canonicalize):
            raise TypeError(
                "`frame` must be a `Canonicalize` layer. Received: "
                f"{type(frame).__name__}."
            )
        self.frame = frame

    def call(self, inputs):
        prediction, u = inputs
        return self.frame.back(prediction, u)

    def pull_back(self, outputs, inputs):
        return [self.frame.into_target(outputs, inputs[1]), None]

    def compute_output_shape(self, input_shape):
        return input_shape[0]

    def get_config(self):
        frame = keras.saving.serialize_keras_object(self.frame)
        return {**super().get_config(), "frame": frame}

    @classmethod
    def from_config(cls, config):
        frame = keras.saving.deserialize_keras_object(config["frame"])
        return cls(**{**config, "frame": frame})


def mean_of(u):
    """Mean of each function, with axes of 1."""
    # `keras.ops.mean` computes in float32 on torch, `sum` does not.
    axes = list(range(1, len(u.shape)))
    total = keras.ops.sum(u, axis=axes, keepdims=True)
    return total / int(np.prod([int(size) for size in u.shape[1:]]))


def shifted(x, angle, axis=1):
    """`x` at positions further on by `angle`, different for each row."""
    last = len(x.shape) - 1
    if axis != last:
        x = keras.ops.moveaxis(x, axis, -1)
    points = int(x.shape[-1])
    count = most_modes(points)
    modes = product(x, _constant(analysis(points, count), x))
    real, imaginary = modes[..., 1:count], modes[..., count:]
    angle = keras.ops.reshape(angle, (-1,) + (1,) * (len(x.shape) - 1))
    angles = angle * _constant(np.arange(1.0, count), x)
    cos, sin = keras.ops.cos(angles), keras.ops.sin(angles)
    moved = keras.ops.concatenate(
        [
            modes[..., :1],
            real * cos - imaginary * sin,
            real * sin + imaginary * cos,
        ],
        axis=-1,
    )
    result = product(moved, _constant(synthesis(points, count), x))
    if points % 2 == 0:
        wave = _constant((-1.0) ** np.arange(points), x)
        size = keras.ops.sum(x * wave, axis=-1, keepdims=True) / points
        result = result + wave * size
    return result if axis == last else keras.ops.moveaxis(result, -1, axis)


def _constant(array, like):
    return keras.ops.convert_to_tensor(array, dtype=like.dtype)


def _first(mask, dtype):
    """1 at the first place of each row where `mask` holds, 0 elsewhere."""
    # `keras.ops.argmax` would do, but cannot be exported to ONNX from TensorFlow.
    places = keras.ops.arange(int(mask.shape[1]), dtype=dtype)
    found = keras.ops.where(mask, places, float(int(mask.shape[1])))
    lowest = keras.ops.min(found, axis=1, keepdims=True)
    return keras.ops.cast(keras.ops.equal(places, lowest), dtype)


def _picked(x, one_hot):
    return keras.ops.sum(x * one_hot, axis=1)


def _angle(real, imaginary):
    angle = keras.ops.cast(keras.ops.arctan2(imaginary, real), real.dtype)
    # On torch `arctan2` computes in float32; one Newton step gives the other digits.
    size = keras.ops.sqrt(real**2 + imaginary**2)
    across = imaginary * keras.ops.cos(angle) - real * keras.ops.sin(angle)
    return angle + across / keras.ops.where(size > 0, size, 1.0)
