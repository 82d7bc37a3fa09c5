"""Fitting and fine-tuning on two (pretended) devices, in a process of their own."""

import json
import os
import subprocess
import sys

import keras
import pytest

_SCRIPT = """
import json
from contextlib import nullcontext
import keras
import numpy as np
from keras_swim import SwimHead, fine_tune, swim_fit

scope = nullcontext()
if keras.backend.backend() == "jax":
    import jax
    assert len(jax.devices()) == 2
    keras.distribution.set_distribution(keras.distribution.DataParallel())
else:
    import tensorflow as tf
    cpu = tf.config.list_physical_devices("CPU")[0]
    part = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [part, part])
    scope = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope()

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
labels = np.arange(96) % 2
images = rng.integers(0, 120, (96, 8, 8, 3)).astype("uint8")
images[labels == 1, :, :4] += 100
train, held = (images[:64], labels[:64]), (images[64:], labels[64:])
with scope:
    inputs = keras.Input((8, 8, 3))
    x = keras.layers.Rescaling(1 / 255)(inputs)
    x = keras.layers.Conv2D(4, 3)(x)
    x = keras.layers.BatchNormalization()(x)
    backbone = keras.Model(inputs, keras.layers.ReLU()(x))
    model = SwimHead(backbone, 2, units=32, pooling="flatten", seed=0)
    swim_fit(model, *train, seed=0, verbose=0)
    tune = fine_tune(
        model, *train, held, epochs=2, learning_rate=1e-3, verbose=0
    ).fine_tune
answers = model.predict(held[0], verbose=0).argmax(axis=1)
print(json.dumps({
    "start": tune.records[0]["accuracy"],
    "best": tune.best["accuracy"],
    "now": float((answers == held[1]).mean()),
    "epochs": len(tune.records),
}))
"""


@pytest.mark.skipif(
    keras.backend.backend() == "torch",
    reason="Keras spreads a model over devices on TensorFlow and JAX",
)
def test_two_devices():
    flags = os.environ.get("XLA_FLAGS", "")
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env={
            **os.environ,
            "KERAS_BACKEND": keras.backend.backend(),
            "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count=2",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["epochs"] == 3
    assert found["start"] > 0.6
    assert found["best"] >= found["start"]
    assert found["now"] == pytest.approx(found["best"])
