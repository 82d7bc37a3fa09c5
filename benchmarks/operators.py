"""Operators for Burgers' equation: u(x, 0) -> u(x, 1), as in the paper.

    python benchmarks/operators.py                  # about an hour on 2 cores
    python benchmarks/operators.py --widths 1024    # some minutes
    python benchmarks/operators.py --report         # table and plots of what is there

256 points, viscosity 0.1; 9000 functions to fit, 3000 to choose by, 3000 to test,
float64 unless said. The steepness of the units (`scale`; for the blocks of the FNO
theirs) is chosen for each operator and width on the validation functions, with the
first seed; the penalty by `swim_fit` itself, on 500 of the training functions. Errors
are relative L2 errors, averaged over seeds where there are several. "Amplitudes x 1.3"
and "x 2" are 300 functions that are so much larger than those of training.

- random: random weights of equal width in place of pairs, scale chosen likewise;
- swimnetworks: its Dense and Linear, on the signal, regularisation 1e-10 as there;
- Adam, signal: the same network (256, tanh, 256) trained, rates chosen on validation
  functions, batches of 64, 60 epochs with the rate going down to 1e-6 (cosine);
- quoted: from the paper (Bolager et al. 2023), trained with Adam on a GPU.

Seconds are those of one fit on the training functions, without the choice of the scale.
Needs `pip install keras-swim[benchmarks]`. What is done is kept in the data cache: a
run that was cut goes on.
"""

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from results import Results

from keras_swim import GalileanFrame, PeriodicShift, SwimOperator, swim_fit
from keras_swim.core.periodic_pde import burgers
from keras_swim.data.operator_pairs import burgers_pairs

HERE = Path(__file__).parent
RESULTS = Results("operators")
FRAMED = {"modes": 5, "power": -0.5, "output_modes": 32}
SCALES = (0.25, 0.5, 1.0)
FRAME_SCALES = (0.125, 0.25, 0.5)
BLOCK_SCALES = (0.05, 0.1, 0.2)


def galilean():
    return [GalileanFrame(time=1.0), PeriodicShift()]


# Name: scales to choose from, and the operator.
OPERATORS = {
    "signal": ((0.5, 1.0, 2.0), lambda s: {"architecture": "signal", "scale": s}),
    "Fourier": (SCALES, lambda s: {"scale": s}),
    "POD-DeepONet": (SCALES, lambda s: {"architecture": "deeponet", "scale": s}),
    "FNO, 2 residual blocks": (
        BLOCK_SCALES,
        lambda s: {"architecture": "fno", "block_scale": s},
    ),
    "FNO, lifted": (SCALES, lambda s: {"architecture": "lifted", "scale": s}),
    "random, signal": (
        (0.01, 0.03, 0.1, 0.3),
        lambda s: {"architecture": "signal", "sampler": "random", "scale": s},
    ),
    "Fourier + shift": (
        FRAME_SCALES,
        lambda s: {"symmetries": [PeriodicShift()], "scale": s},
    ),
    "Fourier + shift + Galilean": (
        FRAME_SCALES,
        lambda s: {"symmetries": galilean(), "scale": s, **FRAMED},
    ),
    "Fourier + shift + Galilean + reflection": (
        FRAME_SCALES,
        lambda s: {
            "symmetries": galilean(),
            "reflection": "odd",
            "scale": s,
            **FRAMED,
        },
    ),
    "random, shift + Galilean + reflection": (
        (0.03, 0.1, 0.3, 1.0),
        lambda s: {
            "symmetries": galilean(),
            "reflection": "odd",
            "sampler": "random",
            "scale": s,
            **FRAMED,
        },
    ),
}
QUOTED = {
    "signal": (0.92, 4.48),
    "Fourier": (1.08, 3.29),
    "POD-DeepONet": (0.85, 1.62),
    "FNO": (0.94, 0.38),
}


def data():
    u0, u1 = burgers_pairs(verbose=1)
    return {
        "train": (u0[:9000], u1[:9000]),
        "validation": (u0[9000:12000], u1[9000:12000]),
        "test": (u0[12000:], u1[12000:]),
    }


def outside(parts, factor):
    """Functions of larger amplitude than those of training."""
    u0 = factor * parts["test"][0][:300]
    return u0, burgers(u0, steps=400)


def errors(predict, functions):
    u0, u1 = functions
    wrong = np.linalg.norm(predict(u0) - u1, axis=1)
    return wrong / np.linalg.norm(u1, axis=1)


def summary(predict, parts):
    """Errors of an operator on all parts of the data."""
    test = errors(predict, parts["test"])
    return {
        "validation": float(errors(predict, parts["validation"]).mean()),
        "mean": float(test.mean()),
        "median": float(np.median(test)),
        "99 %": float(np.quantile(test, 0.99)),
        "worst": float(test.max()),
        "x 1.3": float(errors(predict, outside(parts, 1.3)).mean()),
        "x 2": float(errors(predict, outside(parts, 2.0)).mean()),
    }


