"""Whatever people pass as data, the same rows come out."""

import keras
import numpy as np
import pytest

from keras_swim import SampledDense
from keras_swim.data.sources import ArraySource, Names, StreamSource, as_source

ROWS = 50


@pytest.fixture
def parts():
    """x, integer labels and weights; exact in float32, so no form rounds them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 3)).astype("float32")
    weight = rng.integers(0, 4, size=ROWS).astype("float32")
    return x, rng.integers(0, 3, size=ROWS), weight


class Batches(keras.utils.PyDataset):
    def __init__(self, parts, size):
        super().__init__()
        self.parts, self.size, self.epochs = parts, size, 0

    def __len__(self):
        return -(-len(self.parts[0]) // self.size)

    def __getitem__(self, index):
        at = slice(index * self.size, (index + 1) * self.size)
        batch = tuple(part[at] for part in self.parts)
        return batch if len(batch) > 1 else batch[0]

    def on_epoch_end(self):
        self.epochs += 1


def generate(parts, size):
    for start in range(0, len(parts[0]), size):
        yield tuple(part[start : start + size] for part in parts)


def tf_data(parts, size):
    tf = pytest.importorskip("tensorflow")
    return tf.data.Dataset.from_tensor_slices(tuple(parts)).batch(size)


def data_loader(parts, size):
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(np.asarray(part)) for part in parts]
    dataset = torch.utils.data.TensorDataset(*tensors)
    return torch.utils.data.DataLoader(dataset, batch_size=size)


def frames(parts):
    pandas = pytest.importorskip("pandas")
    first = pandas.DataFrame(parts[0], columns=["a", "b", "c"])
    # An index that is no row number.
    first.index = np.arange(len(first))[::-1]
    return [first, *map(pandas.Series, parts[1:])]


ARRAYS = {
    "arrays": lambda parts: parts,
    "float64": lambda parts: [parts[0].astype("float64"), *parts[1:]],
    "not contiguous": lambda parts: [np.asfortranarray(parts[0]), *parts[1:]],
    "tensors": lambda parts: [keras.ops.convert_to_tensor(part) for part in parts],
    "lists": lambda parts: [part.tolist() for part in parts],
    "data frame": frames,
}

STREAMS = {
    "tf.data": tf_data,
    "PyDataset": Batches,
    "DataLoader": data_loader,
    "generator": generate,
    "function": lambda parts, size: lambda: generate(parts, size),
}


def as_argument(kind, parts, size=16):
    """The arguments of `adapt` or `as_source`, in one of the forms."""
    return ARRAYS[kind](parts) if kind in ARRAYS else [STREAMS[kind](parts, size)]


def rows_of(source, size=16):
    """All rows of a source, as one list of arrays for x, y and weight."""
    batches = list(source.batches(size))
    joined = []
    for arrays in zip(*batches, strict=True):
        joined.append([np.concatenate(same) for same in zip(*arrays, strict=True)])
    return joined


# The same rows from every form.


@pytest.mark.parametrize("count", [1, 2, 3], ids=["x", "x y", "x y w"])
@pytest.mark.parametrize("kind", [*ARRAYS, *STREAMS])
def test_rows_of_every_form(parts, kind, count):
    source = as_source(*as_argument(kind, parts[:count]))
    assert isinstance(source, ArraySource if kind in ARRAYS else StreamSource)
    assert source.rows == (ROWS if kind in ARRAYS else None)
    found = rows_of(source)
    assert [len(arrays) for arrays in found] == [1, int(count > 1), int(count > 2)]
    for arrays, part in zip(found, parts[:count], strict=False):
        np.testing.assert_array_equal(arrays[0], part)
    if count > 1:
        # Labels stay labels: floats would be magnitudes.
        assert found[1][0].dtype.kind == "i"


@pytest.mark.parametrize("count", [2, 3], ids=["x y", "x y w"])
@pytest.mark.parametrize("kind", [*ARRAYS, *STREAMS])
def test_adapt_draws_the_same_pairs_from_every_form(parts, kind, count):
    expected = SampledDense(20, seed=0)
    expected.adapt(*parts[:count])
    for size in (1, 7, ROWS) if kind in STREAMS else (None,):
        layer = SampledDense(20, seed=0)
        layer.adapt(*as_argument(kind, parts[:count], size))
        np.testing.assert_array_equal(layer.pairs, expected.pairs)
        for ours, theirs in zip(
            layer.get_weights(), expected.get_weights(), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
    if count == 3:
        assert (parts[2][expected.pairs] > 0).all()


@pytest.mark.parametrize("kind", [*ARRAYS, *STREAMS])
def test_adapt_without_targets(parts, kind):
    expected = SampledDense(20, sampler="uniform", seed=0)
    expected.adapt(parts[0])
    layer = SampledDense(20, sampler="uniform", seed=0)
    layer.adapt(*as_argument(kind, parts[:1]))
    np.testing.assert_array_equal(layer.pairs, expected.pairs)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float16", "float64"])
def test_adapt_takes_whole_numbers_of_every_type(dtype):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 100, size=(ROWS, 3)), rng.integers(0, 2, size=ROWS)
    expected = SampledDense(20, seed=0)
    expected.adapt(x.astype("float32"), y)
    layer = SampledDense(20, seed=0)
    layer.adapt(x.astype(dtype), y)
    np.testing.assert_array_equal(layer.pairs, expected.pairs)
    np.testing.assert_array_equal(layer.get_weights()[0], expected.get_weights()[0])


def test_bfloat16_arrays(parts):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = parts[0].astype(ml_dtypes.bfloat16)
    expected = SampledDense(20, seed=0)
    expected.adapt(x.astype("float32"), parts[1])
    layer = SampledDense(20, seed=0)
    layer.adapt(x, parts[1])
    np.testing.assert_array_equal(layer.pairs, expected.pairs)
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"nan at row 3, position \(1,\)"):
        as_source(x)


@pytest.mark.parametrize("kind", ["tf.data", "PyDataset", "DataLoader", "function"])
def test_data_sets_can_be_read_again(parts, kind):
    source = as_source(*as_argument(kind, parts))
    first, second = rows_of(source), rows_of(source)
    for before, after in zip(first, second, strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_pydataset_hears_of_the_end_of_each_pass(parts):
    data = Batches(parts, 16)
    source = as_source(data)
    rows_of(source)
    rows_of(source)
    assert data.epochs == 2


def test_tf_data_of_unknown_length(parts):
    tf = pytest.importorskip("tensorflow")
    data = tf_data(parts, 16).filter(lambda x, y, w: tf.constant(True))
    assert int(data.cardinality()) == tf.data.UNKNOWN_CARDINALITY
    np.testing.assert_array_equal(rows_of(as_source(data))[0][0], parts[0])


def test_empty_batches_of_a_stream_are_passed_over(parts):
    empty = tuple(part[:0] for part in parts)
    batches = [empty, *generate(parts, 20), empty]
    found = rows_of(as_source(lambda: iter(batches)))
    np.testing.assert_array_equal(found[0][0], parts[0])


def test_arrays_are_cut_into_batches_of_the_given_size(parts):
    sizes = [batch.rows for batch in as_source(*parts).batches(20)]
    assert sizes == [20, 20, 10]


# Several inputs and outputs.


@pytest.mark.parametrize("stream", [False, True], ids=["arrays", "stream"])
@pytest.mark.parametrize("form", [list, tuple, dict])
def test_several_inputs_and_outputs(parts, form, stream):
    x, y, w = parts
    # Names in the order of the model, which is not that of the alphabet.
    names = Names(["right", "left"], ["tall", "small"])
    inputs = {"left": x + 1, "right": x}
    outputs = {"small": w, "tall": y}
    weights = {"small": w + 1, "tall": w}
    given = []
    for part, order in ((inputs, 0), (outputs, 1), (weights, 1)):
        ordered = {name: part[name] for name in names[order]}
        given.append(part if form is dict else form(ordered.values()))
    if stream:
        batch = tuple(given)
        given = [lambda: iter([batch])]
    found = rows_of(as_source(*given, names=names), ROWS)
    for arrays, expected in zip(found, [(x, x + 1), (y, w), (w, w + 1)], strict=True):
        assert len(arrays) == 2
        np.testing.assert_array_equal(arrays[0], expected[0])
        np.testing.assert_array_equal(arrays[1], expected[1])


def test_dicts_without_names_are_sorted(parts):
    x = parts[0]
    batch = as_source({"b": x + 1, "a": x}).data
    np.testing.assert_array_equal(batch.x[0], x)
    np.testing.assert_array_equal(batch.x[1], x + 1)


def test_a_dict_of_one_array_needs_no_matching_name(parts):
    x = parts[0]
    for names in (None, Names(["input"])):
        np.testing.assert_array_equal(as_source({"x": x}, names=names).data.x, [x])


def test_missing_entries_are_named(parts):
    with pytest.raises(ValueError, match=r"no entry for \['b'\].*\['a'\]"):
        as_source({"a": parts[0]}, names=Names(["a", "b"]))


@pytest.mark.parametrize("names", [["a"], ["a", "b"]], ids=str)
def test_entries_that_no_input_is_called_by_are_refused(parts, names):
    data = {name: parts[0] for name in [*names, "other"]}
    with pytest.raises(ValueError, match=r"keys \['a'.*other"):
        as_source(data, names=Names(names))


def test_adapt_takes_a_dict_of_one_array(parts):
    expected, layer = SampledDense(20, seed=0), SampledDense(20, seed=0)
    expected.adapt(*parts[:2])
    layer.adapt({"x": parts[0]}, {"y": parts[1]})
    np.testing.assert_array_equal(layer.pairs, expected.pairs)


# Refusals.


def test_a_generator_is_read_only_once(parts):
    source = as_source(generate(parts, 16))
    rows_of(source)
    with pytest.raises(ValueError, match=r"only once.*function that returns a new one"):
        rows_of(source)


def test_an_infinite_data_set_is_refused(parts):
    with pytest.raises(ValueError, match=r"for ever.*\.repeat\(\).*\.take\("):
        as_source(tf_data(parts, 16).repeat())


def test_a_repeated_data_set_with_an_end_is_not(parts):
    found = rows_of(as_source(tf_data(parts, 16).repeat(2)))
    np.testing.assert_array_equal(found[0][0], np.concatenate([parts[0]] * 2))


def test_a_pydataset_without_length_is_refused(parts):
    class Endless(Batches):
        @property
        def num_batches(self):
            return None

    with pytest.raises(ValueError, match="must have a length"):
        rows_of(as_source(Endless(parts, 16)))


@pytest.mark.parametrize("name", ["y", "sample_weight"])
@pytest.mark.parametrize("kind", STREAMS)
def test_targets_and_weights_beside_a_data_set_are_refused(parts, kind, name):
    (data,) = as_argument(kind, parts[:1])
    with pytest.raises(
        ValueError, match=rf"`{name}` must not be given.*yield \(x, y\)"
    ):
        as_source(data, **{name: parts[1]})


@pytest.mark.parametrize("kind", ["generator", "function", "PyDataset"])
def test_an_empty_stream_is_refused(kind):
    class Nothing(Batches):
        def __len__(self):
            return 0

    data = {
        "generator": iter([]),
        "function": lambda: iter([]),
        "PyDataset": Nothing((np.zeros((1, 1)),), 1),
    }[kind]
    with pytest.raises(ValueError, match=r"at least one batch.*empty stream"):
        rows_of(as_source(data))
    with pytest.raises(ValueError, match=r"at least one batch.*empty stream"):
        SampledDense(4, sampler="uniform").adapt(data)


def test_an_unbatched_stream_is_refused(parts):
    x, y, _ = parts
    with pytest.raises(ValueError, match="`y` must have rows"):
        rows_of(as_source(lambda: zip(x, y, strict=True)))


@pytest.mark.parametrize("stream", [False, True], ids=["arrays", "stream"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda array: array + 1j, "real numbers.*complex.*separate columns"),
        (lambda array: array.astype(object), "Python objects.*numeric dtype"),
        (lambda array: array.astype(str).astype(object), "text.*integers"),
    ],
    ids=["complex", "objects", "text"],
)
@pytest.mark.parametrize("at", [0, 1, 2], ids=["x", "y", "weight"])
def test_arrays_that_hold_no_real_numbers(parts, at, change, message, stream):
    if at == 1 and message.startswith("text"):
        pytest.skip("labels may be text")
    given = list(parts)
    given[at] = change(given[at])
    with pytest.raises(TypeError, match=message):
        rows_of(
            as_source(lambda: iter([tuple(given)])) if stream else as_source(*given)
        )


@pytest.mark.parametrize("shape", [(0,), (0, 2)])
def test_empty_arrays_of_objects_are_refused_for_what_they_are(shape):
    # The data frame of a query without result has columns of objects.
    with pytest.raises((TypeError, ValueError), match=r"empty|objects"):
        as_source(np.empty(shape, dtype=object))


@pytest.mark.parametrize("at", [0, 1, 2], ids=["x", "y", "weight"])
def test_rows_of_a_stream_are_counted_over_all_batches(parts, at):
    given = [np.array(part, dtype="float64") for part in parts]
    given[at][37] = np.nan
    name = ["x", "y", "sample_weight"][at]
    with pytest.raises(ValueError, match=f"`{name}`.*nan at row 37"):
        rows_of(as_source(generate(given, 16)))
    given[at][37] = 0.0
    given[2][41] = -1.0
    with pytest.raises(ValueError, match=r"negative.*-1\.0 at row 41"):
        rows_of(as_source(generate(given, 16)))


def test_rows_of_long_arrays_are_counted_from_the_start():
    x = np.zeros((10_000, 2))
    x[9_000, 1] = np.inf
    with pytest.raises(ValueError, match=r"inf at row 9000, position \(1,\)"):
        as_source(x)


def test_which_of_several_inputs_is_named(parts):
    bad = parts[0].copy()
    bad[4] = np.nan
    with pytest.raises(ValueError, match=r"`x\[1\]`.*row 4.*3 such value"):
        as_source([parts[0], bad])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_large_numbers_are_finite_even_if_their_sum_is_not(dtype):
    x = np.full((100, 2), np.finfo(dtype).max, dtype=dtype)
    np.testing.assert_array_equal(as_source(x).data.x[0], x)


def test_unequal_lengths_within_a_batch(parts):
    x, y, _ = parts
    with pytest.raises(ValueError, match=r"same number of rows.*16 in x, 15 in y"):
        rows_of(as_source(lambda: iter([(x[:16], y[:15])])))
