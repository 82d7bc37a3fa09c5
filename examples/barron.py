"""A function of ten variables: units from pairs of rows against random features."""

import os

# JAX has float64 only after a switch of its own.
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

from keras_swim import SwimMLP, swim_fit

keras.config.set_floatx("float64")  # No noise: every digit counts.


def barron(x):
    """f(x) = sqrt(3/2) (|x - a| - |x + a|), as in the SWIM paper."""
    d = x.shape[1]
    a = 2 * np.arange(1, d + 1) / d - 1
    norms = np.linalg.norm(x - a, axis=1) - np.linalg.norm(x + a, axis=1)
    return np.sqrt(3 / 2) * norms[:, None]


x, x_test = np.random.default_rng(0).uniform(-1, 1, size=(2, 10_000, 10))
y, y_test = barron(x), barron(x_test)

# Standard normal kernels are the paper's baseline; divided by the square root of the
# number of inputs they are a much better one.
WEIGHTS = {
    "sampled": {"sampler": "gradient"},
    "random": {"sampler": "random"},
    "scaled random": {"sampler": "random", "scale": 10**-0.5},
}
for activation in ("sin", "tanh"):
    errors = {}
    for title, options in WEIGHTS.items():
        model = SwimMLP(
            1,
            units=512,
            activation=activation,
            output_activation=None,
            normalize=False,
            seed=0,
            **options,
        )
        swim_fit(model, x, y, seed=0, verbose=0)
        found = model.predict(x_test, batch_size=2048, verbose=0)
        errors[title] = np.linalg.norm(found - y_test) / np.linalg.norm(y_test)
    line = ", ".join(f"{title} {error:.3f}" for title, error in errors.items())
    print(f"error of 512 {activation} units, by their weights: {line}")
