"""ResNet50 features of all CIFAR-10 test images, as those of the training images.

    python benchmarks/cifar10_features.py      # about 15 minutes on 2 cores

The training features in `resnet50_cifar10.npz` come with the first 2000 test images
only, where one point is 20 images. This makes those of all 10000: resized to 224 x 224
(bicubic, no antialias), `preprocess_input` of resnet50, ImageNet weights, average
pooling. The first 2000 are compared with those that are there.

Needs `resnet50_notop.weights.h5` and `cifar10.npz` in the data cache
(`KERAS_SWIM_CACHE`, or `~/.cache/keras_swim_data`), where the features go too, as
`resnet50_cifar10_test.npz`.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from results import CACHE

PATH = CACHE / "resnet50_cifar10_test.npz"
BATCH = 50


def load():
    """Features (float32) and labels of all test images."""
    if not PATH.exists():
        sys.exit(f"{PATH} is missing: run python benchmarks/cifar10_features.py first.")
    with np.load(PATH) as file:
        return file["x_test"].astype("float32"), file["y_test"]


def main():
    import keras
    import tensorflow as tf

    for name in ("resnet50_notop.weights.h5", "cifar10.npz"):
        if not (CACHE / name).exists():
            sys.exit(f"{CACHE / name} is missing: set KERAS_SWIM_CACHE to its folder.")
    backbone = keras.applications.ResNet50(
        include_top=False, weights=None, pooling="avg", input_shape=(224, 224, 3)
    )
    backbone.load_weights(CACHE / "resnet50_notop.weights.h5")
    with np.load(CACHE / "cifar10.npz") as file:
        images, labels = file["x_test"], file["y_test"].ravel()
    parts = []
    for start in range(0, len(images), BATCH):
        batch = images[start : start + BATCH].astype("float32")
        batch = tf.image.resize(batch, (224, 224), method="bicubic")
        batch = keras.applications.resnet50.preprocess_input(batch)
        parts.append(backbone.predict_on_batch(batch).astype("float16"))
        print(f"\r{start + len(batch)} of {len(images)} images", end="", flush=True)
    print()
    temporary = PATH.with_suffix(".tmp.npz")
    np.savez(temporary, x_test=np.concatenate(parts), y_test=labels)
    os.replace(temporary, PATH)
    import speed

    known, features = speed.load(1)[2], load()[0]
    gap = np.abs(features[: len(known)] - known).max() / np.abs(known).max()
    print(f"largest difference from the 2000 that are there, relative: {gap:.1e}")


if __name__ == "__main__":
    main()
