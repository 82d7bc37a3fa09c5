"""SampledDense: a Dense layer whose weights come from pairs of rows."""

import operator
import warnings

import keras
import numpy as np

from keras_swim.core.activations import constants_for
from keras_swim.core.sampling import (
    SAMPLERS,
    pair_parameters,
    random_parameters,
    sample_pairs,
)
from keras_swim.core.targets import encode, side_by_side
from keras_swim.data.pool import draw_pool, pool_size
from keras_swim.data.sources import as_source
from keras_swim.layers.activations import activation_name, get_activation
from keras_swim.layers.pairs import HasPairs
from keras_swim.layers.products import DoubleDense

# Smallest distance in a deep layer, relative to the median one: two different
# rows can come out of the layers before almost equal. In the first layer it
# would break the invariance to the scale of the data, so there it is 0.
_DEEP_EPSILON = 1e-10


@keras.saving.register_keras_serializable(package="keras_swim")
class SampledDense(HasPairs, DoubleDense, keras.layers.Dense):
    """Dense layer whose weights come from pairs of training rows.

    `output = activation(x @ kernel + bias)`, where each column of `kernel`
    points from one training row to another: the unit is centred between the
    two, and as steep as they are close. Pairs whose targets differ over a
    short distance are preferred. No gradient is involved.

    It is a `keras.layers.Dense` in every respect. Until `adapt()` is called,
    or `swim_fit` on its model, the weights are those of the initializers.

    Args:
        units: Positive integer, number of sampled pairs.
        activation: Name or callable. Defaults to `"tanh"`. Constants are known
            for tanh, relu, sigmoid, sin, gelu, silu, softplus, elu,
            leaky_relu, linear and a few more
            (`keras_swim.core.activations`).
        use_bias: Boolean. Defaults to `True`.
        scale: Positive float. Units of scale 2 are twice as steep, in the same
            places. With `sampler="random"`: standard deviation of the kernel.
            Defaults to `1.0`.
        offset: Number that is added to every pre-activation, or `"auto"`. At 0
            tanh, sigmoid and sin units are centred between their rows. Rows of
            many columns are almost all near the centre of every unit, where
            these activations are almost linear; `"auto"` moves them to where
            they bend (tanh: 0.66). It is 0 for rectifiers, and for
            `sampler="random"`. Defaults to `0.0`, as in the paper.
        sampler: `"gradient"` draws pairs in proportion to the difference of
            their targets over their distance. `"uniform"` draws them
            uniformly. `"random"` uses no data at all: normal kernel, bias
            uniform in [-pi, pi]. Defaults to `"gradient"`.
        candidates: Positive number. So many candidate pairs a row are looked
            at (times `ceil(units / rows)`), and at least four a unit unless
            `replace=True`. Defaults to `1`.
        x_norm: Norm of the distance of two rows when candidates are compared:
            1, 2 or `"inf"`. Defaults to `2`.
        y_norm: Norm of the difference of two targets: 1, 2 or `"inf"`.
            Defaults to `"inf"`.
        replace: Whether a pair may be drawn more than once, as in the paper.
            Defaults to `False`: all units differ while there are enough pairs.
        subset_sizes: `None` or a list of non-negative integers. Each unit
            takes one of them; with 0 it looks at all columns, with s > 0 at s
            random ones only. `[0, 1, 2]` restricts two thirds of the units.
            Defaults to `None`.
        groups: `None` or a list with one integer a column; columns with the
            same integer (the one-hot columns of one category) are chosen
            together. Defaults to `None`.
        constants: `None` or a pair `(s1, s2)`: the pre-activation is `-s2` at
            the first row of a pair and `s1 - s2` at the second. A custom
            activation needs it. Defaults to `None`.
        seed: Non-negative integer or `None`. The same seed gives the same
            pairs on every backend and for any batch size. Defaults to `None`.
        **kwargs: The other arguments of `keras.layers.Dense`.

    Attributes:
        pairs: `None` before `adapt()` and for `sampler="random"`; afterwards
            a `(units, 2)` integer array: the numbers of the two training rows
            behind each unit. It is saved with the weights. For inputs of more
            than two dimensions rows are counted over all but the last axis.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(100, 8)), rng.integers(0, 3, size=100)
    >>> layer = SampledDense(64, seed=0)
    >>> layer.adapt(x, y)
    >>> tuple(layer(x).shape), layer.pairs.shape
    ((100, 64), (64, 2))

    Reference:
        Bolager et al., 2023, arXiv:2306.16830.
    """

    def __init__(
        self,
        units,
        activation="tanh",
        use_bias=True,
        *,
        scale=1.0,
        offset=0.0,
        sampler="gradient",
        candidates=1,
        x_norm=2,
        y_norm="inf",
        replace=False,
        subset_sizes=None,
        groups=None,
        constants=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(
            _integer("units", units, at_least=1),
            activation=get_activation(activation),
            use_bias=use_bias,
            **kwargs,
        )
        self.scale = _positive("scale", scale)
        self.offset = _offset(offset)
        if sampler not in SAMPLERS:
            raise ValueError(
                f"`sampler` must be one of {', '.join(map(repr, SAMPLERS))}. "
                f"Received: sampler={sampler!r}"
            )
        self.sampler = sampler
        self.candidates = _positive("candidates", candidates)
        self.x_norm = _norm("x_norm", x_norm)
        self.y_norm = _norm("y_norm", y_norm)
        self.replace = bool(replace)
        self.subset_sizes = _integers("subset_sizes", subset_sizes)
        self.groups = _integers("groups", groups)
        self.constants = constants
        if constants is not None:
            self.constants = tuple(constants_for("custom", constants)[:2])
        self.seed = None if seed is None else _integer("seed", seed, at_least=0)
        if sampler != "random":
            # An unknown activation should fail here, not after a long pass.
            constants_for(activation_name(self.activation), self.constants)

    def adapt(self, x, y=None, sample_weight=None, *, depth=0):
        """Computes kernel and bias from data.

        Only a pool of at most `max(4 * units, 10000)` rows, drawn uniformly,
        is kept in memory.

        Args:
            x: Array, tensor, data frame, `tf.data.Dataset`,
                `keras.utils.PyDataset`, torch `DataLoader`, generator, or a
                function returning one. Data sets yield `(x, y)` or
                `(x, y, sample_weight)` batches.
            y: Targets: integer labels (classes), one-hot codes, or real
                targets of any width; for inputs of rank above 2 one a row or
                one a position. Not needed by the samplers `"uniform"` and
                `"random"`.
            sample_weight: One non-negative weight a row; a row of weight 2
                counts as two rows.
            depth: Number of sampled layers before this one in its model. From
                1 on, pairs that are almost equal are not preferred any
                further. It also enters the seed, so that layers of one model
                with the same seed draw different pairs.
        """
        rng = self.generator(depth)
        source = as_source(x, y, sample_weight)
        numbers, pool = draw_pool(source, pool_size(self.units), rng)
        if len(pool.x) != 1:
            raise ValueError(
                f"`adapt()` takes one input array. Received: {len(pool.x)} arrays in x."
            )
        targets = None
        if pool.y:
            targets = side_by_side([_codes(part, pool.x[0]) for part in pool.y])
        self.sample(
            pool.x[0],
            targets,
            pool.weight[0] if pool.weight else None,
            rng=rng,
            numbers=numbers,
            depth=depth,
        )

    def generator(self, depth=0, seed=None):
        """The random generator of this layer at a given depth of a model."""
        seed = self.seed if self.seed is not None else seed
        return np.random.default_rng(None if seed is None else [seed, depth])

    def sample(self, x, codes, sample_weight, *, rng, numbers=None, depth=0):
        """Computes kernel and bias from rows in memory.

        `adapt()` without the reading: `swim_fit` calls it with rows that it
        already has.

        Args:
            x: `(n, ..., d)` array.
            codes: `None`, `(n,)` class codes or `(n, c)` real targets
                (`keras_swim.core.targets.encode`); for inputs with positions
                (rank above 2) optionally one a position, in C order.
            sample_weight: `None` or `(n,)`.
            rng: `numpy.random.Generator`.
            numbers: `None` or `(n,)`: what to call the rows in `pairs`.
            depth: See `adapt()`.
        """
        self._refuse_other_kernels()
        x = np.asarray(x)
        if x.ndim < 2:
            raise ValueError(
                "`x` must have shape (rows, ..., columns). Received: "
                f"x.shape={x.shape}. For a single column pass x[:, None]."
            )
        if codes is None and self.sampler == "gradient":
            raise ValueError(
                '`sampler="gradient"` needs targets: call `adapt(x, y)`, or use '
                '`sampler="uniform"`.'
            )
        if self.built and self.kernel.shape[0] != x.shape[-1]:
            raise ValueError(
                f"The layer was built for {self.kernel.shape[0]} columns. "
                f"Received: x.shape={x.shape}"
            )
        if self.sampler == "random":
            kernel, bias = random_parameters(
                x.shape[-1], self.units, rng, self.scale, "float64"
            )
            self._assign(x.shape, kernel, bias, None)
            return
        rows, codes, sample_weight, numbers = self._as_rows(
            x, codes, sample_weight, numbers
        )
        constants = constants_for(activation_name(self.activation), self.constants)
        offset = constants.bend if self.offset == "auto" else self.offset
        # Off its centre an activation is not odd any more; a line has no centre.
        mirrored = constants.mirrored and (not offset or not constants.bend)
        if mirrored:
            _warn_of_equal_norms(rows, self.name)
        if self.groups is not None and len(self.groups) != rows.shape[1]:
            raise ValueError(
                "`groups` must have one integer a column. Received: "
                f"{len(self.groups)} for {rows.shape[1]} columns."
            )
        drawn = sample_pairs(
            rows,
            codes,
            self.units,
            rng,
            sampler=self.sampler,
            candidates=self.candidates,
            x_norm=_number(self.x_norm),
            y_norm=_number(self.y_norm),
            mirrored=mirrored and self.use_bias,
            replace=self.replace,
            epsilon=_DEEP_EPSILON if depth else 0.0,
            sample_weight=sample_weight,
            subset_sizes=self.subset_sizes,
            groups=self.groups,
        )
        kernel, bias = pair_parameters(
            rows,
            drawn,
            constants,
            self.scale,
            _numpy_dtype(self.variable_dtype),
            offset,
        )
        if not np.isfinite(np.asarray(kernel, dtype=np.float64)).all():
            raise ValueError(
                f"Two rows are so close that their unit overflows {self.dtype}. "
                "Use a wider dtype, or remove near-duplicate rows."
            )
        self._assign(x.shape, kernel, bias, numbers[drawn.pairs])

    def _as_rows(self, x, codes, sample_weight, numbers):
        """Rows as the layer will see them, one for each position."""
        # Rows that become equal in the layer's dtype must not form a pair.
        dtype = _numpy_dtype(self.compute_dtype)
        with np.errstate(over="ignore"):
            cast = x.astype(dtype, copy=False)
        if cast is not x and not np.isfinite(cast.astype(np.float64)).all():
            raise ValueError(
                f"`x` holds numbers too large for the layer's dtype {dtype.name}. "
                "Scale the data, or use a wider dtype."
            )
        x = cast
        if x.dtype not in (np.float32, np.float64):
            x = x.astype(np.float32)
        if numbers is None:
            numbers = np.arange(len(x))
        positions = int(np.prod(x.shape[1:-1]))
        if positions != 1:
            numbers = (numbers[:, None] * positions + np.arange(positions)).ravel()
            if sample_weight is not None:
                sample_weight = np.repeat(sample_weight, positions)
            if codes is not None and len(codes) == len(x):
                codes = np.repeat(codes, positions, axis=0)
        return x.reshape(-1, x.shape[-1]), codes, sample_weight, numbers

    def assign_units(self, kernel, bias, pairs=None):
        """Gives the layer units that were sampled elsewhere.

        Args:
            kernel: `(d, units)` array.
            bias: `(units,)` array.
            pairs: `None`, or `(units, 2)` numbers of the rows behind each unit.
        """
        self._refuse_other_kernels()
        self._assign((None, len(kernel)), kernel, bias, pairs)

    def _assign(self, shape, kernel, bias, pairs):
        # Built only now: data that was refused must not fix the columns.
        if not self.built:
            self.build((None, *shape[1:]))
        self._kernel.assign(kernel)
        if self.bias is not None:
            self.bias.assign(bias)
        self._pairs = pairs

    def _refuse_other_kernels(self):
        if self.lora_enabled or self.quantization_mode:
            state = "LoRA enabled" if self.lora_enabled else "been quantized"
            raise ValueError(
                f"The layer {self.name!r} has {state}, so its kernel cannot be "
                "replaced. Call `adapt()` before `enable_lora()` or `quantize()`."
            )

    def get_config(self):
        config = super().get_config()
        config.update(
            scale=self.scale,
            offset=self.offset,
            sampler=self.sampler,
            candidates=self.candidates,
            x_norm=self.x_norm,
            y_norm=self.y_norm,
            replace=self.replace,
            subset_sizes=self.subset_sizes,
            groups=self.groups,
            constants=None if self.constants is None else list(self.constants),
            seed=self.seed,
        )
        return config


def _warn_of_equal_norms(rows, name):
    """A unit centred between rows of equal norm has no bias: it is odd in x."""
    norms = np.linalg.norm(rows, axis=1)
    if rows.shape[1] > 1 and norms.std() < 1e-3 * norms.mean():
        warnings.warn(
            f"All rows that the layer {name!r} is sampled from have the same "
            "norm, so its units have no bias and can represent odd functions "
            'only. Pass `offset="auto"`, use an activation that is not odd ("relu", '
            '"gelu"), or leave out the normalisation before it.',
            stacklevel=3,
        )


def _codes(y, x):
    """Encoded targets: one a row or, where y has x's positions, one each."""
    positions = x.shape[:-1]
    if x.ndim > 2 and y.shape[: len(positions)] == positions:
        y = y.reshape(-1, *y.shape[len(positions) :])
    return encode(y)


def _numpy_dtype(name):
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _integer(name, value, at_least):
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < at_least:
        kind = "a positive integer" if at_least else "a non-negative integer"
        raise ValueError(f"`{name}` must be {kind}. Received: {name}={value!r}")
    return number


def _integers(name, values):
    if values is None:
        return None
    if not np.iterable(values) or isinstance(values, str):
        raise ValueError(
            f"`{name}` must be a list of integers. Received: {name}={values!r}"
        )
    return [_integer(name, value, at_least=0) for value in values]


def _positive(name, value):
    if (
        not np.isscalar(value)
        or isinstance(value, (str, bool))
        or not 0 < value < np.inf
    ):
        raise ValueError(
            f"`{name}` must be a positive number. Received: {name}={value!r}"
        )
    return float(value)


def _offset(value):
    if isinstance(value, str) and value == "auto":
        return value
    if (
        not np.isscalar(value)
        or isinstance(value, (str, bool))
        or not np.isfinite(value)
    ):
        raise ValueError(
            f'`offset` must be a finite number or "auto". Received: offset={value!r}'
        )
    return float(value)


def _norm(name, value):
    if value == np.inf:
        return "inf"
    if isinstance(value, bool) or value not in (1, 2, "inf"):
        raise ValueError(f'`{name}` must be 1, 2 or "inf". Received: {name}={value!r}')
    return value


def _number(norm):
    return np.inf if norm == "inf" else norm
