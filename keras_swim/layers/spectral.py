"""Functions on periodic grids as numbers: Fourier modes, other grids, POD.

All transforms are products with a small matrix rather than fast Fourier transforms:
only a few modes are wanted, and a product has the same digits on every backend, works
in every export format and for every number of points.

Each axis of a grid of N points has the real basis

    Re c_0 .. Re c_{m-1}, Im c_1 .. Im c_{m-1},  c_k = 1/N sum_j u_j exp(-2 pi i jk/N)

and grids of two axes have products of them. Dividing by N makes the modes of a function
the same on every grid that resolves it.

Layers that can stand behind a readout have a `pull_back`: from what their output should
be to what their input should be. `swim_fit` finds the targets of a readout with it.
"""

import keras
import numpy as np

from keras_swim.layers.products import product


def analysis(points, modes):
    """`(points, 2 * modes - 1)` matrix from grid values to modes."""
    angles = _angles(points, modes)
    return np.concatenate([np.cos(angles), -np.sin(angles[:, 1:])], axis=1) / points


def synthesis(points, modes):
    """`(2 * modes - 1, points)` matrix from modes to grid values."""
    angles = _angles(points, modes)
    weight = np.full(modes, 2.0)
    weight[0] = 1.0
    # An even grid's last mode stands for itself and its mirror image at once.
    if 2 * (modes - 1) == points:
        weight[-1] = 1.0
    return np.concatenate(
        [np.cos(angles) * weight, -np.sin(angles[:, 1:]) * weight[1:]], axis=1
    ).T


def most_modes(points):
    """The modes that a grid resolves, the mean included."""
    return (points + 1) // 2


def _angles(points, modes):
    # Reduced before they are multiplied: cosines of large angles lose digits.
    turns = np.outer(np.arange(points), np.arange(modes)) % points
    return 2 * np.pi / points * turns


def along_axes(x, matrices):
    """Multiplies each axis of `x` behind the rows with its matrix."""
    last = len(x.shape) - 1
    for axis, matrix in enumerate(matrices, start=1):
        matrix = keras.ops.convert_to_tensor(matrix, dtype=x.dtype)
        if axis == last:
            x = product(x, matrix)
        else:
            x = keras.ops.moveaxis(x, axis, -1)
            x = keras.ops.moveaxis(product(x, matrix), -1, axis)
    return x


def sizes(value, name):
    """A positive integer, or one for each axis, as a tuple."""
    values = (value,) if np.ndim(value) == 0 else tuple(value)
    whole = all(
        isinstance(one, (int, np.integer)) and not isinstance(one, bool) and one > 0
        for one in values
    )
    if not values or not whole:
        raise ValueError(
            f"`{name}` must be a positive integer, or one for each axis. Received: "
            f"{name}={value!r}"
        )
    return tuple(int(one) for one in values)


@keras.saving.register_keras_serializable(package="keras_swim")
class Modes(keras.layers.Layer):
    """The lowest Fourier modes of functions on a periodic grid, as a row of numbers.

    Args:
        modes: Modes of each axis, the mean included: an integer or one for each axis.
        power: Modes are multiplied by `(1 + k) ** power`, which says how much they
            count in the distance of two rows (on two axes `k` is the sum of both).
        **kwargs: As for `keras.layers.Layer`.

    Example:

    >>> x = 2 * np.pi * np.arange(8) / 8
    >>> modes = Modes(3)(np.sin(x)[None])
    >>> np.round(np.asarray(modes), 3) + 0.0
    array([[ 0. ,  0. ,  0. , -0.5,  0. ]], dtype=float32)
    """

    def __init__(self, modes, power=0.0, **kwargs):
        super().__init__(**kwargs)
        self.modes = sizes(modes, "modes")
        self.power = float(power)

    def build(self, input_shape):
        grid = _grid(input_shape, self)
        modes = checked_modes("modes", self.modes, grid)
        self._matrices = [
            analysis(points, count) for points, count in zip(grid, modes, strict=True)
        ]
        waves = [np.r_[np.arange(count), np.arange(1, count)] for count in modes]
        total = sum(np.meshgrid(*waves, indexing="ij"))
        self._weight = ((1.0 + total) ** self.power).reshape(-1)

    def call(self, inputs):
        x = along_axes(inputs, self._matrices)
        x = keras.ops.reshape(x, (-1, len(self._weight)))
        if self.power:
            x = x * keras.ops.convert_to_tensor(self._weight, dtype=x.dtype)
        return x

    def compute_output_shape(self, input_shape):
        modes = axes_of(self.modes, input_shape[1:], "modes")
        return (input_shape[0], int(np.prod([2 * count - 1 for count in modes])))

    def get_config(self):
        return {**super().get_config(), "modes": self.modes, "power": self.power}


