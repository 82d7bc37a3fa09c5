"""What it costs to choose width and ridge, and what is chosen.

    python benchmarks/selection.py              # both tables, about 15 minutes
    python benchmarks/selection.py --only cost --rows 10000 --repeats 1

Cost: the rows of benchmarks/speed.py, up to 2048 tanh units, 10 classes. In one
process, taking turns, best of the repeats: a plain fit at full width with a given
ridge; all 2048 widths and 10 ridges on 5000 further rows; 12 widths and 10 ridges
by 5 honest folds. What GridSearchCV over `swimnetworks` would take is extrapolated
from its fits at three widths on four fifths of the rows: straight lines between
them in the logarithms, 12 widths x 10 ridges x 5 folds.

Choice: 10000 real rows of ResNet50 features of CIFAR-10, up to 4096 units, five
seeds, 2000 test rows that no choice has seen. Nothing was tuned.

Needs `pip install keras-swim[benchmarks]` and the features (see speed.py).
"""

import argparse
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import speed

HERE = Path(__file__).parent
UNITS, CLASSES = 2048, 10
L2 = 10.0 ** np.arange(-7, 3)
VALIDATION_ROWS = 5000
RIVAL_WIDTHS = (64, 512, 2048)


def network(columns, units, seed):
    import keras

    from keras_swim import SampledDense

    return keras.Sequential(
        [
            keras.Input((columns,)),
            SampledDense(units, seed=seed),
            keras.layers.Dense(CLASSES, activation="softmax"),
        ]
    )


def plain(x, y, held):
    from keras_swim import swim_fit

    swim_fit(network(x.shape[1], UNITS, 0), x, y, l2=1e-3, seed=0, verbose=0)


def select(x, y, **options):
    from keras_swim import swim_select

    return swim_select(
        network(x.shape[1], UNITS, 0), x, y, l2=L2, seed=0, verbose=0, **options
    )


def all_widths(x, y, held):
    select(x, y, validation_data=held, widths="all")


def twelve_widths(x, y, held):
    select(x, y, validation_data=held)


def folds(x, y, held):
    select(x, y, folds=5)


RUNS = {
    "plain fit, full width, ridge given": plain,
    f"all {UNITS} widths x 10 ridges, {VALIDATION_ROWS} validation rows": all_widths,
    f"12 widths x 10 ridges, {VALIDATION_ROWS} validation rows": twelve_widths,
    "12 widths x 10 ridges x 5 honest folds": folds,
}


def rival_seconds(x, y):
    """Seconds of GridSearchCV over swimnetworks, from three of its fits."""
    from sklearn.pipeline import Pipeline
    from swimnetworks import Dense, Linear

    rows = len(x) * 4 // 5
    seconds = []
    for width in RIVAL_WIDTHS:
        dense = Dense(
            layer_width=width,
            activation="tanh",
            parameter_sampler="tanh",
            is_classifier=True,
            random_seed=0,
        )
        linear = Linear(regularization_scale=1e-10, is_classifier=True)
        pipeline = Pipeline([("dense", dense), ("linear", linear)])
        start = time.perf_counter()
        pipeline.fit(x[:rows], y[:rows])
        seconds.append(time.perf_counter() - start)
        print("swimnetworks", width, seconds[-1], file=sys.stderr, flush=True)
    ladder = UNITS * 2.0 ** (-np.arange(12) / 2)
    each = np.interp(np.log(ladder), np.log(RIVAL_WIDTHS), np.log(seconds))
    return 50 * np.exp(each).sum(), seconds


def cost(rows, repeats):
    x, y, _, _ = speed.load(rows + VALIDATION_ROWS)
    held = x[rows:], y[rows:]
    x, y = x[:rows], y[:rows]
    for run in RUNS.values():
        run(x[:2000], y[:2000], (held[0][:500], held[1][:500]))
    best = dict.fromkeys(RUNS, np.inf)
    for _ in range(repeats):
        for name, run in RUNS.items():
            start = time.perf_counter()
            run(x, y, held)
            seconds = time.perf_counter() - start
            best[name] = min(best[name], seconds)
            print(name, seconds, file=sys.stderr, flush=True)
    base = next(iter(best.values()))
    rival, single = rival_seconds(x, y)
    lines = [
        f"{rows} rows, up to {UNITS} units, best of {repeats}",
        "",
        "| | seconds | of a plain fit |",
        "|---|---|---|",
    ]
    for name, seconds in best.items():
        lines.append(f"| {name} | {seconds:.2f} | {seconds / base:.2f} |")
    lines.append(
        f"| GridSearchCV over `swimnetworks`, 600 fits (extrapolated) | {rival:.0f} | "
        f"{rival / base:.0f} |"
    )
    ours = best["12 widths x 10 ridges x 5 honest folds"]
    fits = ", ".join(
        f"{width} units {value:.1f} s"
        for width, value in zip(RIVAL_WIDTHS, single, strict=True)
    )
    return [
        *lines,
        "",
        f"The same grid by `swim_select` is {rival / ours:.0f} times faster. Measured "
        f"fits of `swimnetworks` on {rows * 4 // 5} rows: {fits}.",
        "",
    ]


def choice():
    from keras_swim import swim_select

    x, y, x_test, y_test = speed.load(10_000)
    half = len(x) * 9 // 10
    methods = {
        "honest folds": {},
        "honest folds, one standard error": {"rule": "one_standard_error"},
        "leave one out": {"method": "leave_one_out"},
        "validation, 1000 of the rows": None,
    }
    found = {name: [] for name in methods}
    for seed in range(5):
        for name, options in methods.items():
            data = (x, y)
            if options is None:
                data = (x[:half], y[:half])
                options = {"validation_data": (x[half:], y[half:])}
            selection = swim_select(
                network(x.shape[1], 4096, seed), *data, seed=seed, verbose=0, **options
            )
            right = selection.model.predict(x_test, verbose=0).argmax(axis=1) == y_test
            metrics = selection.metrics["accuracy"]
            found[name].append((selection.width, selection.l2, metrics, right.mean()))
            print(name, found[name][-1], file=sys.stderr, flush=True)
    lines = [
        "10000 real rows, up to 4096 units, mean of five seeds",
        "",
        "| chosen by | width | l2 | held-out | test accuracy | spread |",
        "|---|---|---|---|---|---|",
    ]
    for name, runs in found.items():
        width, l2, held, test = np.mean(runs, axis=0)
        l2 = np.exp(np.mean(np.log([run[1] for run in runs])))
        spread = np.std([run[3] for run in runs])
        lines.append(
            f"| {name} | {width:.0f} | {l2:.1e} | {held:.4f} | {test:.4f} | "
            f"{spread:.4f} |"
        )
    return [*lines, ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=["cost", "choice"])
    arguments = parser.parse_args()
    lines = [
        f"Machine: {os.cpu_count()} cores, {platform.machine()}, no accelerator",
        "",
    ]
    if arguments.only in (None, "cost"):
        lines += cost(arguments.rows, arguments.repeats)
    if arguments.only in (None, "choice"):
        lines += choice()
    text = "\n".join(lines)
    print(text)
    if arguments.only is None and arguments.rows == parser.get_default("rows"):
        (HERE / "selection.md").write_text("# Selection\n\n" + text)


if __name__ == "__main__":
    main()
