"""Heads on ResNet50: few images, and the cost of a fit beside the backbone's.

    python benchmarks/heads.py                 # both tables, about 15 minutes
    python benchmarks/heads.py --only few
    python benchmarks/heads.py --report        # what is known

Few images: features of CIFAR-10 images (10000 to draw from, 2000 test images),
ten draws of 20 to 2000 images with every class in them. The head of `SwimHead` as it
comes (2048 tanh units, ridge by honest folds), plain ridge regression on the features
with its penalty chosen by leave-one-out (scikit-learn's RidgeClassifierCV, 19 penalties
relative to the features' mean square), and the head of the paper trained by Adam (tanh
2048, 1e-3, batch 32, 20 epochs, the weights of the best training loss; three of the
draws). Nothing was tuned on the test images.

Speed: 1000 images at 224 pixels, real ResNet50 weights. `swim_fit` on raw images
beside `backbone.predict` on batches that were preprocessed before, in turns, best
of two.

Needs `pip install keras-swim[benchmarks]`, the features (see speed.py), and for the
speed the weights and images in the data cache (`KERAS_SWIM_CACHE`, or
`~/.cache/keras_swim_data`): `resnet50_notop.weights.h5`, `cifar10.npz`.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import speed
from results import CACHE, Results

HERE = Path(__file__).parent
SIZES = (20, 50, 100, 200, 500, 2000)
DRAWS, ADAM_DRAWS = 10, 3
IMAGES = 1000
RESULTS = Results("heads")


def head_model(columns, seed, **settings):
    """The head of `SwimHead`, from features."""
    import keras

    from keras_swim import SwimHead
    from keras_swim.build.heads import split_head

    inputs = keras.Input((1, columns, 1))
    nothing = keras.Model(inputs, keras.layers.Flatten()(inputs))
    return split_head(SwimHead(nothing, 10, seed=seed, **settings))[1]


def sampled(x, y, seed, **settings):
    from keras_swim import swim_fit

    model = head_model(x.shape[1], seed, **settings)
    swim_fit(model, x, y, seed=seed, verbose=0)
    return lambda x: model.predict(x, verbose=0).argmax(axis=1)


def plain_ridge(x, y, seed):
    from sklearn.linear_model import RidgeClassifierCV

    mean = ((x - x.mean(axis=0)) ** 2).sum() / x.shape[1]
    model = RidgeClassifierCV(alphas=mean * 10.0 ** np.arange(-6, 3.1, 0.5))
    model.fit(x.astype(float), y)
    return model.predict


def adam(x, y, seed, held=0.0):
    import keras

    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [
            keras.Input((x.shape[1],)),
            keras.layers.Dense(2048, activation="tanh"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(1e-3),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    # The last epoch may be a bad one: the weights of the best are kept.
    stop = keras.callbacks.EarlyStopping(
        "val_accuracy" if held else "loss", patience=10, restore_best_weights=True
    )
    model.fit(
        x,
        y,
        batch_size=32,
        epochs=20,
        validation_split=held,
        callbacks=[stop],
        verbose=0,
    )
    return lambda x: model.predict(x, verbose=0).argmax(axis=1)


HEADS = {"sampled head": sampled, "plain ridge": plain_ridge, "Adam head": adam}


def drawn(y, size, seed):
    """Numbers of `size` rows, two or more of each class."""
    rng = np.random.default_rng(seed)
    each = [rng.permutation(np.flatnonzero(y == label)) for label in range(10)]
    first = np.concatenate([rows[:2] for rows in each])
    others = np.setdiff1d(np.arange(len(y)), first)
    return np.concatenate([first, rng.permutation(others)[: size - len(first)]])


def few():
    """For each number of images: accuracies of each head, one a draw."""
    x, y, x_test, y_test = speed.load(10_000)
    found = {}
    for size in SIZES:
        rights = {name: [] for name in HEADS}
        for draw in range(DRAWS):
            rows = drawn(y, size, draw)
            for name, head in HEADS.items():
                if name == "Adam head" and draw >= ADAM_DRAWS:
                    continue
                right = head(x[rows], y[rows], draw)(x_test) == y_test
                rights[name].append(float(right.mean()))
        found[str(size)] = rights
        print(size, {k: np.mean(v) for k, v in rights.items()}, file=sys.stderr)
    return found


def few_table(found):
    lines = [
        f"Test accuracy with few images, mean of {DRAWS} draws (Adam: {ADAM_DRAWS})",
        "",
        "| images | " + " | ".join(HEADS) + " | sampled - ridge |",
        "|---|" + "---|" * (len(HEADS) + 1),
    ]
    for size, rights in found.items():
        gaps = np.subtract(rights["sampled head"], rights["plain ridge"])
        cells = [f"{np.mean(values):.4f}" for values in rights.values()]
        error = gaps.std() / np.sqrt(len(gaps))
        lines.append(
            f"| {size} | {' | '.join(cells)} | {gaps.mean():+.4f} ± {error:.4f} |"
        )
    return [*lines, "", "![Accuracy over the number of images](heads_few.png)", ""]


def draw_few(found, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axis = figure.subplots()
    sizes = [int(size) for size in found]
    for name in HEADS:
        means = [np.mean(rights[name]) for rights in found.values()]
        axis.plot(sizes, means, "o-", label=name)
    axis.set_xscale("log")
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.minorticks_off()
    axis.set_xlabel("images (10 classes)")
    axis.set_ylabel("test accuracy")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.2)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=110)


def cost():
    import keras

    from keras_swim import SwimHead, swim_fit

    weights = CACHE / "resnet50_notop.weights.h5"
    if not weights.exists():
        sys.exit(f"{weights} is missing: set KERAS_SWIM_CACHE to its folder.")
    with np.load(CACHE / "cifar10.npz") as file:
        images = file["x_train"][:IMAGES]
        labels = file["y_train"].ravel()[:IMAGES].astype(int)
    model = SwimHead("ResNet50", 10, weights=weights, seed=0)
    backbone = model.get_layer("resnet50")
    before = keras.Model(model.inputs, model.get_layer("preprocessing").output)
    ready = before.predict(images, verbose=0)
    backbone.predict(ready[:64], verbose=0)
    swim_fit(model, images[:64], labels[:64], verbose=0)
    seconds = {"backbone.predict": [], "swim_fit": []}
    for _ in range(2):
        start = time.perf_counter()
        backbone.predict(ready, batch_size=32, verbose=0)
        seconds["backbone.predict"].append(time.perf_counter() - start)
        start = time.perf_counter()
        swim_fit(model, images, labels, seed=0, verbose=0)
        seconds["swim_fit"].append(time.perf_counter() - start)
        print(seconds, file=sys.stderr, flush=True)
    return seconds


def cost_table(seconds):
    base, ours = (min(values) for values in seconds.values())
    return [
        f"{IMAGES} images, ResNet50 at 224 pixels, best of two",
        "",
        "| | seconds | of the backbone |",
        "|---|---|---|",
        f"| `backbone.predict`, images preprocessed before | {base:.1f} | 1.00 |",
        f"| `swim_fit` on raw images | {ours:.1f} | {ours / base:.2f} |",
        "",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["few", "speed"])
    parser.add_argument("--report", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    parts = {"few": few, "speed": cost}
    for name, run in parts.items():
        if arguments.only in (None, name) and not arguments.report:
            RESULTS.keep(name, run())
    known = RESULTS.known()
    lines = ["# Heads", "", "From `python benchmarks/heads.py`.", ""]
    if "few" in known:
        lines += few_table(known["few"])
        draw_few(known["few"], HERE / "heads_few.png")
    if "speed" in known:
        lines += cost_table(known["speed"])
    print("\n".join(lines))
    (HERE / "heads.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
