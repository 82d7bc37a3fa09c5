"""Heads on ResNet50 features of 10000 CIFAR-10 images, beside every rival.

    python benchmarks/head_rivals.py           # about 45 minutes on 2 cores
    python benchmarks/head_rivals.py --seeds 0
    python benchmarks/head_rivals.py --report  # table and plot of what is there

10000 training rows, all 10000 test images (and the first 2000 alone, a column of its
own). Everything that is chosen is chosen on training rows:

- sampled 2048: `SwimHead` and `swim_fit` as they come;
- selected: transform (none, square root) and scale (1, 2, 4) by the accuracy on 2000
  held-out training rows, at up to 4096 units, then width (512 to 16384) and ridge
  likewise, once, with the first seed; then a fit of these settings on all rows for
  each seed;
- swimnetworks: 2048 units, its defaults;
- Adam: the paper's head, tanh 2048 and softmax, 1e-3, batches of 32, 20 epochs,
  the weights of the best accuracy on a tenth of the rows, patience 10 (the best loss
  there, or the last epoch on all rows, were points worse);
- plain ridge: penalty by leave-one-out (scikit-learn's RidgeClassifierCV);
- logistic regression (scikit-learn): C on the 2000 held-out rows, then all rows;
- random ReLU 10000 (RanPAC's head): ridge on the 2000 held-out rows, then all rows;
- random tanh 2048: random weights, ridge by folds.

"Best in hindsight" is the best test accuracy over a rival's whole grid, which nobody
can choose. Seconds are those of choosing and fitting, on the features.

Needs `pip install keras-swim[benchmarks]`, the features (see speed.py) and those of all
test images (cifar10_features.py). What is done is kept in the data cache: a run that
was cut goes on.
"""

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import cifar10_features
import heads
import numpy as np
import speed
from results import Results

HERE = Path(__file__).parent
RESULTS = Results("head_rivals")
HELD = 2000
WIDEST = 16384
C_GRID = (0.001, 0.003, 0.01, 0.03, 0.1)
RIDGES = 10.0 ** np.arange(-2, 2.1, 0.5)


def sampled(x, y, seed):
    return heads.sampled(x, y, seed), {}


def settings(x, y, seed):
    """Transform and scale by the held-out rows."""
    best = None
    for transform in (None, "sqrt"):
        for scale in (1.0, 2.0, 4.0):
            found = chosen(x, y, 4096, seed, transform=transform, scale=scale)
            right = float(found.surface.accuracy.max())
            print(transform, scale, right, file=sys.stderr, flush=True)
            if best is None or right > best["right"]:
                best = {"scale": scale, "transform": transform, "right": right}
    return best


def chosen(x, y, widest, seed, **setting):
    """Width and ridge by the held-out rows."""
    from keras_swim import swim_select

    return swim_select(
        heads.head_model(x.shape[1], seed, units=widest, **setting),
        x[:-HELD],
        y[:-HELD],
        validation_data=(x[-HELD:], y[-HELD:]),
        widths=[widest >> k for k in range(6)],
        l2=10.0 ** np.arange(-3.5, -1.4, 0.5),
        seed=seed,
        verbose=0,
    )


def selection(x, y, seed):
    """Transform and scale, then width and ridge; and what it took."""
    start = time.perf_counter()
    best = RESULTS.run("settings", settings, x, y, seed)
    setting = {name: best[name] for name in ("scale", "transform")}
    found = chosen(x, y, WIDEST, seed, **setting)
    return {
        **setting,
        "width": found.width,
        "l2": float(found.l2),
        "widths": found.surface.widths.tolist(),
        "held_out": found.surface.accuracy.max(axis=1).tolist(),
        "selection_seconds": time.perf_counter() - start,
    }


def selected(x, y, seed):
    from keras_swim import swim_fit

    found = RESULTS.run("selection", selection, x, y, 0)
    start = time.perf_counter()
    setting = {name: found[name] for name in ("scale", "transform")}
    model = heads.head_model(x.shape[1], seed, units=found["width"], **setting)
    swim_fit(model, x, y, l2=found["l2"], seed=seed, verbose=0)
    found = {**found, "seconds": time.perf_counter() - start}
    return lambda x: model.predict(x, verbose=0).argmax(axis=1), found


def swimnetworks(x, y, seed):
    return speed.run_swimnetworks(x, y, seed)[0], {}


def adam(x, y, seed):
    return heads.adam(x, y, seed, held=0.1), {}


def plain_ridge(x, y, seed):
    return heads.plain_ridge(x, y, seed), {}


def logistic(x, y, seed, x_test, y_test):
    from sklearn.linear_model import LogisticRegression

    held, test = {}, {}
    for c in C_GRID:
        one = LogisticRegression(C=c, max_iter=300).fit(x[:-HELD], y[:-HELD])
        held[c] = float(one.score(x[-HELD:], y[-HELD:]))
    best = max(held, key=held.get)
    model = LogisticRegression(C=best, max_iter=300).fit(x, y)
    clock = time.perf_counter()
    for c in C_GRID:
        one = model if c == best else None
        one = one or LogisticRegression(C=c, max_iter=300).fit(x, y)
        test[c] = float(one.score(x_test, y_test))
    found = {"C": best, "hindsight": max(test.values())}
    return model.predict, found, time.perf_counter() - clock


