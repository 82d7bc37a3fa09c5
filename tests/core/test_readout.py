"""Sums know as much as the rows: merged equals joint, weighted equals repeated."""

import numpy as np
import pytest

from keras_swim.core import moments
from keras_swim.core.readout import ReadoutState

UNITS, OUTPUTS = 7, 2


def _rows(n=60, units=UNITS, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, units)) + rng.normal(size=units)
    targets = rng.normal(size=(n, OUTPUTS)) + 3.0
    return features, targets, rng.uniform(0.1, 2.0, n)


def _reference(features, targets, weight=None):
    """The centred system, in extended precision."""
    f, y = features.astype(np.longdouble), targets.astype(np.longdouble)
    w = np.ones(len(f)) if weight is None else weight
    w = w.astype(np.longdouble)
    f_mean, y_mean = w @ f / w.sum(), w @ y / w.sum()
    fc, yc = f - f_mean, y - y_mean
    system = (fc.T * w) @ fc, (fc.T * w) @ yc, f_mean, y_mean, w @ yc**2, w.sum()
    return [np.asarray(part, dtype=np.float64) for part in system]


def _assert_same(system, expected, rtol=1e-12):
    for name, part, known in zip(system._fields, system, expected, strict=True):
        scale = np.abs(known).max()
        np.testing.assert_allclose(
            part, known, rtol=0, atol=rtol * scale + 1e-30, err_msg=f"{name} differs"
        )


def _state(rows, form="auto", **options):
    features, targets, *weight = rows
    state = ReadoutState(features.shape[1], targets.shape[1], form, **options)
    return state.update(features, targets, *weight)


def _split(rows, sizes):
    ends = np.cumsum(sizes)
    assert ends[-1] == len(rows[0])
    return [
        tuple(part[end - size : end] for part in rows)
        for size, end in zip(sizes, ends, strict=True)
    ]


@pytest.mark.parametrize("form", ["auto", "rows", "sums"])
@pytest.mark.parametrize("n", [1, 3, 7, 8, 60])
def test_system_is_the_centred_one(form, n):
    rows = _rows(n)
    _assert_same(_state(rows, form).system(), _reference(*rows))
    _assert_same(_state(rows[:2], form).system(), _reference(*rows[:2]))


def test_gram_is_symmetric_also_where_it_is_mirrored_block_by_block():
    features, targets, weight = _rows(40, units=1100)
    system = _state((features, targets, weight), "sums").system()
    np.testing.assert_array_equal(system.gram, system.gram.T)
    _assert_same(system, _reference(features, targets, weight))


@pytest.mark.parametrize("form", ["auto", "rows", "sums"])
@pytest.mark.parametrize("sizes", [[60], [1, 59], [30, 0, 30], [5, 3, 40, 12]])
def test_batches_do_not_show(form, sizes):
    rows = _rows()
    state = ReadoutState(UNITS, OUTPUTS, form)
    for batch in _split(rows, sizes):
        assert state.update(*batch) is state
    assert state.count == 60
    _assert_same(state.system(), _reference(*rows))


def test_blocks_inside_a_batch_do_not_show(monkeypatch):
    monkeypatch.setattr(moments, "_BLOCK_ELEMENTS", 1)
    rows = _rows(1000)
    _assert_same(_state(rows, "sums").system(), _reference(*rows))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)])
@pytest.mark.parametrize("sizes", [[15, 15, 15, 15], [1, 2, 3, 54], [54, 3, 2, 1]])
def test_merged_equals_joint_in_any_order(order, sizes):
    # Small parts are kept as rows, large ones as sums: all four mixtures occur.
    rows = _rows()
    parts = [_state(batch) for batch in _split(rows, sizes)]
    merged = ReadoutState(UNITS, OUTPUTS)
    for number in order:
        assert merged.merge(parts[number]) is merged
    assert merged.count == 60
    _assert_same(merged.system(), _reference(*rows))


def test_merging_is_associative():
    parts = _split(_rows(), [20, 25, 15])
    left, right = [_state(part) for part in parts], [_state(part) for part in parts]
    first = left[0].merge(left[1]).merge(left[2])
    second = right[0].merge(right[1].merge(right[2]))
    _assert_same(first.system(), second.system())


