"""Sampled networks and random features on a Barron function, as in the paper.

    python benchmarks/barron.py            # roughly 9 hours on one core
    python benchmarks/barron.py --widths 64 128 256 512 1024 2048    # 3 hours
    python benchmarks/barron.py --seeds 0 --dims 1 2 10 --widths 64 128 256 512
    python benchmarks/barron.py --report   # table and figures of what is there

The function of the paper's illustration (Bolager et al. 2023, section 4), on x uniform
in [-1, 1]^d:

    f(x) = sqrt(3/2) (|x - a| - |x + a|),    a_j = 2 j / d - 1,  j = 1 .. d

(for d = 1 it is linear). 10000 training and 10000 test points; each seed draws points
and networks anew. The error is |prediction - f| / |f| over the test points.

- Sampled: `SwimMLP` with pairs of rows, tanh and sin units (the paper has the tanh
  constants for sin; ours are those of `SampledDense`).
- Random features: the same network with `sampler="random"`, the paper's baseline:
  standard normal kernels and bias uniform in [-pi, pi], in every layer.
- Scaled random features: kernels divided by the square root of the layer's inputs, as
  usual initialisers do. This is the rival to fear: most of what the paper's baseline
  loses in many dimensions and in deep networks is lost by this factor.

Inputs are not standardised. Everything is in float64: in low dimensions features are so
nearly dependent that readouts are large, and float32 would lose what they add up to.

All get the same readout. Without noise least squares needs no penalty where units are
good, and a chosen one matters much where they are not (deep random features). So two
readouts are solved on 9000 of the training points, `l2="auto"` and `l2=1e-20` with
`solver="qr"`, and the 1000 others choose. (With good units the latter is as accurate as
the paper's cut-off of singular values at 1e-10, or more so, and cheaper.) Seconds are
those of both fits.

What is done is kept in the data cache: a run that was cut goes on.
"""

import argparse
import itertools
import os
import platform
import sys
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from results import Results

HERE = Path(__file__).parent
RESULTS = Results("barron")
DIMS = (1, 2, 3, 4, 5, 10)
WIDTHS = (64, 128, 256, 512, 1024, 2048, 4096)
LAYERS = (1, 2, 3)
SEEDS = (0, 1, 2, 3, 4)
ROWS, HELD = 10_000, 1_000
ROWS_AT_ONCE = 2_000
READOUTS = {"chosen": {"l2": "auto"}, "tiny": {"l2": 1e-20, "solver": "qr"}}
# Of each network: weights, activation, colour.
METHODS = {
    "sampled tanh": ("sampled", "tanh", "#0b5394"),
    "sampled sin": ("sampled", "sin", "#6fa8dc"),
    "random tanh": ("random", "tanh", "#b45f06"),
    "random sin": ("random", "sin", "#f6b26b"),
    "scaled random tanh": ("scaled", "tanh", "#38761d"),
    "scaled random sin": ("scaled", "sin", "#93c47d"),
}
# Runs of one width and network.
WHOLE = len(DIMS) * len(LAYERS) * len(SEEDS)
LINES = {1: "-", 2: "--", 3: ":"}
TIMED = (
    "One thread on one core. Up to 2048 units the kept runs were timed when `swim_fit` "
    'still read the rows twice for `solver="qr"` and `predict` judged the networks: up '
    "to one and a half times the seconds that they take now."
)


def barron(x):
    """The function, as one column."""
    d = x.shape[1]
    a = 2 * np.arange(1, d + 1) / d - 1
    norms = np.linalg.norm(x - a, axis=1) - np.linalg.norm(x + a, axis=1)
    return np.sqrt(3 / 2) * norms[:, None]