def random_relu(x, y, seed, x_test, y_test, units=10_000):
    """Ridge on `relu(x @ normal)` from the Gram matrix of the rows."""
    from scipy import linalg

    rng = np.random.default_rng(seed)
    kernel = rng.normal(size=(x.shape[1], units)).astype("float32")

    def features(x):
        return np.maximum(x @ kernel, 0)

    def solutions(f, y, penalties):
        mean, targets = f.mean(axis=0), np.eye(10)[y]
        f = f - mean
        gram = (f @ f.T).astype(float)
        centre = targets.mean(axis=0)
        base = np.trace(gram) / units
        for penalty in penalties:
            system = gram + penalty * base * np.eye(len(gram))
            dual = linalg.solve(system, targets - centre, assume_a="pos")
            yield f.T @ dual.astype("float32"), mean, centre

    def accuracy(f, y, solution):
        w, mean, centre = solution
        return float((((f - mean) @ w + centre).argmax(axis=1) == y).mean())

    f = features(x)
    held = [
        accuracy(f[-HELD:], y[-HELD:], one)
        for one in solutions(f[:-HELD], y[:-HELD], RIDGES)
    ]
    best = RIDGES[int(np.argmax(held))]
    (solution,) = solutions(f, y, [best])
    clock = time.perf_counter()
    g = features(x_test)
    near = best * 10.0 ** np.arange(-1, 1.1, 0.5)
    test = [accuracy(g, y_test, one) for one in solutions(f, y, near)]
    w, mean, centre = solution
    found = {"l2": float(best), "hindsight": max(test)}
    return (
        lambda x: ((features(x) - mean) @ w + centre).argmax(axis=1),
        found,
        time.perf_counter() - clock,
    )


def random_tanh(x, y, seed):
    return speed.run_swim(x, y, seed, sampler="random")[0], {}


HEADS = {
    "sampled 2048": sampled,
    "selected": selected,
    "swimnetworks 2048": swimnetworks,
    "Adam, tanh 2048": adam,
    "random tanh 2048": random_tanh,
    "random ReLU 10000": random_relu,
    "plain ridge": plain_ridge,
    "logistic regression": logistic,
}
NO_SEEDS = ("plain ridge", "logistic regression")
LOOK_AT_TEST = ("logistic regression", "random ReLU 10000")


def run(name, seed):
    x, y, _, _ = speed.load(10_000)
    x_test, y_test = cifar10_features.load()
    more = (x_test, y_test) if name in LOOK_AT_TEST else ()
    if name not in NO_SEEDS:
        heads.sampled(x[:300], y[:300], 0)  # What the first call alone costs.
    start = time.perf_counter()
    # Seconds of looking at the test rows do not count.
    predict, found, *looked = HEADS[name](x, y, seed, *more)
    seconds = time.perf_counter() - start - sum(looked)
    right = predict(x_test) == y_test
    found = {
        "seconds": seconds,
        "accuracy": float(right.mean()),
        "first": float(right[:2000].mean()),
        **found,
    }
    print(name, seed, found, file=sys.stderr, flush=True)
    return found


def table(found):
    lines = [
        "| head | test accuracy | spread of seeds | first 2000 test images | best in "
        "hindsight | seconds | chosen |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in HEADS:
        runs = [one for key, one in sorted(found.items()) if key.startswith(f"{name}/")]
        if not runs:
            continue
        every = np.array([one["accuracy"] for one in runs])
        hindsight = [one["hindsight"] for one in runs if "hindsight" in one]
        chosen = {
            ", ".join(
                f"{key} {one[key]:.2g}"
                if isinstance(one[key], float)
                else f"{key} {one[key]}"
                for key in ("transform", "skip", "scale", "width", "l2", "C")
                if key in one
            )
            for one in runs
        }
        lines.append(
            f"| {name} | {every.mean():.4f} | "
            f"{f'{every.std(ddof=1):.4f}' if len(every) > 1 else '-'} | "
            f"{np.mean([one['first'] for one in runs]):.4f} | "
            f"{f'{np.mean(hindsight):.4f}' if hindsight else ''} | "
            f"{np.median([one['seconds'] for one in runs]):.1f} | "
            f"{'; '.join(sorted(chosen))} |"
        )
    return lines


def draw(found, path):
    """Held-out accuracy over width, at the best ridge of each."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axis = figure.subplots()
    widths = found["widths"]
    axis.plot(widths, found["held_out"], "o-", color="C0", label="sampled, one seed")
    axis.set_xscale("log", base=2)
    axis.set_xticks(widths, [str(width) for width in widths])
    axis.set_xlabel("units")
    axis.set_ylabel("accuracy on 2000 held-out rows")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.2)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--only", choices=HEADS, nargs="+", default=list(HEADS))
    parser.add_argument("--report", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    if not arguments.report:
        for seed in arguments.seeds:
            for name in arguments.only:
                if name not in NO_SEEDS or seed == arguments.seeds[0]:
                    RESULTS.run(f"{name}/{seed}", run, name, seed)
    found = RESULTS.known()
    lines = [
        "# Heads on 10000 images, beside every rival",
        "",
        "From `python benchmarks/head_rivals.py`, whose head says what was done.",
        "",
        *table(found),
        "",
    ]
    if "selection" in found:
        draw(found["selection"], HERE / "head_widths.png")
        seconds = found["selection"]["selection_seconds"]
        lines += [
            f"Choosing width and ridge of the selected head took {seconds:.0f} seconds "
            "beforehand, once; the others' seconds include their choices.",
            "",
            "![Held-out accuracy over width](head_widths.png)",
            "",
        ]
    text = "\n".join(lines)
    print(text)
    (HERE / "head_rivals.md").write_text(text)


if __name__ == "__main__":
    main()