def test_merging_leaves_the_other_state_alone():
    one, two = (_state(batch) for batch in _split(_rows(), [30, 30]))
    before = two.system()
    one.merge(two).merge(two)
    _assert_same(two.system(), before, rtol=0)
    assert two.count == 30


@pytest.mark.parametrize("empty_first", [False, True])
def test_an_empty_state_adds_nothing(empty_first):
    rows = _rows()
    empty, full = ReadoutState(UNITS, OUTPUTS, "sums"), _state(rows)
    merged = empty.merge(full) if empty_first else full.merge(empty)
    _assert_same(merged.system(), _reference(*rows))


@pytest.mark.parametrize("n", [5, 60])
def test_merging_with_itself_is_every_row_twice(n):
    rows = _rows(n)
    state = _state(rows)
    state.merge(state)
    assert state.count == 2 * n
    _assert_same(
        state.system(), _reference(*(np.concatenate([part, part]) for part in rows))
    )


@pytest.mark.parametrize("form", ["rows", "sums"])
def test_row_of_weight_two_equals_the_row_twice(form):
    features, targets, _ = _rows(20)
    times = np.arange(20) % 3
    weighted = _state((features, targets, times.astype(float)), form)
    repeated = _state((features.repeat(times, 0), targets.repeat(times, 0)), form)
    _assert_same(weighted.system(), repeated.system())


def test_rows_and_sums_give_the_same_system():
    rows = _rows(30)
    kept, summed = _state(rows, "rows"), _state(rows, "sums")
    assert kept.keeps_rows and not summed.keeps_rows
    _assert_same(kept.system(), summed.system())


def test_rows_turn_into_sums_when_there_are_more_rows_than_units():
    features, targets, weight = _rows(UNITS + 1)
    state = _state((features[:-1], targets[:-1], weight[:-1]))
    assert state.keeps_rows
    np.testing.assert_array_equal(state.rows().features, features[:-1])
    state.update(features[-1:], targets[-1:], weight[-1:])
    assert not state.keeps_rows
    _assert_same(state.system(), _reference(features, targets, weight))
    with pytest.raises(ValueError, match='form="rows"'):
        state.rows()


def test_kept_rows_are_the_rows_in_order():
    rows = _rows(60)
    state = ReadoutState(UNITS, OUTPUTS, "rows")
    for batch in _split(rows, [10, 45, 5]):
        state.update(*batch)
    for part, known in zip(state.rows(), rows, strict=True):
        np.testing.assert_array_equal(part, known)


def test_empty_state_has_no_rows():
    features, targets, weight = ReadoutState(UNITS, OUTPUTS).rows()
    assert features.shape == (0, UNITS)
    assert targets.shape == (0, OUTPUTS) and weight.shape == (0,)


def test_buffers_may_be_reused_after_an_update():
    features, targets, weight = _rows(5)
    expected = _reference(features, targets, weight)
    state = _state((features, targets, weight))
    for buffer in (features, targets, weight):
        buffer[:] = -1.0
    _assert_same(state.system(), expected)


def test_system_does_not_touch_the_sums():
    rows = _rows()
    state = _state(rows)
    for _ in range(3):
        system = state.system()
    _assert_same(system, _reference(*rows))
    state.system().gram[:] = 0.0
    _assert_same(state.system(), _reference(*rows))


@pytest.mark.parametrize("form", ["rows", "sums"])
def test_kept_units_are_as_if_the_others_were_deleted(form):
    features, targets, weight = _rows()
    keep = np.array([True, False, True, True, False, False, True])
    some = _state((features, targets, weight), form).system(keep)
    _assert_same(some, _reference(features[:, keep], targets, weight))


# Numbers


@pytest.mark.parametrize("sizes", [[2000], [100] * 20, [1, 1999]])
def test_features_far_from_zero_keep_their_digits(sizes):
    features, targets, weight = _rows(2000)
    rows = (features + 1e6, targets - 1e6, weight)
    state, merged = ReadoutState(UNITS, OUTPUTS), ReadoutState(UNITS, OUTPUTS)
    for batch in _split(rows, sizes):
        state.update(*batch)
        merged.merge(_state(batch))
    expected = _reference(*rows)
    # About 1e-4 if the sums were relative to zero.
    _assert_same(state.system(), expected, rtol=1e-6)
    _assert_same(merged.system(), expected, rtol=1e-6)


