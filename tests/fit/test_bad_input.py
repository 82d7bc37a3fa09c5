"""Wrong input: a clear error, early, and nothing half-changed."""

import keras
import numpy as np
import pytest

from keras_swim import SampledDense, swim_fit

layers = keras.layers


def classifier():
    return keras.Sequential(
        [keras.Input((3,)), SampledDense(8), layers.Dense(4, activation="softmax")]
    )


def data(n=40):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)).astype("float32"), np.arange(n) % 4


def changed(x, row, column, value):
    x = x.copy()
    x[row, column] = value
    return x


X, Y = data()

CASES = {
    "NaN in x": (dict(x=changed(X, 17, 2, np.nan)), "row 17"),
    "infinity in x": (dict(x=changed(X, 3, 0, np.inf)), "row 3"),
    "NaN in y": (dict(y=np.where(np.arange(40) == 5, np.nan, Y)), "row 5"),
    "empty data": (dict(x=X[:0], y=Y[:0]), "empty"),
    "one row": (dict(x=X[:1], y=Y[:1]), "two or more rows"),
    "constant features": (dict(x=np.ones_like(X)), "distinct rows"),
    "one class": (dict(y=np.full(40, 2)), "two or more classes"),
    "lengths": (dict(y=Y[:30]), "same number of rows"),
    "rank of x": (dict(x=X[:, :, None]), "shape"),
    "columns of x": (dict(x=X[:, :2]), "shape"),
    "negative weight": (dict(sample_weight=np.linspace(-1, 1, 40)), "negative"),
    "rank of weight": (dict(sample_weight=np.ones((40, 2))), "one weight a row"),
    "all weights zero": (dict(sample_weight=np.zeros(40)), "positive weight"),
    "label too large": (dict(y=Y + 1), "0 to 3"),
    "label negative": (dict(y=Y - 1), "-1 at row 0"),
    "width of y": (dict(y=np.ones((40, 3))), "4 columns"),
    "not a distribution": (dict(y=np.ones((40, 4))), "add up to 1"),
    "no y": (dict(y=None), "needs targets"),
    "unknown solver": (dict(solver="magic"), "solver"),
    "negative l2": (dict(l2=-1.0), "l2"),
    "l2 by name": (dict(l2="best"), "l2"),
    "bad seed": (dict(seed=-1), "seed"),
    "bad batch size": (dict(batch_size=0), "batch_size"),
    "bad verbose": (dict(verbose=7), "verbose"),
    "bad sums": (dict(sums_dtype="float16"), "sums_dtype"),
    "bad device": (dict(sums_device="gpu:7"), "sums_device"),
    "class weight": (dict(class_weight={9: 2.0}), "label 9"),
    "class weight name": (dict(class_weight="even"), "balanced"),
    "split": (dict(validation_split=1.5), "validation_split"),
    "split twice": (
        dict(validation_split=0.5, validation_data=(X, Y)),
        "not both",
    ),
    "validation labels": (dict(validation_data=(X, Y + 9)), "0 to 3"),
    "validation columns": (dict(validation_data=(X[:, :1], Y)), "shape"),
}


@pytest.mark.parametrize("name", CASES)
def test_error_says_what_and_leaves_the_model_alone(name):
    arguments, text = CASES[name]
    arguments = {"x": X, "y": Y, "verbose": 0, **arguments}
    model = classifier()
    before = model.get_weights()
    with pytest.raises(ValueError) as caught:
        swim_fit(model, **arguments)
    assert text in str(caught.value)
    for first, second in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)
    assert model.layers[0].pairs is None


@pytest.mark.parametrize("x", [X.astype(complex), np.array([["a"] * 3] * 40, object)])
def test_not_numbers(x):
    with pytest.raises(TypeError):
        swim_fit(classifier(), x, Y, verbose=0)


def test_not_a_model():
    with pytest.raises(TypeError, match=r"keras\.Model"):
        swim_fit(SampledDense(3), X, Y)


@pytest.mark.parametrize(
    "last, text",
    [
        (lambda: SampledDense(4), "readout"),
        (lambda: layers.Flatten(), "readout"),
        (lambda: layers.Dense(4, activation="relu"), "relu"),
        (lambda: layers.Dense(4, trainable=False), "frozen"),
        (lambda: layers.Dense(4, use_bias=False), "bias"),
        (lambda: layers.Dense(1, activation="softmax"), "softmax of one"),
    ],
)
def test_models_without_a_readout_to_solve(last, text):
    model = keras.Sequential([keras.Input((3,)), SampledDense(8), last()])
    with pytest.raises(ValueError, match=text):
        swim_fit(model, X, Y, verbose=0)


@pytest.mark.parametrize(
    "layer, advice",
    [
        (lambda: layers.Dense(8, name="culprit"), "SampledDense"),
        (lambda: layers.EinsumDense("ab,bc->ac", 8, name="culprit"), "trainable"),
    ],
)
def test_layer_that_cannot_be_fitted_is_named(layer, advice):
    model = keras.Sequential([keras.Input((3,)), layer(), layers.Dense(4)])
    with pytest.raises(ValueError, match="culprit") as caught:
        swim_fit(model, X, Y, verbose=0)
    assert advice in str(caught.value)
    assert "trainable = False" in str(caught.value)