@keras.saving.register_keras_serializable(package="keras_swim")
class FromModes(keras.layers.Layer):
    """The inverse of `Modes` (with `power=0`): grid values from Fourier modes.

    Args:
        modes: Modes of each axis, the mean included.
        points: Points of each axis.
        **kwargs: As for `keras.layers.Layer`.

    Example:

    >>> wave = FromModes(modes=2, points=4)(np.array([[0.0, 0.0, -0.5]]))
    >>> np.round(np.asarray(wave), 3) + 0.0
    array([[ 0.,  1.,  0., -1.]], dtype=float32)
    """

    def __init__(self, modes, points, **kwargs):
        super().__init__(**kwargs)
        self.points = sizes(points, "points")
        self.modes = axes_of(sizes(modes, "modes"), self.points, "modes")
        pairs = list(zip(self.points, self.modes, strict=True))
        self._matrices = [synthesis(*pair) for pair in pairs]
        self._inverses = [analysis(*pair) for pair in pairs]

    def call(self, inputs):
        shape = [2 * count - 1 for count in self.modes]
        return along_axes(keras.ops.reshape(inputs, (-1, *shape)), self._matrices)

    def pull_back(self, outputs, inputs):
        modes = along_axes(outputs, self._inverses)
        size = int(np.prod([2 * count - 1 for count in self.modes]))
        return [keras.ops.reshape(modes, (-1, size))]

    def compute_output_shape(self, input_shape):
        return (input_shape[0], *self.points)

    def get_config(self):
        return {**super().get_config(), "modes": self.modes, "points": self.points}


@keras.saving.register_keras_serializable(package="keras_swim")
class Resample(keras.layers.Layer):
    """Trigonometric interpolation to another periodic grid.

    Exact for functions that both grids resolve.

    Args:
        points: Points of each axis.
        **kwargs: As for `keras.layers.Layer`.

    Example:

    >>> coarse = np.cos(2 * np.pi * np.arange(4) / 4)[None]
    >>> np.round(np.asarray(Resample(8)(coarse))[0, :3], 3) + 0.0
    array([1.   , 0.707, 0.   ], dtype=float32)
    """

    def __init__(self, points, **kwargs):
        super().__init__(**kwargs)
        self.points = sizes(points, "points")

    def build(self, input_shape):
        self._from = _grid(input_shape, self)
        axes_of(self.points, self._from, "points")

    def call(self, inputs):
        return _resampled(inputs, self._from, self.points)

    def pull_back(self, outputs, inputs):
        return [_resampled(outputs, self.points, self._from)]

    def compute_output_shape(self, input_shape):
        return (input_shape[0], *self.points)

    def get_config(self):
        return {**super().get_config(), "points": self.points}


@keras.saving.register_keras_serializable(package="keras_swim")
class OutputGrid(Resample):
    """`Resample` to the grid that a model's outputs are wanted on.

    Example:

    >>> tuple(OutputGrid(8)(np.ones((2, 4))).shape)
    (2, 8)
    """


@keras.saving.register_keras_serializable(package="keras_swim")
class GridCoordinate(keras.layers.Layer):
    """Puts the coordinate of each point beside its value: cosine and sine of its angle.

    A coordinate from 0 to 1 would jump at the end of the period, and what a jump does
    to Fourier modes depends on the grid.

    Example:

    >>> np.round(np.asarray(GridCoordinate()(np.array([[5.0, 6.0]])))) + 0.0
    array([[[ 5.,  1.,  0.],
            [ 6., -1.,  0.]]], dtype=float32)
    """

    def call(self, inputs):
        angles = [2 * np.pi * np.arange(n) / n for n in map(int, inputs.shape[1:])]
        parts = [keras.ops.expand_dims(inputs, -1)]
        for axis in np.meshgrid(*angles, indexing="ij"):
            for wave in (np.cos(axis), np.sin(axis)):
                one = keras.ops.convert_to_tensor(wave[None, ..., None], inputs.dtype)
                parts.append(keras.ops.zeros_like(parts[0]) + one)
        return keras.ops.concatenate(parts, axis=-1)

    def compute_output_shape(self, input_shape):
        return (*input_shape, 1 + 2 * len(input_shape[1:]))


