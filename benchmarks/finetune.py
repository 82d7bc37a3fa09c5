"""Fine-tuning from a sampled start, and from a head trained by Adam.

    python benchmarks/finetune.py              # about an hour on 2 cores
    python benchmarks/finetune.py --seeds 0 --epochs 1
    python benchmarks/finetune.py --report     # table and curves of what is there

A real backbone small enough for two cores: MobileNet with ImageNet weights, cut
after `conv_pw_12_relu`, at 96 pixels. 3000 CIFAR-10 images to train on, 1000 others
to choose by, the first 2000 test images; three seeds. All layers are trained but
BatchNormalization, by Adam at 1e-5 in batches of 32:

- sampled: `SwimHead` with 2048 units as it comes, then plain `model.fit`;
- sampled, FineTune: the same with the `FineTune` callback, which solves the readout
  again after each epoch (the figures after an epoch are those with the new readout);
- Adam head: a Dense layer of 2048 tanh units and a softmax, trained on the features
  for 20 epochs at 1e-3 (the weights of the best epoch on the validation images), then
  plain `model.fit`;
- Adam head, dropout: the same with the dropout on features that `SwimHead` has, in
  both phases.

Nothing was tuned on the test images. The learning rate is the one that suits both
kinds of start (higher ones hurt both). The rate of the dropout was chosen among 0.1 to
0.5 by the first epoch without the callback, on 4000 other training images.

Needs `cifar10.npz` and `mobilenet_pw12.keras` in the data cache
(`KERAS_SWIM_CACHE`, or `~/.cache/keras_swim_data`). What is done is kept there, in
benchmarks/finetune.json: a run that was cut goes on.
"""

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from results import CACHE, Results

HERE = Path(__file__).parent
RESULTS = Results("finetune")
METHODS = ("sampled", "sampled, FineTune", "Adam head", "Adam head, dropout")
DROPOUT = 0.3
UNITS, RATE, BATCH = 2048, 1e-5, 32


def data():
    """Training, validation and test images with labels."""
    path = CACHE / "cifar10.npz"
    if not path.exists():
        sys.exit(f"{path} is missing: set KERAS_SWIM_CACHE to its folder.")
    with np.load(path) as file:
        x, y = file["x_train"], file["y_train"].ravel().astype(int)
        test = file["x_test"][:2000], file["y_test"].ravel()[:2000].astype(int)
    return (x[:3000], y[:3000]), (x[3000:4000], y[3000:4000]), test


def scores(model, images, labels):
    p = model.predict(images, batch_size=100, verbose=0)
    own = np.maximum(p[np.arange(len(p)), labels], 1e-12)
    return float((p.argmax(axis=1) == labels).mean()), float(-np.log(own).mean())


def build(seed, train):
    """A sampled head, fitted; and the seconds that it took."""
    import keras

    from keras_swim import SwimHead, swim_fit

    path = CACHE / "mobilenet_pw12.keras"
    backbone = keras.models.load_model(path, compile=False)
    model = SwimHead(
        backbone, 10, units=UNITS, image_size=96, preprocessing="tf", seed=seed
    )
    start = time.perf_counter()
    swim_fit(model, *train, seed=seed, verbose=0)
    return model, time.perf_counter() - start