def fit(arguments, width, seed, parts, dtype="float64"):
    model = SwimOperator(256, units=width, seed=seed, dtype=dtype, **arguments)
    start = time.perf_counter()
    history = swim_fit(model, *parts["train"], seed=seed, verbose=0)
    return model, time.perf_counter() - start, history.history["l2"][0]


def predictor(model):
    return lambda u: model.predict(u, batch_size=500, verbose=0)


def sampled(name, width, scale, seed):
    parts = data()
    model, seconds, l2 = fit(OPERATORS[name][1](scale), width, seed, parts)
    found = {"seconds": seconds, "l2": l2, **summary(predictor(model), parts)}
    say(f"{name}, {width} units, scale {scale}, seed {seed}", found)
    return found


def single(name, width):
    """A float32 model, and its weights in a float64 model."""
    parts = data()
    scale = chosen_scale(name, width)
    keras.config.set_floatx("float32")
    arguments = OPERATORS[name][1](scale)
    model, seconds, l2 = fit(arguments, width, 0, parts, "float32")
    found = {"seconds": seconds, "l2": l2, **summary(predictor(model), parts)}
    keras.config.set_floatx("float64")
    double = SwimOperator(256, units=width, **OPERATORS[name][1](scale))
    double.set_weights(model.get_weights())
    found["in float64"] = summary(predictor(double), parts)["mean"]
    say(f"{name}, {width} units, float32", found)
    return found


def swimnetworks_fit(parts, width, seed):
    from sklearn.pipeline import Pipeline
    from swimnetworks import Dense, Linear

    steps = [
        (
            "dense",
            Dense(
                layer_width=width,
                activation="tanh",
                parameter_sampler="tanh",
                sample_uniformly=False,
                random_seed=seed,
            ),
        ),
        ("linear", Linear(regularization_scale=1e-10)),
    ]
    return Pipeline(steps).fit(*parts["train"]).transform


def swimnetworks(width, seed):
    parts = data()
    start = time.perf_counter()
    predict = swimnetworks_fit(parts, width, seed)
    seconds = time.perf_counter() - start
    found = {"seconds": seconds, **summary(predict, parts)}
    say(f"swimnetworks, {width} units", found)
    return found


def speed(width):
    """The signal network and `swimnetworks`, in turn, with all cores."""
    parts = data()
    runs = {
        "qr, penalty chosen": {"solver": "qr"},
        "qr, l2 1e-14": {"solver": "qr", "l2": 1e-14},
        "cholesky, penalty chosen": {"solver": "cholesky"},
        "cholesky, l2 1e-13": {"solver": "cholesky", "l2": 1e-13},
        "swimnetworks": None,
    }
    found = {name: {"seconds": []} for name in runs}
    for _ in range(2):
        for name, options in runs.items():
            start = time.perf_counter()
            if options is None:
                predict = swimnetworks_fit(parts, width, 0)
            else:
                model = SwimOperator(256, "signal", width, scale=1.0, seed=0)
                swim_fit(model, *parts["train"], seed=0, verbose=0, **options)
                predict = predictor(model)
            found[name]["seconds"].append(time.perf_counter() - start)
            found[name]["mean"] = float(errors(predict, parts["test"]).mean())
            print(name, found[name], file=sys.stderr, flush=True)
    return found


def adam(width, rate, seed):
    parts = data()
    keras.utils.set_random_seed(seed)
    keras.config.set_floatx("float32")
    inputs = keras.Input((256,))
    hidden = keras.layers.Dense(width, activation="tanh")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(256)(hidden))
    epochs, batch = 60, 64
    steps = epochs * -(-9000 // batch)
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps, alpha=1e-6 / rate)
    model.compile(keras.optimizers.Adam(schedule), "mse")
    start = time.perf_counter()
    model.fit(*parts["train"], batch_size=batch, epochs=epochs, verbose=0)
    seconds = time.perf_counter() - start
    found = {"seconds": seconds, **summary(predictor(model), parts)}
    keras.config.set_floatx("float64")
    say(f"Adam, {width} units, rate {rate}", found)
    return found


def chosen_scale(name, width):
    known = RESULTS.known()
    return min(
        OPERATORS[name][0],
        key=lambda scale: known[f"{name}/{width}/{scale}/0"]["validation"],
    )


def run(arguments):
    keras.config.set_floatx("float64")
    for width in arguments.widths:
        for name in arguments.only or OPERATORS:
            for scale in OPERATORS[name][0]:
                key = f"{name}/{width}/{scale}/0"
                RESULTS.run(key, sampled, name, width, scale, 0)
            scale = chosen_scale(name, width)
            for seed in arguments.seeds:
                key = f"{name}/{width}/{scale}/{seed}"
                RESULTS.run(key, sampled, name, width, scale, seed)
    if arguments.only:
        return
    RESULTS.run("speed/4096", speed, 4096)
    for name in ("Fourier", "Fourier + shift + Galilean + reflection"):
        for width in arguments.widths:
            RESULTS.run(f"float32, {name}/{width}", single, name, width)
    for width in arguments.widths:
        RESULTS.run(f"swimnetworks/{width}", swimnetworks, width, 0)
    for rate in (1e-3, 3e-3):
        RESULTS.run(f"Adam/1024/{rate}", adam, 1024, rate, 0)


