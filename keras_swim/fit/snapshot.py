"""The weights of a model before a fit, to go back to."""

from contextlib import contextmanager

import keras


def weights_of(layers):
    """Weights and pairs of some layers; `restore` takes them back."""
    return [
        (
            layer,
            [
                (weight, keras.ops.convert_to_numpy(weight.value))
                for weight in layer.weights
            ],
            getattr(layer, "pairs", None),
        )
        for layer in layers
    ]


def restore(before):
    """Puts weights and pairs back."""
    for layer, weights, pairs in before:
        for weight, value in weights:
            weight.assign(value)
        if hasattr(layer, "pairs"):
            layer._pairs = pairs
        if hasattr(layer, "finalize_state"):
            layer.finalize_state()


@contextmanager
def undone_on_failure(model, layers):
    """Leaves the layers of a model as they were if what is inside raises.

    Also on Ctrl-C: half a fit is no fit.
    """
    before = weights_of(layers)
    try:
        yield
    except BaseException:
        restore(before)
        forget_compiled(model)
        raise


def forget_compiled(model):
    """Makes `predict`, `evaluate` and `fit` compile anew."""
    # Normalization's statistics are constants in functions compiled before.
    model.predict_function = None
    model.test_function = None
    model.train_function = None