def test_trainable_backbone_is_refused_by_its_name():
    backbone = keras.Sequential(
        [keras.Input((3,)), layers.Dense(5, name="inner")], name="backbone"
    )
    model = keras.Sequential([keras.Input((3,)), backbone, layers.Dense(4)])
    with pytest.raises(ValueError, match="backbone/inner") as caught:
        swim_fit(model, X, Y, verbose=0)
    assert "'backbone'" in str(caught.value)


def test_readout_behind_a_readout_is_refused():
    inputs = keras.Input((3,))
    first = layers.Dense(2)(inputs)
    model = keras.Model(inputs, [first, layers.Dense(1)(first)])
    with pytest.raises(ValueError, match="readout"):
        swim_fit(model, X, [X[:, :2], X[:, :1]], verbose=0)


def test_number_of_targets_and_inputs():
    inputs = keras.Input((3,))
    hidden = SampledDense(5)(inputs)
    model = keras.Model(inputs, [layers.Dense(1)(hidden), layers.Dense(1)(hidden)])
    with pytest.raises(ValueError, match="2 output"):
        swim_fit(model, X, X[:, :1], verbose=0)
    with pytest.raises(ValueError, match="1 input"):
        swim_fit(model, [X, X], [X[:, :1], X[:, :1]], verbose=0)


def test_late_bad_batch_of_a_stream_is_named_and_changes_nothing():
    model = classifier()
    before = model.get_weights()

    def batches():
        yield X, Y
        yield X, Y + 2

    with pytest.raises(ValueError, match="at row 42"):
        swim_fit(model, batches, verbose=0)
    for first, second in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_used_generator_is_refused_with_advice():
    batches = iter([(X, Y)])
    list(batches)
    with pytest.raises(ValueError, match="at least one batch"):
        swim_fit(classifier(), batches, verbose=0)


def test_features_that_cannot_be_told_apart_name_the_layer():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.Rescaling(0.0),
            SampledDense(8, name="here"),
            layers.Dense(4, activation="softmax"),
        ]
    )
    with pytest.raises(ValueError, match="here"):
        swim_fit(model, X, Y, verbose=0)


def test_call_that_is_not_symbolic_is_explained():
    class Opaque(keras.Model):
        def __init__(self):
            super().__init__()
            self.readout = layers.Dense(1)

        def call(self, inputs):
            return self.readout(np.asarray(inputs) + 1)

    with pytest.raises(ValueError, match="functional API"):
        swim_fit(Opaque(), X, X[:, :1], verbose=0)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.TimeDistributed(SampledDense(5)),
        lambda: layers.TimeDistributed(layers.Dense(5, name="culprit")),
        lambda: layers.Bidirectional(layers.LSTM(3)),
        lambda: layers.Conv1D(4, 2),
    ],
)
def test_trainable_weights_are_never_left_random(layer):
    model = keras.Sequential([keras.Input((4, 3)), layer(), layers.Flatten()])
    model.add(layers.Dense(4))
    x = np.random.default_rng(0).normal(size=(40, 4, 3))
    with pytest.raises(ValueError, match="trainable"):
        swim_fit(model, x, Y, verbose=0)


@pytest.mark.parametrize(
    "shape, y",
    [((2, 3), Y), ((2, 3), np.stack([Y, Y, Y], 1)), ((3,), np.stack([Y, Y], 1))],
)
def test_positions_of_targets_and_outputs(shape, y):
    model = keras.Sequential([keras.Input(shape), SampledDense(8)])
    model.add(layers.Dense(4, activation="softmax"))
    x = np.random.default_rng(0).normal(size=(40, *shape))
    with pytest.raises(ValueError, match="shape"):
        swim_fit(model, x, y, verbose=0)


@pytest.mark.parametrize(
    "arguments",
    [
        dict(class_weight={"a": 1.0}),
        dict(class_weight={0: None}),
        dict(class_weight=[1.0, 2.0]),
        dict(seed="a"),
        dict(seed=1.5),
        dict(validation_split="a"),
        dict(l2=True),
        dict(batch_size="many"),
    ],
    ids=str,
)
def test_wrong_types_are_named(arguments):
    (name,) = arguments
    with pytest.raises(ValueError, match=name):
        swim_fit(classifier(), X, Y, verbose=0, **arguments)


def test_column_without_its_axis_is_explained():
    model = keras.Sequential([SampledDense(8), layers.Dense(4)])
    with pytest.raises(ValueError, match=r"x\[:, None\]"):
        swim_fit(model, X[:, 0], Y, verbose=0)


def test_text_labels_are_explained():
    with pytest.raises(TypeError, match="return_inverse"):
        swim_fit(classifier(), X, Y.astype(str), verbose=0)


def test_late_bad_validation_batch_is_explained():
    def batches():
        yield X, Y
        yield X[:, :2], Y

    with pytest.raises(ValueError, match="expects inputs of shape"):
        swim_fit(classifier(), X, Y, validation_data=batches, verbose=0)
