"""Outlier scores and predictive intervals: do they keep what they promise?

    python benchmarks/outliers.py              # all tables, about 8 minutes

A head of 2048 tanh units is fitted to ResNet50 features of CIFAR-10. Then 2000
CIFAR-10 test images are scored, and 300 images each of something else: digits of
scikit-learn (8 x 8, enlarged to 32 x 32), and noise, uniform and Gaussian. All
go the way of CIFAR-10: 32 x 32 RGB, bicubic to 224 x 224 without antialiasing,
ResNet50's `preprocess_input`, average pooling. A control: 300 further CIFAR-10
test images, which nothing should tell apart from the others (AUROC 0.5). A hard
case: a head fitted to eight classes is shown those that it has not seen.

AUROC is the probability that a strange image has the higher score. Rivals:
Mahalanobis distance on the backbone's features, from the mean of all rows
(penalty 0.1 of the mean variance, the best of 1e-6 to 10 on digits) and from the
nearest class mean (same penalty), and 1 - the largest probability. The penalty of
`outlier_score` was settled with a look at the digits too: with 10000 rows anything
from 1e-6 to 1e-3 gives them 0.976 to 0.986.

Intervals: regression tables, three quarters of the rows to fit 500 units, the
rest to count how many targets lie within 1.96 standard deviations.

Needs `pip install keras-swim[benchmarks]` and, in `KERAS_SWIM_DATA`,
`../shared/data` or `~/.cache/keras_swim_data`: resnet50_cifar10.npz,
resnet50_notop.weights.h5, cifar10.npz, tabular/. Features of the strange images
are kept in the last of these folders.
"""

import argparse
import json
import os
import platform
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from keras_swim import ReadoutState, SampledDense, Uncertainty, swim_fit
from keras_swim.core.spread import Spread

HERE = Path(__file__).parent
CACHE = Path.home() / ".cache" / "keras_swim_data"
FOLDERS = [HERE.parent.parent / "shared" / "data", CACHE]
if "KERAS_SWIM_DATA" in os.environ:
    FOLDERS.insert(0, Path(os.environ["KERAS_SWIM_DATA"]))
UNITS, CLASSES, IMAGES = 2048, 10, 300
TABLE_UNITS = 500
MAHALANOBIS_L2 = 0.1
SEEN_CLASSES = 8
OURS = "`outlier_score`"


def find(name):
    for folder in FOLDERS:
        if (folder / name).exists():
            return folder / name
    raise SystemExit(f"{name} is missing: set KERAS_SWIM_DATA to its folder.")


def digits():
    import tensorflow as tf

    images = load_digits().images
    pick = np.random.default_rng(0).choice(len(images), IMAGES, replace=False)
    colours = np.repeat(images[pick][..., None] * (255 / 16), 3, axis=-1)
    return np.clip(tf.image.resize(colours, (32, 32), "bicubic").numpy(), 0, 255)


def uniform_noise():
    return np.random.default_rng(1).integers(0, 256, (IMAGES, 32, 32, 3))


def gaussian_noise():
    pixels = np.random.default_rng(2).normal(127.5, 64, (IMAGES, 32, 32, 3))
    return np.clip(pixels, 0, 255)


def more_cifar10():
    with np.load(find("cifar10.npz")) as file:
        return file["x_test"][2000 : 2000 + IMAGES]


SETS = {
    "digits": digits,
    "uniform noise": uniform_noise,
    "Gaussian noise": gaussian_noise,
    "control: CIFAR-10": more_cifar10,
}


def resnet50(images):
    import tensorflow as tf

    backbone = keras.applications.ResNet50(
        weights=None, include_top=False, pooling="avg"
    )
    backbone.load_weights(find("resnet50_notop.weights.h5"))
    run = tf.function(lambda x: backbone(x, training=False))
    parts = []
    for start in range(0, len(images), 32):
        batch = tf.cast(images[start : start + 32], "float32")
        batch = tf.image.resize(batch, (224, 224), "bicubic")
        batch = keras.applications.resnet50.preprocess_input(batch)
        parts.append(run(batch).numpy())
    return np.concatenate(parts)


def strange_features():
    """Features of each set, from the cache if they are there."""
    path = CACHE / "resnet50_outliers.npz"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        found = {name: resnet50(make()) for name, make in SETS.items()}
        np.savez(path, **{name: x.astype("float16") for name, x in found.items()})
    with np.load(path) as file:
        return {name: file[name].astype("float32") for name in SETS}


def cifar10_features():
    with np.load(find("resnet50_cifar10.npz")) as file:
        x, x_test = (file[name].astype("float32") for name in ("x_train", "x_test"))
        y, y_test = (file[name].ravel().astype(int) for name in ("y_train", "y_test"))
    return x, y, x_test, y_test


def fit(x, targets, units, seed, activation, y):
    """A fitted head, the state of its readout and the penalty."""
    model = keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            SampledDense(units, seed=seed),
            keras.layers.Dense(targets.shape[1], activation=activation),
        ]
    )
    history = swim_fit(model, x, y, seed=seed, verbose=0)
    state = ReadoutState(units, targets.shape[1])
    for start in range(0, len(x), 2048):
        part = slice(start, start + 2048)
        features = keras.ops.convert_to_numpy(model.layers[0](x[part]))
        state.update(features, targets[part])
    return model, state, history.history["l2"][0]


def head_scores(x, y, seed):
    """Scores from a fitted head, as functions of the backbone's features."""
    model, state, l2 = fit(x, np.eye(CLASSES)[y], UNITS, seed, "softmax", y)
    uncertainty = Uncertainty(model, state, l2)
    return {
        OURS: uncertainty.outlier_score,
        "variance, readout's own l2": lambda v: uncertainty.variance(v)[:, 0],
        "1 - largest probability": lambda v: (
            1 - model.predict(v, verbose=0).max(axis=1)
        ),
    }


