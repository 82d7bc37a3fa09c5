"""Speed and memory of `swim_fit` beside `swimnetworks` and bare NumPy.

    python benchmarks/speed.py                 # all tables, about 15 minutes
    python benchmarks/speed.py --rows 10000 --repeats 1 --only speed

2048 tanh units, 10 classes, float32 features of dimension 2048. Speed is
measured on ResNet50 features of CIFAR-10, repeated with noise of a tenth of
their spread up to the wanted number of rows; accuracy on the 10000 real rows
alone, with 2000 test rows and several seeds. Every method runs in a process of
its own, after a warm-up on 2000 rows, and the methods take turns, so that a busy
machine slows all of them down. "Bare products" is what no method can avoid:
features times kernel in float32, Gram matrix in float64. The given `l2` is 1e-3
and was not tuned; random weights have the scale that gives pre-activations of
order 1.

Needs `pip install keras-swim[benchmarks]` and the features
(`KERAS_SWIM_DATA`, or `../shared/data`).
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
UNITS, CLASSES = 2048, 10
L2 = 1e-3
REAL_ROWS, SEEDS = 10_000, range(5)
ROWS_FOR_GROWTH = (10_000, 50_000, 200_000)
METHODS = {
    "bare products": "bare",
    "swim_fit, l2 given": "given",
    "swim_fit, l2 given, float32 sums": "fast",
    'swim_fit, l2="auto"': "auto",
    'random weights, l2="auto"': "random",
    "swimnetworks": "swimnetworks",
}


def load(rows):
    folder = os.environ.get("KERAS_SWIM_DATA", HERE.parent.parent / "shared" / "data")
    path = Path(folder) / "resnet50_cifar10.npz"
    if not path.exists():
        sys.exit(f"{path} is missing: set KERAS_SWIM_DATA to its folder.")
    with np.load(path) as file:
        x, y = file["x_train"].astype("float32"), file["y_train"].ravel()
        x_test, y_test = file["x_test"].astype("float32"), file["y_test"].ravel()
    rng = np.random.default_rng(0)
    spread = 0.1 * x.std(axis=0)
    whole = np.empty((rows, x.shape[1]), "float32")
    for start in range(0, rows, len(x)):
        part = whole[start : start + len(x)]
        part[:] = x[: len(part)]
        if start:
            part += rng.standard_normal(part.shape, dtype="float32") * spread
    return whole, np.resize(y, rows), x_test, y_test


def run_bare(x, y, seed):
    kernel = np.random.default_rng(0).normal(size=(x.shape[1], UNITS))
    kernel = kernel.astype("float32")
    gram = np.zeros((UNITS, UNITS))
    for start in range(0, len(x), 2048):
        features = x[start : start + 2048] @ kernel
        features = features.astype("float64")
        gram += features.T @ features
    return None


def run_swim(x, y, seed, **options):
    import keras

    from keras_swim import SampledDense, swim_fit

    sampler = options.pop("sampler", "gradient")
    scale = 1.0 if sampler == "gradient" else 1 / np.sqrt((x[:2000] ** 2).sum(1).mean())
    model = keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            SampledDense(UNITS, seed=seed, sampler=sampler, scale=float(scale)),
            keras.layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    history = swim_fit(model, x, y, seed=seed, verbose=0, **options)
    stages = {
        name.removeprefix("seconds_"): round(values[0], 2)
        for name, values in history.history.items()
        if name.startswith("seconds_")
    }
    return lambda x: model.predict(x, verbose=0).argmax(axis=1), stages


def run_swimnetworks(x, y, seed):
    from sklearn.pipeline import Pipeline
    from swimnetworks import Dense, Linear

    pipeline = Pipeline(
        [
            (
                "dense",
                Dense(
                    layer_width=UNITS,
                    activation="tanh",
                    parameter_sampler="tanh",
                    is_classifier=True,
                    random_seed=seed,
                ),
            ),
            ("linear", Linear(regularization_scale=1e-10, is_classifier=True)),
        ]
    )
    pipeline.fit(x, y)
    return lambda x: pipeline.transform(x).ravel(), {}


RUNS = {
    "bare": run_bare,
    "given": lambda *data: run_swim(*data, l2=L2),
    "fast": lambda *data: run_swim(*data, l2=L2, sums_dtype="float32"),
    "auto": lambda *data: run_swim(*data),
    "random": lambda *data: run_swim(*data, sampler="random"),
    "swimnetworks": run_swimnetworks,
}


def peak_bytes():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def reset_peak():
    Path("/proc/self/clear_refs").write_text("5")


def child(method, rows, seed):
    """One measurement; prints one line of JSON."""
    x, y, x_test, y_test = load(rows)
    run = RUNS[method]
    run(x[:2000], y[:2000], seed)
    reset_peak()
    before = peak_bytes()
    start = time.perf_counter()
    result = run(x, y, seed)
    seconds = time.perf_counter() - start
    found = {"seconds": seconds, "extra_mb": (peak_bytes() - before) / 2**20}
    if result is not None:
        predict, found["stages"] = result
        found["accuracy"] = float(np.mean(predict(x_test) == y_test))
    print(json.dumps(found))


def measure(method, rows, seed=0):
    command = [sys.executable, __file__, "--child", method]
    command += ["--rows", str(rows), "--seed", str(seed)]
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", KERAS_BACKEND="tensorflow")
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def table(rows, repeats):
    results = {name: [] for name in METHODS}
    for _ in range(repeats):
        for name, method in METHODS.items():
            results[name].append(measure(method, rows))
            print(name, results[name][-1], file=sys.stderr, flush=True)
    # Noise only ever adds time: the smallest of the repeats is the cost.
    best = {
        name: min(runs, key=lambda run: run["seconds"])
        for name, runs in results.items()
    }
    bare, rival = best["bare products"], best["swimnetworks"]
    lines = [
        f"{rows} rows, {UNITS} units, {CLASSES} classes, best of {repeats}",
        "",
        "| method | seconds | x bare | swimnetworks / it | extra MB |",
        "|---|---|---|---|---|",
    ]
    for name, run in best.items():
        lines.append(
            f"| {name} | {run['seconds']:.2f} | "
            f"{run['seconds'] / bare['seconds']:.2f} | "
            f"{rival['seconds'] / run['seconds']:.2f} | "
            f"{run['extra_mb']:.0f} |"
        )
    lines += ["", "Stages in seconds:", ""]
    lines += [
        f"- {name}: {run['stages']}" for name, run in best.items() if run.get("stages")
    ]
    return lines


def accuracy():
    found = {name: [] for name, method in METHODS.items() if method != "bare"}
    for seed in SEEDS:
        for name in found:
            found[name].append(measure(METHODS[name], REAL_ROWS, seed)["accuracy"])
    lines = [
        "",
        f"{REAL_ROWS} real rows, {len(SEEDS)} seeds, 2000 test rows",
        "",
        "| method | test accuracy | spread of seeds |",
        "|---|---|---|",
    ]
    for name, values in found.items():
        lines.append(f"| {name} | {np.mean(values):.4f} | {np.std(values):.4f} |")
    return lines


def growth(repeats):
    """Seconds over rows: of the whole fit, and of the pass over the rows.

    Sampling, choosing and solving cost the same for any number of rows.
    """
    lines = ["", "Growth with rows, l2 given", ""]
    lines += ["| rows | whole fit | pass over the rows |", "|---|---|---|"]
    whole, rows_only = [], []
    for rows in ROWS_FOR_GROWTH:
        runs = [measure("given", rows) for _ in range(repeats)]
        whole.append(min(run["seconds"] for run in runs))
        rows_only.append(min(run["stages"]["sums"] for run in runs))
        lines.append(f"| {rows} | {whole[-1]:.2f} | {rows_only[-1]:.2f} |")
    exponents = [
        np.polyfit(np.log(ROWS_FOR_GROWTH), np.log(seconds), 1)[0]
        for seconds in (whole, rows_only)
    ]
    return [*lines, f"| exponent | {exponents[0]:.2f} | {exponents[1]:.2f} |"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=["speed", "accuracy", "growth"])
    parser.add_argument("--child", choices=RUNS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.rows, arguments.seed)
        return
    lines = [
        f"Machine: {os.cpu_count()} cores, {platform.machine()}, no accelerator",
        "",
    ]
    if arguments.only in (None, "speed"):
        lines += table(arguments.rows, arguments.repeats)
    if arguments.only in (None, "accuracy"):
        lines += accuracy()
    if arguments.only in (None, "growth"):
        lines += growth(arguments.repeats)
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.only is None and arguments.rows == parser.get_default("rows"):
        (HERE / "speed.md").write_text("# Speed\n\n" + text)


if __name__ == "__main__":
    main()