def test_float32_is_close():
    features, targets, weight = _rows(5000)
    state = _state((features.astype(np.float32), targets, weight), dtype="float32")
    expected = _reference(features, targets, weight)
    _assert_same(state.system(), expected, rtol=1e-5)
    difference = np.abs(state.system().gram - expected[0]).max()
    assert difference > 1e-13 * expected[0].max(), "float32 was not used"


def test_float32_means_are_as_exact_as_the_spread_needs():
    """The offset must be the very number that was subtracted."""
    features, targets, _ = _rows(2000)
    features = (features + 3e4).astype(np.float32)
    system = _state((features, targets), dtype="float32").system()
    gram, cross, mean, *_ = _reference(features, targets)
    np.testing.assert_allclose(system.gram, gram, atol=1e-5 * gram.max())
    np.testing.assert_allclose(system.cross, cross, atol=1e-5 * gram.max())
    # Spreads are about 1, so this is relative to them.
    np.testing.assert_allclose(system.feature_mean, mean, rtol=0, atol=1e-5)


# Sums from elsewhere


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("before", [0, 4, 30])
def test_sums_made_elsewhere_equal_their_rows(lower, before):
    rows = _rows()
    mine, (f, y, w) = _split(rows, [before, 60 - before])
    offsets = np.full(UNITS, 0.5), np.array([2.0, -1.0])
    f, y = f - offsets[0], y - offsets[1]
    gram = (f.T * w) @ f
    sums = {
        "w": w.sum(),
        "f": w @ f,
        "y": w @ y,
        "ff": np.tril(gram) if lower else gram,
        "fy": (f.T * w) @ y,
        "yy": (y.T * w) @ y,
    }
    state = _state(mine).add_sums(60 - before, offsets, sums)
    assert state.count == 60
    _assert_same(state.system(), _reference(*rows))


# Errors


@pytest.mark.parametrize(
    "features, targets, weight, name",
    [
        (np.ones((3, UNITS + 1)), np.ones((3, OUTPUTS)), None, "features"),
        (np.ones(UNITS), np.ones((1, OUTPUTS)), None, "features"),
        (np.ones((3, UNITS)), np.ones((3, OUTPUTS + 1)), None, "targets"),
        (np.ones((3, UNITS)), np.ones((2, OUTPUTS)), None, "targets"),
        (np.ones((3, UNITS)), np.ones(3), None, "targets"),
        (np.ones((3, UNITS)), np.ones((3, OUTPUTS)), np.ones(2), "sample_weight"),
        (np.ones((3, UNITS)), np.ones((3, OUTPUTS)), np.ones((3, 1)), "sample_weight"),
    ],
)
def test_wrong_shapes_are_refused(features, targets, weight, name):
    state = ReadoutState(UNITS, OUTPUTS)
    with pytest.raises(ValueError, match=rf"`{name}` must have shape.*Received"):
        state.update(features, targets, weight)
    assert state.count == 0


@pytest.mark.parametrize("units, outputs", [(UNITS + 1, OUTPUTS), (UNITS, OUTPUTS + 1)])
def test_states_over_other_features_do_not_merge(units, outputs):
    with pytest.raises(ValueError, match=rf"{units} and {outputs} in `other`"):
        ReadoutState(UNITS, OUTPUTS).merge(ReadoutState(units, outputs))


def test_sums_do_not_turn_back_into_rows():
    kept, summed = _state(_rows(), "rows"), _state(_rows(), "sums")
    with pytest.raises(ValueError, match="other way round"):
        kept.merge(summed)
    assert summed.merge(kept).count == 120


@pytest.mark.parametrize("form", ["auto", "rows", "sums"])
def test_no_weight_no_system(form):
    features, targets, weight = _rows()
    for state in (
        ReadoutState(UNITS, OUTPUTS, form),
        _state((features, targets, 0 * weight), form),
    ):
        with pytest.raises(ValueError, match=r"positive weight.*Received"):
            state.system()


@pytest.mark.parametrize("options", [{"form": "columns"}, {"dtype": "float16"}])
def test_unknown_options_are_refused(options):
    (name,) = options
    with pytest.raises(ValueError, match=rf"`{name}` must be .*Received"):
        ReadoutState(UNITS, OUTPUTS, **options)
