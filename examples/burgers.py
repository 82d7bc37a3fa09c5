"""Burgers' equation: from the function at time 0 to the function at time 1, learnt.

Solves the equation for random starts, fits one operator after the other without
gradients, trains two networks by Adam for comparison, and draws two pictures.

    python examples/burgers.py --rows 2000 --units 512 --out pictures

One to two minutes on one core; the solutions are kept for the next time.
"""

import argparse
import logging
import os
import time
from pathlib import Path

# Errors of 1e-5 need float64, which Keras has on TensorFlow and torch.
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np

from keras_swim import GalileanFrame, PeriodicShift, SwimOperator, swim_fit
from keras_swim.build.operators import on_grid
from keras_swim.data.operator_pairs import burgers_pairs
from keras_swim.layers.canonical import Restore

POINTS, TIME = 256, 1.0
X = 2 * np.pi * np.arange(POINTS) / POINTS
ADAM_UNITS, ADAM_EPOCHS, ADAM_BATCH = 128, 200, 100


def shift():
    """The equation is the same everywhere on the circle."""
    return [PeriodicShift()]


def moving_shift():
    """It is also the same for an observer who moves with the mean of the function."""
    return [GalileanFrame(time=TIME), PeriodicShift()]


# The symmetries, one more in each line, then "odd": with u(x) also -u(-x) solves it.
SAMPLED = {
    "signal": lambda: {"architecture": "signal"},
    "deeponet": lambda: {"architecture": "deeponet"},
    "lifted": lambda: {"architecture": "lifted"},
    "fno": lambda: {"architecture": "fno"},
    "fourier": lambda: {"architecture": "fourier"},
    "fourier, shift": lambda: {"symmetries": shift()},
    "fourier, shift, Galilei": lambda: {"symmetries": moving_shift()},
    "fourier, all symmetries": lambda: {
        "symmetries": moving_shift(),
        "reflection": "odd",
    },
}
PLAIN, BEST = "fourier", "fourier, all symmetries"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2000, help="functions to fit to")
    parser.add_argument("--units", type=int, default=512, help="units of each layer")
    parser.add_argument("--out", type=Path, default=Path(), help="folder for pictures")
    options = parser.parse_args()
    if options.rows < 40 or options.units < 1:
        parser.error("--rows must be at least 40 and --units at least 1")
    # Asked for first: it would be a pity to miss it after a minute.
    figure_class()
    options.out.mkdir(parents=True, exist_ok=True)
    # TensorFlow warns that each new model is traced anew, which is as it should be.
    logging.getLogger("tensorflow").setLevel("ERROR")
    if keras.backend.backend() == "jax":
        print("JAX computes in float32: no error will be below about 1e-5.")
    else:
        keras.config.set_floatx("float64")

    unseen = options.rows // 4
    print(f"Solving the equation for {options.rows} starts, and {unseen} for the test.")
    u0, u1 = burgers_pairs(unseen + options.rows, points=POINTS, time=TIME)
    # The first rows are the test rows, because the first functions are the same
    # whatever their number and grid: another grid is solved for below.
    test, train = (u0[:unseen], u1[:unseen]), (u0[unseen:], u1[unseen:])

    print(f"\nRelative L2 errors on the {unseen} functions of the test, and seconds:\n")
    print(f"{'':24}" + "".join(f"{title:>10}" for title in COLUMNS))
    models, results = {}, {}
    for title, arguments in SAMPLED.items():
        start = time.perf_counter()
        model = SwimOperator(POINTS, units=options.units, seed=0, **arguments())
        swim_fit(model, *train, seed=0, verbose=0)
        results[title] = measured(title, model, test, time.perf_counter() - start)
        models[title] = model
    for title, frames in (("Adam", []), ("Adam, shift, Galilei", moving_shift())):
        start = time.perf_counter()
        model = trained(frames, *train)
        results[title] = measured(title, model, test, time.perf_counter() - start)
    print(
        f"\nAdam: two hidden layers of {ADAM_UNITS} units, grid values in and out, "
        f"{ADAM_EPOCHS} epochs, float32."
    )

    best = models[BEST]
    evaluate_elsewhere(best, min(unseen, 50))
    path = options.out / "burgers.keras"
    best.save(path)
    again = keras.saving.load_model(path)
    same = np.array_equal(predicted(again, test[0]), predicted(best, test[0]))
    print(f"Saved as {path} and loaded: {'the same' if same else 'other'} predictions.")

    draw_predictions(models, test, options.out / "burgers_prediction.png")
    draw_seconds(results, options.out / "burgers_seconds.png")
    print(f"Drawn: burgers_prediction.png and burgers_seconds.png in {options.out}/")
    print(
        f"mean error of {options.units} sampled units: plain "
        f"{results[PLAIN][0]:.0e}, with all symmetries {results[BEST][0]:.0e}"
    )