def build_adam(seed, train, validation, dropout):
    """The same with a head trained by Adam on the features."""
    import keras

    from keras_swim.build.heads import split_head

    model, _ = build(seed, (train[0][:50], train[1][:50]))
    to_features, _ = split_head(model)
    head = keras.Sequential(
        [
            keras.Input(to_features.output.shape[1:]),
            keras.layers.Dropout(dropout),
            keras.layers.Dense(UNITS, activation="tanh"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    start = time.perf_counter()
    x = to_features.predict(train[0], verbose=0)
    held = to_features.predict(validation[0], verbose=0)
    head.compile(
        keras.optimizers.Adam(1e-3),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    # The last epoch may be a bad one: the weights of the best are kept.
    best = keras.callbacks.EarlyStopping(
        "val_accuracy", patience=20, restore_best_weights=True
    )
    head.fit(
        x,
        train[1],
        batch_size=BATCH,
        epochs=20,
        validation_data=(held, validation[1]),
        callbacks=[best],
        verbose=0,
    )
    seconds = time.perf_counter() - start
    out = to_features.output
    for layer in head.layers:
        out = layer(out)
    return keras.Model(to_features.inputs, out), seconds


def run(method, seed, epochs, parts):
    """Scores at the start and after each epoch, with the seconds until then."""
    import keras

    from keras_swim import FineTune
    from keras_swim.fit.tuning import unfreeze

    train, validation, test = parts
    keras.utils.set_random_seed(seed)
    if method.startswith("Adam head"):
        dropout = DROPOUT if method.endswith("dropout") else 0.0
        model, spent = build_adam(seed, train, validation, dropout)
    else:
        model, spent = build(seed, train)
    lines = [[0, spent, *scores(model, *test), *scores(model, *validation)]]
    clock = time.perf_counter()

    class Record(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            # The time that it takes to look does not count.
            nonlocal spent, clock
            spent += time.perf_counter() - clock
            found = [*scores(model, *test), *scores(model, *validation)]
            lines.append([epoch + 1, spent, *found])
            print(method, seed, lines[-1], file=sys.stderr, flush=True)
            clock = time.perf_counter()

    unfreeze(model)
    model.compile(keras.optimizers.Adam(RATE), "sparse_categorical_crossentropy")
    callbacks = [Record()]
    if method == "sampled, FineTune":
        callbacks.insert(0, FineTune(*train, validation, verbose=0))
    model.fit(*train, batch_size=BATCH, epochs=epochs, callbacks=callbacks, verbose=0)
    return {"lines": lines, "kept": scores(model, *test)}


def grouped(found):
    """Dict from method to an array (seeds, epochs, columns)."""
    groups = {}
    for method in METHODS:
        runs = [
            found[name]["lines"]
            for name in sorted(found)
            if name.startswith(f"{method}/")
        ]
        if runs:
            groups[method] = np.array(runs)
    return groups


def table(groups):
    lines = [
        "| start | epoch | test accuracy | each seed | log loss | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for method, runs in groups.items():
        for epoch in range(runs.shape[1]):
            now = runs[:, epoch]
            each = ", ".join(f"{value:.4f}" for value in now[:, 2])
            lines.append(
                f"| {method} | {epoch} | {now[:, 2].mean():.4f} | {each} | "
                f"{now[:, 3].mean():.3f} | {now[:, 1].mean():.0f} |"
            )
    return lines


def draw(groups, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for number, (method, runs) in enumerate(groups.items()):
        for axis, column in zip(axes, (0, 1), strict=True):
            for one in runs:
                axis.plot(one[:, column], one[:, 4], color=f"C{number}", alpha=0.25)
            mean = runs.mean(axis=0)
            axis.plot(
                mean[:, column], mean[:, 4], "o-", color=f"C{number}", label=method
            )
    axes[0].set_xlabel("epoch")
    axes[0].set_xticks(range(max(runs.shape[1] for runs in groups.values())))
    axes[1].set_xlabel("seconds, those of the head's fit included")
    axes[0].set_ylabel("validation accuracy")
    axes[0].legend(frameon=False)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.2)
    figure.savefig(path, dpi=110)


def write(found):
    groups = grouped(found)
    text = "\n".join(
        [
            "# Fine-tuning",
            "",
            "From `python benchmarks/finetune.py`, whose head says what was done.",
            "",
            *table(groups),
            "",
            "![Validation accuracy over epochs and seconds](finetune.png)",
            "",
        ]
    )
    print(text)
    (HERE / "finetune.md").write_text(text)
    draw(groups, HERE / "finetune.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--report", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    if not arguments.report:
        parts = data()
        for seed in arguments.seeds:
            for method in arguments.methods:
                name = f"{method}/{seed}/{arguments.epochs}"
                RESULTS.run(name, run, method, seed, arguments.epochs, parts)
    wanted = f"/{arguments.epochs}"
    write({name: run for name, run in RESULTS.known().items() if name.endswith(wanted)})


if __name__ == "__main__":
    main()
