"""`keras-swim demo`: handwritten digits, on a backbone that has seen letters only.

Nothing is downloaded: the digits come with scikit-learn, the backbone with this
package (`keras_swim.build.demo_backbone` says what it is). A sampled head is fitted
to few raw images, then other heads to the same features, and one to bare pixels.
"""

import time
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from keras_swim.apps.image_files import encode_thumbnail
from keras_swim.apps.report.findings import findings
from keras_swim.apps.report.page import write_report
from keras_swim.apps.rivals import HEADS, Rows, Settings, compare, score
from keras_swim.build.demo_backbone import demo_backbone
from keras_swim.build.heads import SwimHead, split_head
from keras_swim.fit.swim_fit import swim_fit

CLASSES = 10
# The backbone and the head were settled on the other images.
TEST_IMAGES = 900


class Fitted(NamedTuple):
    """What the first part of the demo leaves for the rest.

    Attributes:
        model: From raw images to probabilities.
        head: From features to probabilities: the model behind its backbone.
        pool: Images and labels that training images are drawn from.
        test: Images and labels to judge by.
        pool_features: The same as `pool`, images run through the backbone.
        test_features: The same as `test`, images run through the backbone.
        train: Numbers of the rows of `pool` that the model was fitted to.
        history: What `swim_fit` returned for the head.
        summary: Accuracy, log loss and seconds.
    """

    model: keras.Model
    head: keras.Model
    pool: Rows
    test: Rows
    pool_features: Rows
    test_features: Rows
    train: np.ndarray
    history: keras.callbacks.History
    summary: dict


def run_demo(
    folder, *, train=200, validation=100, units=1024, epochs=20, draws=3, say=None
):
    """Fits, compares and saves a head for handwritten digits.

    Args:
        folder: Where `model.keras` and `report.html` are written. It is made if it
            is missing.
        train: Number of labelled images to fit to.
        validation: Number of images for Adam's early stopping.
        units: Width of the hidden layer of all heads.
        epochs: Most epochs of Adam.
        draws: How often the comparison is repeated, with other training images
            and seeds. The model that is saved is that of the first draw.
        say: `None`, or what to call with each line of an account: `print`.

    Returns:
        Dict of plain values: `data`, `backbone`, `model` (its file and how good
        it is), `methods` (name to accuracy, log loss and seconds) and `seconds`.

    Example:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = run_demo(folder, units=64, epochs=1, draws=1)
    >>> sorted(found["methods"])[:3]
    ['Adam', 'plain ridge', 'random weights']
    """
    start = time.perf_counter()
    say = say or _silent
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pool, test = load_digits()
    parts = draw(len(pool.y), train, validation, draws)
    say(
        f"Data: scikit-learn's handwritten digits, 8 x 8 pixels. {train} images to "
        f"fit, {validation} for Adam's early stopping, {len(test.y)} to test."
    )
    fitted = fit_head(pool, test, parts[0][0], units, say)
    settings = Settings(CLASSES, units, epochs, seed=0)
    methods = compare_heads(fitted, parts, settings, say)
    saved = save_and_reload(fitted, folder / "model.keras", say)
    write_report(folder / "report.html", report_of(fitted, methods))
    say(f"Wrote {folder / 'report.html'}: open it in a browser.")
    seconds = time.perf_counter() - start
    say(f"Done in {seconds:.0f} s.")
    return {
        "data": {
            "name": "scikit-learn digits",
            "train": train,
            "validation": validation,
            "test": len(test.y),
        },
        "backbone": {
            "name": "demo_backbone",
            "features": int(fitted.test_features.x.shape[1]),
            "trained_on": "drawn letters",
        },
        "model": {**fitted.summary, **saved},
        "methods": methods,
        "report": str(folder / "report.html"),
        "seconds": seconds,
    }


def load_digits():
    """Scikit-learn's digits as uint8 colour images, in a fixed random order.

    Returns:
        Two `Rows`: 897 images to draw from, and 900 to test.
    """
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError(
            "The demo needs scikit-learn, which carries its images. Received: "
            f"{error}. Install it: `pip install keras-swim[demo]`."
        ) from error
    digits = datasets.load_digits()
    # Grey values of 0..16, in three channels as cameras have them.
    grey = np.round(digits.images * (255 / 16)).astype("uint8")
    images = np.repeat(grey[..., None], 3, axis=-1)
    order = np.random.default_rng(0).permutation(len(images))
    pool, test = order[:-TEST_IMAGES], order[-TEST_IMAGES:]
    labels = digits.target.astype("int64")
    return Rows(images[pool], labels[pool]), Rows(images[test], labels[test])


