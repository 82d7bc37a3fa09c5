"""The choice among several heads on the same features."""

from typing import Any, NamedTuple

from keras_swim.build.candidates import choose_among
from keras_swim.build.heads import split_head
from keras_swim.fit.rebuild import copy_weights
from keras_swim.fit.selection import Selection

# What may help, depending on the backbone and on the number of images.
CANDIDATES: tuple[dict, ...] = (
    {},
    {"transform": "sqrt"},
    {"skip": True},
    {"transform": "sqrt", "skip": True},
)


class HeadChoice(NamedTuple):
    """A fitted model, and how it was chosen.

    Attributes:
        model: The whole model, from images to predictions.
        settings: Those of the chosen candidate.
        selection: `Selection` of its head, on features.
    """

    model: Any
    settings: dict
    selection: Selection


def select_head(build, features, labels, candidates=CANDIDATES, report=None, **options):
    """Selects settings, width, scale and ridge of a head on given features.

    Args:
        build: Function from settings of `SwimHead` to the model that it builds:
            `functools.partial(SwimHead, backbone, num_classes, units=4096, ...)`.
            The units are the largest to try.
        features: `(n, d)` features behind the backbone, as the first part of
            `split_head` gives them.
        labels: `(n,)` labels.
        candidates: Settings to try, dicts, the plainest first.
        report: `None`, or a function that is called with the settings and the
            `Selection` of each candidate.
        **options: See `swim_select`. With `rule="one_standard_error"` the choice is
            the first candidate that, at its own width, comes within one standard
            error of the best.

    Returns:
        A `HeadChoice`.

    Example:

    >>> from functools import partial
    >>> inputs = keras.Input((8, 8, 3))
    >>> backbone = keras.Model(inputs, keras.layers.Flatten()(inputs))
    >>> build = partial(SwimHead, backbone, 2, units=64)
    >>> x = np.random.default_rng(0).normal(size=(100, 192))
    >>> choice = select_head(build, x, (x[:, 0] > 0).astype(int), verbose=0, seed=0)
    >>> choice.model.name, sorted(choice.settings)
    ('swim_head', ['skip', 'transform'])
    """
    heads = ((settings, split_head(build(**settings))[1]) for settings in candidates)
    found = choose_among(heads, features, labels, report, **options)
    settings, selection = found.settings, found.selection
    model = build(**settings, units=selection.width, scale=selection.scale)
    for layer in selection.model.layers:
        if layer.weights:
            copy_weights(layer, model.get_layer(layer.name))
    return HeadChoice(model, settings, selection)