@keras.saving.register_keras_serializable(package="keras_swim")
class PODBasis(keras.layers.Layer):
    """Functions from their coefficients in a basis taken from data.

    `output = mean + coefficients @ basis`. The basis is the proper orthogonal
    decomposition of the outputs: their mean and the principal components around it.
    `swim_fit` computes it from the targets; so does `adapt`.

    Args:
        modes: Number of basis functions.
        points: Points of each axis of the grid.
        center: Whether there is a mean; without it the functions themselves are
            decomposed.
        **kwargs: As for `keras.layers.Layer`.

    Example:

    >>> y = np.outer([1.0, 2.0, 4.0], np.sin(np.arange(5)))
    >>> layer = PODBasis(1, points=5)
    >>> layer.adapt(y)
    >>> coefficients = layer.pull_back(layer.cast(y), [None])[0]
    >>> bool(np.allclose(np.asarray(layer(coefficients)), y, atol=1e-6))
    True
    """

    def __init__(self, modes, points, center=True, **kwargs):
        super().__init__(**kwargs)
        self.center = bool(center)
        (self.modes,) = sizes(modes, "modes")
        self.points = sizes(points, "points")
        if self.modes > np.prod(self.points):
            raise ValueError(
                f"A grid of {int(np.prod(self.points))} points has no more basis "
                f"functions than points. Received: modes={self.modes}."
            )

    def build(self, input_shape):
        size = int(np.prod(self.points))
        self.basis = self.add_weight(
            shape=(self.modes, size), initializer="zeros", trainable=False, name="basis"
        )
        self.mean = self.add_weight(
            shape=(size,), initializer="zeros", trainable=False, name="mean"
        )

    def adapt(self, y, sample_weight=None):
        """Computes mean and basis from functions of shape `(rows, *points)`."""
        if not self.built:
            self.build((None, self.modes))
            self.built = True
        y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        mean = (weight @ y / weight.sum()) * self.center
        centred = (y - mean) * np.sqrt(weight)[:, None]
        # Rows may be many; the grid is small.
        _, vectors = np.linalg.eigh(centred.T @ centred)
        self.basis.assign(vectors[:, ::-1][:, : self.modes].T)
        self.mean.assign(mean)

    def cast(self, y):
        """A tensor in the layer's dtype."""
        return keras.ops.convert_to_tensor(y, dtype=self.compute_dtype)

    def call(self, inputs):
        x = product(inputs, self.cast(self.basis)) + self.cast(self.mean)
        return keras.ops.reshape(x, (-1, *self.points))

    def pull_back(self, outputs, inputs):
        flat = keras.ops.reshape(outputs, (-1, int(np.prod(self.points))))
        basis = keras.ops.transpose(self.cast(self.basis))
        return [product(flat - self.cast(self.mean), basis)]

    def compute_output_shape(self, input_shape):
        return (input_shape[0], *self.points)

    def get_config(self):
        config = super().get_config()
        config.update(modes=self.modes, points=self.points, center=self.center)
        return config


def axes_of(values, grid, name):
    """One value for each axis of a grid."""
    values = tuple(values)
    if len(values) == 1:
        return values * len(grid)
    if len(values) != len(grid):
        raise ValueError(
            f"`{name}` must be one integer, or one for each of the {len(grid)} axes. "
            f"Received: {name}={values}"
        )
    return values


def checked_modes(name, modes, grid):
    """One number of modes for each axis of a grid that resolves them."""
    modes = axes_of(sizes(modes, name), grid, name)
    for points, count in zip(grid, modes, strict=True):
        if count > most_modes(points):
            raise ValueError(
                f"A grid of {points} points has {most_modes(points)} modes (the mean "
                f"included). Received: {name}={count}. Ask for fewer modes, or use a "
                "finer grid."
            )
    return modes


def _grid(shape, layer):
    grid = tuple(shape[1:])
    if not 1 <= len(grid) <= 2 or None in grid:
        raise ValueError(
            f"The layer {layer.name!r} takes functions of shape (rows, points) or "
            f"(rows, points, points), with a known number of points. Received: {shape}"
        )
    return grid


def _resampled(x, start, end):
    end = axes_of(end, start, "points")
    if end == start:
        return x
    matrices = []
    for points, wanted in zip(start, end, strict=True):
        modes = most_modes(min(points, wanted))
        matrices.append(analysis(points, modes) @ synthesis(wanted, modes))
    return along_axes(x, matrices)