def draw(count, train, validation, draws):
    """Numbers of rows to train with and to validate with, for each draw.

    Example:

    >>> [(first, second)] = draw(10, train=6, validation=4, draws=1)
    >>> sorted([*first.tolist(), *second.tolist()])
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    if min(train, validation, draws) < 1 or train + validation > count:
        raise ValueError(
            f"`train` and `validation` must be positive, together at most {count}, "
            f"and `draws` positive. Received: train={train}, "
            f"validation={validation}, draws={draws}."
        )
    orders = [np.random.default_rng(seed).permutation(count) for seed in range(draws)]
    return [(order[:train], order[train : train + validation]) for order in orders]


def fit_head(pool, test, train, units, say):
    """Fits a `SwimHead` to raw images.

    Args:
        pool, test: `Rows` of images.
        train: Numbers of the rows of `pool` to fit to.
        units: Width of the sampled layer.
        say: Function of a line of text.

    Returns:
        `Fitted`.
    """
    backbone = demo_backbone()
    say(
        f"Backbone: {backbone.count_params()} parameters, "
        f"{backbone.output_shape[1]} features, trained on drawn letters; it has seen "
        "no digit. Small, and for this demonstration only."
    )
    names = [str(digit) for digit in range(CLASSES)]
    model = SwimHead(backbone, CLASSES, units, class_names=names, seed=0)
    history = swim_fit(
        model, pool.x[train], pool.y[train], seed=0, keep_state=True, verbose=0
    )
    seconds = history.history["seconds"][0]
    found = score(model.predict(test.x, verbose=0), test.y)
    say(
        f"Fitted to {len(train)} raw images in {seconds:.1f} s, the backbone "
        f"included: {found['accuracy']:.1%} of the test images right, log loss "
        f"{found['log_loss']:.3f}."
    )
    features, head = split_head(model)
    return Fitted(
        model,
        head,
        pool,
        test,
        Rows(features.predict(pool.x, verbose=0), pool.y),
        Rows(features.predict(test.x, verbose=0), test.y),
        train,
        history,
        {**found, "seconds": seconds},
    )


def compare_heads(fitted, parts, settings, say):
    """All heads on the features, and the sampled one on pixels.

    Args:
        fitted: `Fitted`.
        parts: What `draw` returned.
        settings: `Settings`.
        say: Function of a line of text.

    Returns:
        Dict from a method's name to what `compare` returned.
    """
    say("")
    say(
        f"Heads of {settings.units} units on the same features, mean (spread) of "
        f"{len(parts)} draws of training images:"
    )
    say(f"{'':24}{'accuracy':>16}{'log loss':>16}{'seconds':>9}")
    draws = _drawn(fitted.pool_features, parts)
    jobs = {name: (head, draws, fitted.test_features) for name, head in HEADS.items()}
    pixels = _drawn(_pixels(fitted.pool), parts)
    jobs["sampled head on pixels"] = (
        HEADS["sampled head"],
        pixels,
        _pixels(fitted.test),
    )
    found = {}
    for name, job in jobs.items():
        found[name] = compare(*job, settings)
        say(_line(name, found[name]))
    say("")
    return found


def save_and_reload(fitted, path, say):
    """Saves the model, loads it, and compares probabilities on raw images.

    Returns:
        Dict: `file`, and the largest `reload_difference` of a probability.
    """
    fitted.model.save(path)
    again = keras.models.load_model(path)
    before, after = (
        model.predict(fitted.test.x, verbose=0) for model in (fitted.model, again)
    )
    difference = float(np.abs(before - after).max())
    if difference > 1e-5:
        raise RuntimeError(
            f"The model read from {path} must give the probabilities that it gave "
            f"before. Received: a difference of {difference:.2g}. Please report it."
        )
    say(
        f"Saved {path} ({path.stat().st_size / 1e6:.1f} MB): raw images in, "
        "probabilities out. Loaded again, it gives the same."
    )
    return {"file": str(path), "reload_difference": difference}


def report_of(fitted, methods):
    """The dict of the report: of the model that was saved, and the comparison."""
    images = {"train": fitted.pool.x[fitted.train], "validation": fitted.test.x}
    rows = fitted.pool_features
    return findings(
        fitted.head,
        rows.x[fitted.train],
        rows.y[fitted.train],
        validation_data=fitted.test_features,
        names=[f"digit {row}" for row in fitted.train],
        validation_names=[f"test digit {row}" for row in range(len(fitted.test.y))],
        thumbnail=lambda part, row: encode_thumbnail(images[part][row]),
        history=fitted.history,
        comparison=[
            {
                "method": name,
                "accuracy": found["accuracy"],
                "loss": found["log_loss"],
                "seconds": found["seconds"],
            }
            for name, found in methods.items()
        ],
        title="Handwritten digits on a backbone that has seen letters only",
        facts={"Backbone": "demo_backbone", "Data": "scikit-learn's digits"},
    )


def _pixels(images):
    # Channels are equal, so one of them says it all.
    pixels = images.x[..., 0].reshape(len(images.x), -1)
    return Rows(pixels.astype("float32") / 255, images.y)


def _drawn(rows, parts):
    return [tuple(Rows(rows.x[part], rows.y[part]) for part in both) for both in parts]


def _line(name, found):
    accuracy = f"{found['accuracy']:.3f} ({found['accuracy_spread']:.3f})"
    loss = f"{found['log_loss']:.3f} ({found['log_loss_spread']:.3f})"
    return f"{name:24}{accuracy:>16}{loss:>16}{found['seconds']:>9.1f}"


def _silent(line):
    pass