COLUMNS = ("mean", "median", "99 %", "worst", "x 1.3", "x 2")


def row(label, width, runs, note=""):
    cells = [f"{np.mean([one[column] for one in runs]):.2e}" for column in COLUMNS]
    means = [one["mean"] for one in runs]
    spread = f"{min(means):.2e} to {max(means):.2e}" if len(runs) > 1 else "-"
    seconds = np.median([one["seconds"] for one in runs])
    parts = [label, str(width), *cells, spread, f"{seconds:.1f}", note]
    return "| " + " | ".join(parts) + " |"


def collected(found):
    """`(label, width, runs, note)` of everything that was run."""
    lines = []
    for name in OPERATORS:
        for width in (1024, 4096):
            if not any(key.startswith(f"{name}/{width}/") for key in found):
                continue
            scales = [s for s in OPERATORS[name][0] if f"{name}/{width}/{s}/0" in found]
            scale = min(
                scales, key=lambda s: found[f"{name}/{width}/{s}/0"]["validation"]
            )
            start = f"{name}/{width}/{scale}/"
            runs = [one for key, one in sorted(found.items()) if key.startswith(start)]
            penalties = "/".join(sorted({f"{one['l2']:.0e}" for one in runs}))
            note = f"scale {scale}, l2 {penalties}"
            lines.append((name, width, runs, note))
    for key, one in found.items():
        if key.startswith("float32"):
            label, width = key.rsplit("/", 1)
            ratio = one["mean"] / one["in float64"]
            note = (
                f"l2 {one['l2']:.0e}; its weights in float64: {one['in float64']:.2e}"
            )
            lines.append((label, int(width), [one], f"{note} (ratio {ratio:.2f})"))
        if key.startswith("swimnetworks"):
            lines.append(("swimnetworks, signal", int(key.split("/")[1]), [one], ""))
    rates = {key: one for key, one in found.items() if key.startswith("Adam")}
    if rates:
        best = min(rates, key=lambda key: rates[key]["validation"])
        note = f"rate {best.rsplit('/', 1)[1]}"
        lines.append(("Adam, signal", 1024, [rates[best]], note))
    return lines


def report():
    known = RESULTS.known()
    seconds = known.pop("speed/4096", {})
    lines = collected(known)
    text = [
        "# Operators for Burgers' equation",
        "",
        "From `python benchmarks/operators.py`, whose head says what was done.",
        "",
        "| operator | units | mean | median | 99 % | worst | amplitudes x 1.3 | x 2 | "
        "means of seeds | seconds | chosen |",
        "|" + "---|" * 11,
        *(row(*line) for line in lines),
        "",
        "Quoted from the paper, mean, sampled / trained with Adam: "
        + ", ".join(
            f"{name} {ours:.2f}e-3 / {adam:.2f}e-3"
            for name, (ours, adam) in QUOTED.items()
        )
        + ".",
        "",
    ]
    if seconds:
        text += speed_table(seconds)
    if lines:
        draw(lines, HERE / "operators.png")
        text += ["![Error against seconds](operators.png)", ""]
    text = "\n".join(text)
    print(text)
    (HERE / "operators.md").write_text(text)


def speed_table(found):
    slowest = min(found["swimnetworks"]["seconds"])
    return [
        "The signal network with 4096 units beside `swimnetworks` in one run, all "
        "cores, best of two:",
        "",
        "| | seconds | times faster | mean error |",
        "|---|---|---|---|",
        *(
            f"| {name} | {min(one['seconds']):.1f} | "
            f"{slowest / min(one['seconds']):.1f} | {one['mean']:.2e} |"
            for name, one in found.items()
        ),
        "",
    ]


def draw(lines, path):
    """Error against seconds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axis = figure.subplots()
    labels = list(dict.fromkeys(line[0] for line in lines))
    for number, label in enumerate(labels):
        points = [
            (
                np.median([one["seconds"] for one in line[2]]),
                np.mean([one["mean"] for one in line[2]]),
            )
            for line in lines
            if line[0] == label
        ]
        ours = not label.startswith(("random", "swimnetworks", "Adam"))
        axis.plot(
            *zip(*points, strict=True),
            marker="o" if ours else "s",
            mfc=f"C{number % 10}" if ours else "white",
            color=f"C{number % 10}",
            ls="-" if number < 10 else "--",
            lw=0.8,
            label=label,
        )
    for name, (_, trained) in QUOTED.items():
        axis.axhline(1e-3 * trained, color="0.8", lw=0.7, zorder=0)
        axis.annotate(
            f"Adam, {name} (quoted)",
            (1.0, 1e-3 * trained),
            xycoords=("axes fraction", "data"),
            fontsize=7,
            color="0.5",
            ha="right",
            va="bottom",
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("seconds of a fit")
    axis.set_ylabel("mean relative L2 error on test functions")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.2)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def say(label, found):
    short = {key: f"{value:.3g}" for key, value in found.items()}
    print(label, short, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", choices=OPERATORS, nargs="+")
    parser.add_argument("--report", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    if not arguments.report:
        run(arguments)
    report()


if __name__ == "__main__":
    main()
