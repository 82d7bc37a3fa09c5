"""Streams and updates: memory, sorted streams, new classes.

    python benchmarks/streams.py              # all tables, about 10 minutes

Memory: peak of a fresh process that fits 1024 tanh units to a stream of random
rows with 1024 columns (float32, 800 MB in all), for 20000 and 200000 rows and for
each kind of stream. Sorted: ResNet50 features of CIFAR-10, 10000 rows in random
order and sorted by class, 2000 test rows. New classes: a head of 2048 units is
fitted to the first five classes, then learns the other five from their rows alone
(`swim_update`); beside it the readout of all rows on the same units, and a new fit
whose units were placed between all classes. Five seeds; nothing was tuned.

Needs the features (see speed.py) and, for the DataLoader, torch.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import speed

HERE = Path(__file__).parent
COLUMNS, BATCH = 1024, 500
KINDS = ("generator function", "tf.data", "PyDataset", "DataLoader")


def batch(index):
    rng = np.random.default_rng(index)
    x = rng.standard_normal((BATCH, COLUMNS), dtype="float32")
    return x, (x[:, 0] * x[:, 1] > 0).astype("int64")


def stream(kind, rows):
    """A stream of `rows` rows that are made when they are asked for."""
    import keras

    count = rows // BATCH
    if kind == "generator function":
        return lambda: (batch(index) for index in range(count))
    if kind == "tf.data":
        import tensorflow as tf

        shapes = (
            tf.TensorSpec((None, COLUMNS), "float32"),
            tf.TensorSpec((None,), "int64"),
        )
        return tf.data.Dataset.from_generator(
            lambda: (batch(index) for index in range(count)), output_signature=shapes
        )
    if kind == "PyDataset":

        class Rows(keras.utils.PyDataset):
            num_batches = count

            def __getitem__(self, index):
                return batch(index)

        return Rows()
    import torch

    class Batches(torch.utils.data.Dataset):
        def __len__(self):
            return count

        def __getitem__(self, index):
            return tuple(map(torch.from_numpy, batch(index)))

    return torch.utils.data.DataLoader(Batches(), batch_size=None)


def child(kind, rows):
    """Fits a stream and prints the peak memory of the process in MB."""
    import keras

    from keras_swim import SampledDense, swim_fit

    model = keras.Sequential(
        [
            keras.Input((COLUMNS,)),
            SampledDense(1024),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    swim_fit(model, stream(kind, rows), seed=0, verbose=0)
    print(json.dumps(speed.peak_bytes() / 2**20))


def peak(kind, rows):
    command = [sys.executable, __file__, "--child", kind, "--rows", str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def memory():
    lines = [
        "Peak memory of a fresh process in MB",
        "",
        "| stream | 20000 rows | 200000 rows | more |",
        "|---|---|---|---|",
    ]
    for kind in KINDS:
        few, many = peak(kind, 20_000), peak(kind, 200_000)
        print(kind, few, many, file=sys.stderr, flush=True)
        lines.append(f"| {kind} | {few:.0f} | {many:.0f} | {many - few:.0f} |")
    return [*lines, ""]


def head(columns, outputs, seed):
    import keras

    from keras_swim import SampledDense

    return keras.Sequential(
        [
            keras.Input((columns,)),
            SampledDense(2048, seed=seed),
            keras.layers.Dense(outputs, activation="softmax"),
        ]
    )


def accuracy(model, x, y):
    return float(np.mean(model.predict(x, verbose=0).argmax(axis=1) == y))


def sorted_streams():
    from keras_swim import swim_fit

    x, y, x_test, y_test = speed.load(10_000)
    orders = {
        "random order": np.arange(len(x)),
        "sorted by class": np.argsort(y, kind="stable"),
    }
    lines = [
        "ResNet50 features of CIFAR-10 as a stream of batches of 100, five seeds",
        "",
        "| stream | test accuracy | spread |",
        "|---|---|---|",
    ]
    for name, order in orders.items():
        found = []
        for seed in range(5):
            model = head(x.shape[1], 10, seed)

            def batches(order=order):
                for start in range(0, len(x), 100):
                    part = order[start : start + 100]
                    yield x[part], y[part]

            swim_fit(model, batches, seed=seed, verbose=0)
            found.append(accuracy(model, x_test, y_test))
        print(name, found, file=sys.stderr, flush=True)
        lines.append(f"| {name} | {np.mean(found):.4f} | {np.std(found):.4f} |")
    return [*lines, ""]


def new_classes():
    from keras_swim import ReadoutState, swim_fit, swim_update
    from keras_swim.fit.segment import as_array

    x, y, x_test, y_test = speed.load(10_000)
    old = y < 5
    found = []
    for seed in range(5):
        model = head(x.shape[1], 5, seed)
        history = swim_fit(model, x[old], y[old], seed=seed, keep_state=True, verbose=0)
        updated, state = swim_update(
            model, history.state, x[~old], y[~old], new_classes=5, verbose=0
        )
        # All rows at once on the same units, and the penalty of the first fit.
        joint = ReadoutState(2048, 10)
        for start in range(0, len(x), 2000):
            part = slice(start, start + 2000)
            features = as_array(model.layers[0](x[part]))
            joint.update(features, np.eye(10)[y[part]])
        solved = joint.solve(state.l2)
        scores = as_array(model.layers[0](x_test)) @ solved.kernel + solved.bias
        fresh = head(x.shape[1], 10, seed)
        swim_fit(fresh, x, y, seed=seed, verbose=0)
        found.append(
            (
                accuracy(updated, x_test, y_test),
                float(np.mean(scores.argmax(axis=1) == y_test)),
                accuracy(fresh, x_test, y_test),
            )
        )
        print(found[-1], file=sys.stderr, flush=True)
    names = (
        "`swim_update`: five classes, then five more",
        "the readout of all rows on the same units",
        "a new fit, units between all classes",
    )
    lines = [
        "CIFAR-10 in two steps, 2048 units, mean of five seeds",
        "",
        "| | test accuracy | spread |",
        "|---|---|---|",
    ]
    for name, values in zip(names, zip(*found, strict=True), strict=True):
        lines.append(f"| {name} | {np.mean(values):.4f} | {np.std(values):.4f} |")
    missed = np.mean([run[2] - run[0] for run in found])
    return [*lines, "", f"The old units miss {100 * missed:.2f} points.", ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["memory", "sorted", "classes"])
    parser.add_argument("--child", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.rows)
        return
    parts = {"memory": memory, "sorted": sorted_streams, "classes": new_classes}
    lines = []
    for name, part in parts.items():
        if arguments.only in (None, name):
            lines += part()
    text = "\n".join(lines)
    print(text)
    if arguments.only is None:
        (HERE / "streams.md").write_text("# Streams and updates\n\n" + text)


if __name__ == "__main__":
    main()