def relative_error(model, x):
    y = barron(x)
    # `predict` on TensorFlow takes up to twice as long: at its end the data pipeline
    # sleeps for as long as it has run, in steps of powers of two.
    parts = [
        model.predict_on_batch(x[start : start + ROWS_AT_ONCE])
        for start in range(0, len(x), ROWS_AT_ONCE)
    ]
    found = np.concatenate(parts)
    return float(np.linalg.norm(found - y) / np.linalg.norm(y))


def network(method, dim, layers, width, seed):
    """An unfitted `SwimMLP`."""
    from keras_swim import SwimMLP

    weights, activation, _ = METHODS[method]
    model = SwimMLP(
        1,
        width,
        layers,
        activation,
        dim,
        output_activation=None,
        normalize=False,
        sampler="gradient" if weights == "sampled" else "random",
        seed=seed,
    )
    if weights == "scaled":
        for number in range(layers):
            inputs = width if number else dim
            model.get_layer(f"sampled_{number + 1}").scale = inputs**-0.5
    return model


def run(method, dim, layers, width, seed):
    """Error and seconds of one network."""
    import keras

    from keras_swim import swim_fit

    keras.config.set_floatx("float64")
    keras.backend.clear_session()
    rng = np.random.default_rng([dim, seed])
    x, x_test = rng.uniform(-1, 1, size=(2, ROWS, dim))
    rows, held = x[HELD:], x[:HELD]
    y = barron(rows)
    seconds, best = 0.0, None
    for readout, options in READOUTS.items():
        model = network(method, dim, layers, width, seed)
        start = time.perf_counter()
        swim_fit(model, rows, y, seed=seed, verbose=0, **options)
        judged = relative_error(model, held)
        seconds += time.perf_counter() - start
        if best is None or judged < best[0]:
            best = judged, readout, model
    _, readout, model = best
    found = {
        "error": relative_error(model, x_test),
        "readout": readout,
        "seconds": seconds,
    }
    print(method, dim, layers, width, seed, found, file=sys.stderr, flush=True)
    return found


def warm_up():
    """What the first fit alone costs."""
    for method in METHODS:
        run(method, 2, 1, 16, 0)


def collected(found):
    """Dict from (method, dim, layers, width) to the runs of all seeds."""
    runs: dict = {}
    for name, one in found.items():
        method, *numbers, _ = name.split("/")
        runs.setdefault((method, *map(int, numbers)), []).append(one)
    return runs


def axes_of(runs):
    """Dimensions, depths and widths that there are."""
    return (sorted({key[i] for key in runs}) for i in (1, 2, 3))


def error_table(runs):
    dims, depths, widths = axes_of(runs)
    lines = [
        "| d | layers | network | " + " | ".join(map(str, widths)) + " |",
        "|---|---|---|" + "---|" * len(widths),
    ]
    for dim, layers, method in itertools.product(dims, depths, METHODS):
        cells = []
        for width in widths:
            errors = [
                one["error"] for one in runs.get((method, dim, layers, width), [])
            ]
            spread = f" ({np.std(errors, ddof=1):.0e})" if len(errors) > 1 else ""
            cells.append(f"{np.mean(errors):.1e}{spread}" if errors else "")
        if any(cells):
            lines.append(f"| {dim} | {layers} | {method} | {' | '.join(cells)} |")
    return lines


def time_table(runs):
    dims, depths, widths = axes_of(runs)
    lines = [
        "| layers | network | " + " | ".join(map(str, widths)) + " |",
        "|---|---|" + "---|" * len(widths),
    ]
    for layers, method in itertools.product(depths, METHODS):
        cells = []
        for width in widths:
            seconds = [
                one["seconds"]
                for dim in dims
                for one in runs.get((method, dim, layers, width), [])
            ]
            cells.append(f"{np.median(seconds):.1f}" if seconds else "")
        if any(cells):
            lines.append(f"| {layers} | {method} | {' | '.join(cells)} |")
    return lines