COLUMNS = ("mean", "median", "99 %", "worst", "seconds")


def measured(title, model, test, seconds):
    """Prints a line of the table; returns its numbers."""
    found = errors(predicted(model, test[0]), test[1])
    numbers = [found.mean(), *np.quantile(found, (0.5, 0.99, 1.0)), seconds]
    cells = [f"{number:10.1e}" for number in numbers[:-1]] + [f"{seconds:10.1f}"]
    print(f"{title:24}" + "".join(cells), flush=True)
    return numbers


def predicted(model, u):
    return model.predict(u, batch_size=1024, verbose=0)


def errors(found, truth):
    """Relative L2 error of each function."""
    return np.linalg.norm(found - truth, axis=1) / np.linalg.norm(truth, axis=1)


def trained(frames, u0, u1):
    """A small network, trained by Adam on the same functions.

    It gets the frames too: what a symmetry is worth and what the way of fitting is
    worth are two questions.
    """
    keras.utils.set_random_seed(0)
    x = inputs = keras.Input((POINTS,))
    outside = []
    for frame in frames:
        outside.append((frame, x))
        x = frame(x)
        # Trained inside the frames: there is no need to go back at every step.
        u0, u1 = frame(u0), frame.into_target(keras.ops.convert_to_tensor(u1), u0)
    network = keras.Sequential(
        [
            keras.layers.Dense(ADAM_UNITS, activation="gelu", dtype="float32"),
            keras.layers.Dense(ADAM_UNITS, activation="gelu", dtype="float32"),
            keras.layers.Dense(POINTS, dtype="float32"),
        ]
    )
    # A rate that falls to zero ends several times better than a constant one.
    steps = ADAM_EPOCHS * -(-len(u0) // ADAM_BATCH)
    rate = keras.optimizers.schedules.CosineDecay(2e-3, steps)
    network.compile(optimizer=keras.optimizers.Adam(rate), loss="mse")
    network.fit(
        keras.ops.convert_to_numpy(u0).astype("float32"),
        keras.ops.convert_to_numpy(u1).astype("float32"),
        batch_size=ADAM_BATCH,
        epochs=ADAM_EPOCHS,
        verbose=0,
    )
    x = network(x)
    for frame, u in reversed(outside):
        x = Restore(frame)([x, u])
    return keras.Model(inputs, x)


def evaluate_elsewhere(model, count):
    """The operator on a coarser and a finer grid, against solutions on that grid."""
    for points in (64, 1024):
        u0, u1 = burgers_pairs(count, points=points, time=TIME, verbose=0)
        error = errors(predicted(on_grid(model, points), u0), u1).mean()
        print(f"On {points} points instead of {POINTS}: mean error {error:.1e}.")


def figure_class():
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SystemExit(
            'The pictures need matplotlib: pip install "keras-swim[plot]"'
        ) from None
    return Figure


def draw_predictions(models, test, path):
    """Three functions of the test: a usual one, a hard one, and the worst."""
    u0, u1 = test
    best, plain = (predicted(models[title], u0) for title in (BEST, PLAIN))
    error = errors(best, u1)
    order = np.argsort(error)
    places = {"median": len(order) // 2, "99 %": len(order) * 99 // 100, "worst": -1}

    figure = figure_class()(figsize=(11, 6), layout="constrained")
    grid = figure.subplots(
        2, 3, sharex=True, sharey="row", gridspec_kw={"height_ratios": (3, 2)}
    )
    for (title, place), (top, bottom) in zip(places.items(), grid.T, strict=True):
        row = order[place]
        top.plot(X, u0[row], color="0.7", label="time 0")
        top.plot(X, u1[row], color="tab:blue", linewidth=4, alpha=0.5, label="time 1")
        top.plot(X, best[row], "k--", linewidth=1.2, label="predicted")
        top.set_title(f"{title}: relative error {error[row]:.0e}", fontsize="medium")
        for found, color, name in (
            (plain, "tab:orange", "without symmetries"),
            (best, "tab:green", "with all symmetries"),
        ):
            # Zeros have no logarithm.
            gap = np.maximum(abs(found[row] - u1[row]), 1e-16)
            bottom.semilogy(X, gap, color=color, linewidth=1, label=name)
        bottom.set_xlabel("x")
        bottom.set_xticks([0, np.pi, 2 * np.pi], ["0", "π", "2π"])
        bottom.set_xlim(0, 2 * np.pi)
    # Where an error changes its sign, its logarithm falls to any depth.
    size = abs(best - u1)[order[list(places.values())]]
    grid[1, 0].set_ylim(bottom=max(np.quantile(size, 0.05) / 3, 1e-16))
    grid[0, 0].set_ylabel("u")
    grid[1, 0].set_ylabel("error of the prediction")
    lines = [*grid[0, 0].lines, *grid[1, 0].lines]
    figure.legend(handles=lines, loc="outside upper center", ncols=5, frameon=False)
    figure.savefig(path, dpi=130)


def draw_seconds(results, path):
    """Error against seconds of all that was fitted."""
    figure = figure_class()(figsize=(8, 5.5), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    for name, color in (("sampled", "tab:green"), ("trained by Adam", "tab:orange")):
        mine = [
            numbers
            for title, numbers in results.items()
            if (title in SAMPLED) == (name == "sampled")
        ]
        axes.scatter(
            [numbers[-1] for numbers in mine],
            [numbers[0] for numbers in mine],
            color=color,
            label=name,
            zorder=3,
        )
    # Room for the labels.
    axes.margins(0.2, 0.12)
    axes.set_xlabel("seconds to fit")
    axes.set_ylabel(f"mean relative error at time {TIME:g}")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left")
    figure.draw_without_rendering()
    label_points(axes, {title: (n[-1], n[0]) for title, n in results.items()})
    figure.savefig(path, dpi=130)


def label_points(axes, points):
    """Writes each name beside its point, where it covers neither point nor name."""
    from matplotlib.transforms import Bbox

    pixels = {name: axes.transData.transform(at) for name, at in points.items()}
    taken = [Bbox.from_bounds(x - 7, y - 7, 14, 14) for x, y in pixels.values()]
    taken.append(axes.get_legend().get_window_extent())
    # Near places first; from the far ones a line leads to the point.
    places = [
        (x, y, side)
        for y in (0, 10, -10, 20, -20, 32, -32, 44, -44, 56, -56)
        for x, side in ((8, "left"), (-8, "right"))
    ]
    for name, at in points.items():
        for x, y, side in places:
            label = axes.annotate(
                name,
                at,
                xytext=(x, y),
                textcoords="offset points",
                ha=side,
                va="center",
                fontsize="small",
                arrowprops={"arrowstyle": "-", "color": "0.6"} if abs(y) > 10 else None,
            )
            box = label.get_window_extent().padded(1)
            inside = axes.bbox.x0 < box.x0 and box.x1 < axes.bbox.x1
            if inside and not any(box.overlaps(other) for other in taken):
                break
            if (x, y, side) != places[-1]:
                label.remove()
        taken.append(box)


if __name__ == "__main__":
    main()