def distances(x, y):
    """Scores from the backbone's features alone: no seed has a part in them."""
    codes = np.eye(CLASSES)[y]
    whole = Spread(ReadoutState(x.shape[1], CLASSES).update(x, codes), MAHALANOBIS_L2)
    present, place = np.unique(y, return_inverse=True)
    means = np.stack([x[y == label].mean(axis=0) for label in present])
    within = ReadoutState(x.shape[1], CLASSES).update(x - means[place], codes)
    within = Spread(within, MAHALANOBIS_L2)
    return {
        "Mahalanobis": whole.leverage,
        "Mahalanobis, nearest class": lambda v: np.min(
            [within.leverage(v - mean) for mean in means], axis=0
        ),
    }


def aurocs(score, usual, sets):
    usual = score(usual)
    found = []
    for strange in sets.values():
        labels = np.repeat([0, 1], [len(usual), len(strange)])
        found.append(roc_auc_score(labels, np.concatenate([usual, score(strange)])))
    return found


def outliers(rows, seeds, sets, data):
    """Table of one number of training rows."""
    x, y, x_test, _ = data
    x, y = x[:rows], y[:rows]
    found, quantiles = {}, []
    for seed in seeds:
        methods = head_scores(x, y, seed)
        for name, score in methods.items():
            found.setdefault(name, []).append(aurocs(score, x_test, sets))
        usual = methods[OURS](x_test)
        quantiles.append(np.quantile(usual, [0.05, 0.5, 0.95]))
    for name, score in distances(x, y).items():
        found[name] = [aurocs(score, x_test, sets)]
    low, middle, high = np.mean(quantiles, axis=0)
    return [
        "",
        f"{len(x)} training rows, {UNITS} units, {len(seeds)} seeds: "
        "AUROC (spread of seeds)",
        "",
        f"| score | {' | '.join(sets)} |",
        "|---" * (1 + len(sets)) + "|",
        *(f"| {name} | {_cells(values)} |" for name, values in found.items()),
        "",
        _losses(found, sets),
        f"{OURS} of CIFAR-10 test images: 5 % below {low:.2f}, half below "
        f"{middle:.2f}, 95 % below {high:.2f}.",
    ]


def _losses(found, sets):
    """Which scores do better than ours, and where."""
    means = {name: np.mean(rows, axis=0).round(4) for name, rows in found.items()}
    lost = [
        f"{name} on {place}"
        for name, values in means.items()
        for place, value, ours in zip(sets, values, means[OURS], strict=True)
        if value > ours and not place.startswith("control")
    ]
    return f"Better than {OURS}: {'; '.join(lost) or 'none'}."


def _cells(values):
    means, spreads = np.mean(values, axis=0), np.std(values, axis=0)
    return " | ".join(
        f"{mean:.4f} ({spread:.4f})"
        for mean, spread in zip(means, spreads, strict=True)
    )


def unseen_classes(seeds):
    x, y, x_test, y_test = cifar10_features()
    seen, known = y < SEEN_CLASSES, y_test < SEEN_CLASSES
    sets = {f"classes {SEEN_CLASSES} to {CLASSES - 1}": x_test[~known]}
    return outliers(len(x), seeds, sets, (x[seen], y[seen], x_test[known], None))


def intervals(seeds):
    import pandas

    tasks = json.loads(find("tabular/tasks.json").read_text())
    lines = [
        "",
        f"Intervals of 95 %: {TABLE_UNITS} units, {len(seeds)} seeds",
        "",
        "| table | rows | targets inside | sigma | test error (RMSE) |",
        "|---|---|---|---|---|",
    ]
    for name, task in tasks.items():
        if task["kind"] != "regression":
            continue
        frame = pandas.read_csv(find(f"tabular/{name}.csv.gz"))
        y = frame.pop("target").to_numpy(float)[:, None]
        x = pandas.get_dummies(frame).astype(float)
        x = x.fillna(x.mean()).to_numpy()
        found = [_interval(x, y, seed) for seed in seeds]
        inside, sigma, error = np.mean(found, axis=0)
        lines.append(
            f"| {name} | {len(x) * 3 // 4} | {inside:.3f} | {sigma:.3f} | {error:.3f} |"
        )
    return [*lines, "", "Sigma and error in standard deviations of the targets."]


def _interval(x, y, seed):
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = np.split(order, [len(x) * 3 // 4])
    spread = x[train].std(axis=0)
    x = (x - x[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
    y = (y - y[train].mean()) / y[train].std()
    x = x.astype("float32")
    model, state, l2 = fit(x[train], y[train], TABLE_UNITS, seed, "linear", y[train])
    uncertainty = Uncertainty(model, state, l2)
    gaps = np.abs(model.predict(x[test], verbose=0) - y[test])
    size = np.sqrt(uncertainty.variance(x[test], new_rows=True))
    return (
        np.mean(gaps < 1.96 * size),
        np.sqrt(uncertainty.noise[0]),
        np.sqrt(np.mean(gaps**2)),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    lines = [f"Machine: {os.cpu_count()} cores, {platform.machine()}, no accelerator"]
    sets = strange_features()
    for rows in (10_000, 1000, 300):
        lines += outliers(rows, seeds, sets, cifar10_features())
    lines += unseen_classes(seeds)
    lines += intervals(seeds)
    text = "\n".join(lines) + "\n"
    print(text)
    if len(seeds) == parser.get_default("seeds"):
        (HERE / "outliers.md").write_text("# Outliers and intervals\n\n" + text)


if __name__ == "__main__":
    main()