def draw(runs, key, label, path):
    """A panel for each dimension: colours are networks, lines are depths."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    dims, depths, widths = axes_of(runs)
    columns = min(3, len(dims))
    lines = -(-len(dims) // columns)
    figure = Figure(
        figsize=(3.2 * columns + 1.6, 2.7 * lines + 0.4), layout="constrained"
    )
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True).ravel()
    for panel in panels[len(dims) :]:
        panel.set_visible(False)
    for panel, dim in zip(panels, dims, strict=False):
        for (method, (_, _, colour)), layers in itertools.product(
            METHODS.items(), depths
        ):
            there = [w for w in widths if (method, dim, layers, w) in runs]
            means = [
                np.mean([one[key] for one in runs[method, dim, layers, w]])
                for w in there
            ]
            panel.plot(
                there,
                means,
                LINES[layers],
                marker="o",
                markersize=3,
                linewidth=1.3,
                color=colour,
            )
        panel.set_title(f"d = {dim}", fontsize=10)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(widths, [str(width) for width in widths], fontsize=8)
        panel.tick_params(axis="y", which="both", labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.2)
    figure.supxlabel("units a layer", fontsize=10)
    figure.supylabel(label, fontsize=10)
    marks = [
        Line2D([], [], color=colour, label=method)
        for method, (_, _, colour) in METHODS.items()
    ]
    marks += [
        Line2D(
            [], [], color="0.3", linestyle=LINES[n], label=f"{n} layer{'s'[: n - 1]}"
        )
        for n in depths
    ]
    figure.legend(handles=marks, loc="outside right upper", frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


def run_counts(runs, weights):
    """How much has been run of networks with these weights, by width."""
    names = [name for name, (kind, _, _) in METHODS.items() if kind == weights]
    done = dict.fromkeys(WIDTHS, 0)
    for (name, _, _, width), every in runs.items():
        if name in names:
            done[width] = done.get(width, 0) + len(every)
    whole = WHOLE * len(names)
    counts = ", ".join(
        f"{width}: {'all' if count == whole else count}"
        for width, count in done.items()
    )
    return f"- {weights}, of {whole} runs a width: {counts}"


def report(runs):
    text = "\n".join(
        [
            "# Sampled networks and random features on a Barron function",
            "",
            "From `python benchmarks/barron.py`, whose head says what was done. "
            f"Machine: {os.cpu_count()} cores, {platform.machine()}, no accelerator.",
            "",
            f"Runs of {len(SEEDS)} seeds, by width:",
            "",
            *(run_counts(runs, kind) for kind in ("sampled", "random", "scaled")),
            "",
            "## Relative L2 error on 10000 test points (spread of seeds), over width",
            "",
            *error_table(runs),
            "",
            "![Error over width](barron_error.png)",
            "",
            "## Seconds of a fit with both readouts, over width (median of all runs)",
            "",
            TIMED,
            "",
            *time_table(runs),
            "",
            "![Seconds over width](barron_time.png)",
            "",
        ]
    )
    print(text)
    (HERE / "barron.md").write_text(text)
    draw(runs, "error", "relative L2 error", HERE / "barron_error.png")
    draw(runs, "seconds", "seconds", HERE / "barron_time.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dims", type=int, nargs="+", default=DIMS)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument(
        "--layers", type=int, nargs="+", default=LAYERS, choices=list(LINES)
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--only", choices=METHODS, nargs="+", default=list(METHODS))
    parser.add_argument("--report", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    if not arguments.report:
        warm_up()
        # Narrow networks of all kinds first, so that a cut run shows something.
        for seed, width, dim, layers, method in itertools.product(
            arguments.seeds,
            arguments.widths,
            arguments.dims,
            arguments.layers,
            arguments.only,
        ):
            name = f"{method}/{dim}/{layers}/{width}/{seed}"
            RESULTS.run(name, run, method, dim, layers, width, seed)
    runs = collected(RESULTS.known())
    if not runs:
        sys.exit("Nothing is known yet: run without --report first.")
    report(runs)


if __name__ == "__main__":
    main()
