"""How many wrong labels `pair_report` finds.

    python benchmarks/provenance.py            # five seeds, about three minutes

ResNet50 features of CIFAR-10, 10000 rows, 500 of the labels (5 %) replaced by
another class at random; 2048 tanh units, `l2="auto"`. Counted are the replaced
labels among the rows that the first 500 lines of the report name (two rows a
line), and among the first 500 of several rankings of rows. "Chance" are lines
with two random rows. Leave-one-out residuals need the features of all rows once
more, and so are no part of the report; the closest of all 50 million pairs are
what the order by distance would find if every pair were a unit.

Needs the features (`KERAS_SWIM_DATA`, or `../shared/data`).
"""

import argparse
import os
import sys
from pathlib import Path

import keras
import numpy as np
from scipy.linalg import cho_factor, cho_solve

from keras_swim import SampledDense, pair_report, swim_fit

HERE = Path(__file__).parent
UNITS, CLASSES, WRONG = 2048, 10, 500
FIRST, VERY_FIRST = 500, 20


def load():
    folder = os.environ.get("KERAS_SWIM_DATA", HERE.parent.parent / "shared" / "data")
    path = Path(folder) / "resnet50_cifar10.npz"
    if not path.exists():
        sys.exit(f"{path} is missing: set KERAS_SWIM_DATA to its folder.")
    with np.load(path) as file:
        return file["x_train"].astype("float32"), file["y_train"].ravel().astype(int)


def fit(x, y, seed):
    model = keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            SampledDense(UNITS),
            keras.layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    history = swim_fit(model, x, y, seed=seed, verbose=0)
    return model, history.history["l2"][0]


def leave_one_out(model, x, y, l2):
    """Squared leave-one-out residuals of the readout, all units kept."""
    features = np.concatenate(
        [
            keras.ops.convert_to_numpy(model.layers[0](x[start : start + 2048]))
            for start in range(0, len(x), 2048)
        ]
    ).astype("float64")
    features -= features.mean(axis=0)
    targets = np.eye(CLASSES)[y] - np.eye(CLASSES)[y].mean(axis=0)
    gram = features.T @ features
    gram[np.diag_indices(UNITS)] += l2 * np.trace(gram) / UNITS
    factor = cho_factor(gram)
    residual = targets - features @ cho_solve(factor, features.T @ targets)
    leverage = 1 / len(x)
    leverage += np.einsum("nk,kn->n", features, cho_solve(factor, features.T))
    return ((residual / (1 - leverage)[:, None]) ** 2).sum(axis=1)


def closest_of_all(x, y, count):
    """The closest pairs of different labels among all pairs of rows."""
    squares = np.einsum("nd,nd->n", x, x)
    rows = np.arange(len(x))
    found = []
    for start in range(0, len(x), 1000):
        part = rows[start : start + 1000]
        distance = squares[part, None] + squares - 2 * x[part] @ x.T
        distance[(y[part, None] == y) | (rows <= part[:, None])] = np.inf
        best = np.argpartition(distance.ravel(), count)[:count]
        pairs = np.stack([part[best // len(x)], best % len(x)], axis=1)
        found.append((distance.ravel()[best], pairs))
    order = np.argsort(np.concatenate([part[0] for part in found]))[:count]
    return np.concatenate([part[1] for part in found])[order]


def measure(x, y, seed):
    """Name of an order of lines or rows -> wrong labels that it finds."""
    rng = np.random.default_rng(seed)
    wrong = np.zeros(len(y), dtype=bool)
    wrong[rng.choice(len(y), WRONG, replace=False)] = True
    y = np.where(wrong, (y + rng.integers(1, CLASSES, len(y))) % CLASSES, y)
    model, l2 = fit(x, y, seed)
    lines = {"chance": rng.integers(0, len(y), size=(FIRST, 2))}
    for sort in ("distance", "strength", "suspicion"):
        report = pair_report(model, x, y, sort=sort)
        lines[f'sort="{sort}"'] = np.stack([report.row_a, report.row_b], axis=1)
    lines["closest of all pairs"] = closest_of_all(x, y, FIRST)
    by_distance = pair_report(model, x, y, suspects="pairs")
    close = np.stack([by_distance.row_a, by_distance.row_b])[:, :FIRST]
    appearances = np.bincount(close.ravel(), minlength=len(y))
    rows = {
        "chance": rng.permutation(len(y)),
        "appearances in the 500 closest pairs": np.argsort(-appearances, kind="stable"),
        "leave-one-out residual": np.argsort(-leave_one_out(model, x, y, l2)),
        'report.suspects, suspects="pairs"': by_distance.suspects,
        "report.suspects": report.suspects,
    }
    found = {}
    for name, pairs in lines.items():
        named = [np.unique(pairs[:count]) for count in (VERY_FIRST, FIRST)]
        found["lines", name] = [*(wrong[rows].sum() for rows in named), len(named[1])]
    for name, order in rows.items():
        found["rows", name] = [wrong[order[:FIRST]].sum()]
    units = np.unique(model.layers[0].pairs)
    found["units", ""] = [len(units), wrong[units].sum()]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    x, y = load()
    runs = []
    for seed in range(arguments.seeds):
        runs.append(measure(x, y, seed))
        print(f"seed {seed} done", file=sys.stderr, flush=True)
    values = {key: np.array([run[key] for run in runs]) for key in runs[0]}
    means = {key: part.mean(axis=0) for key, part in values.items()}
    in_pairs = means["units", ""]
    text = [
        f"{len(x)} rows, {WRONG} wrong labels, {UNITS} units, mean of "
        f"{arguments.seeds} seeds (smallest to largest)",
        "",
        f"The units are made from {in_pairs[0]:.0f} rows, {in_pairs[1]:.0f} of them "
        "with a wrong label.",
        "",
        f"Wrong labels in the first {FIRST} lines of the report (two rows a line):",
        "",
        f"| order | wrong labels | of rows | in the first {VERY_FIRST} lines |",
        "|---|---|---|---|",
    ]
    for (kind, name), mean in means.items():
        if kind == "lines":
            low, high = values[kind, name][:, 1].min(), values[kind, name][:, 1].max()
            text.append(
                f"| {name} | {mean[1]:.0f} ({low} to {high}) | {mean[2]:.0f} | "
                f"{mean[0]:.1f} |"
            )
    text += ["", f"Wrong labels in the first {FIRST} rows of a ranking of rows:", ""]
    text += ["| ranking | wrong labels | precision |", "|---|---|---|"]
    for (kind, name), mean in means.items():
        if kind == "rows":
            low, high = values[kind, name].min(), values[kind, name].max()
            text.append(
                f"| {name} | {mean[0]:.0f} ({low} to {high}) | {mean[0] / FIRST:.2f} |"
            )
    text = "\n".join(text) + "\n"
    print(text)
    if arguments.seeds == parser.get_default("seeds"):
        (HERE / "provenance.md").write_text("# Wrong labels\n\n" + text)


if __name__ == "__main__":
    main()
