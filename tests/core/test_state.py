"""What a state can do besides adding: forget, grow, shrink, be saved."""

import numpy as np
import pytest

from keras_swim.core.readout import ReadoutState
from keras_swim.core.solvers import solve

FORMS = ["rows", "sums"]


def data(n=200, k=12, c=3, seed=0):
    rng = np.random.default_rng(seed)
    features = 3 + rng.normal(size=(n, k))
    return features, rng.normal(size=(n, c)), rng.integers(0, 3, size=n) / 2


def assert_same_system(first, second, tolerance=1e-9):
    for mine, theirs in zip(first.system(), second.system(), strict=True):
        np.testing.assert_allclose(
            mine, theirs, rtol=tolerance, atol=tolerance * np.abs(theirs).max()
        )


@pytest.mark.parametrize("form", FORMS)
def test_forgotten_equals_never_seen(form):
    features, targets, weight = data()
    gone = np.arange(0, 200, 7)
    state = ReadoutState(12, 3, form).update(features, targets, weight)
    state.remove(features[gone], targets[gone], weight[gone])
    stay = np.setdiff1d(np.arange(200), gone)
    never = ReadoutState(12, 3, form)
    never.update(features[stay], targets[stay], weight[stay])
    assert state.count == never.count
    assert_same_system(state, never)


def test_a_row_that_is_not_there_cannot_be_removed():
    features, targets, _ = data(20)
    state = ReadoutState(12, 3, "rows").update(features, targets)
    before = state.system().gram
    with pytest.raises(ValueError, match="does not hold"):
        state.remove(features[:2] + [[0.0], [1.0]], targets[:2])
    np.testing.assert_array_equal(state.system().gram, before)


def test_one_of_two_equal_rows_is_removed():
    features, targets, _ = data(20)
    doubled = [np.concatenate([part, part]) for part in (features, targets)]
    state = ReadoutState(12, 3, "rows").update(*doubled)
    assert_same_system(
        state.remove(features, targets), ReadoutState(12, 3).update(features, targets)
    )


@pytest.mark.parametrize("form", FORMS)
def test_new_classes_equal_classes_known_from_the_start(form):
    features, _, weight = data()
    labels = np.arange(200) % 5
    codes = np.eye(5)[labels]
    old = labels < 3
    state = ReadoutState(12, 3, form)
    state.update(features[old], codes[old, :3], weight[old])
    state.add_classes(2).update(features[~old], codes[~old], weight[~old])
    joint = ReadoutState(12, 5, form).update(features, codes, weight)
    assert_same_system(state, joint)


@pytest.mark.parametrize("form", [*FORMS, "auto"])
def test_fewer_units(form):
    features, targets, weight = data(8 if form == "auto" else 200)
    keep = np.arange(12) % 3 > 0
    state = ReadoutState(12, 3, form).update(features, targets, weight)
    smaller = ReadoutState(8, 3, form).update(features[:, keep], targets, weight)
    assert_same_system(state.keep_units(keep), smaller)
    assert state.units == 12


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_saved_equals_loaded(tmp_path, form, dtype):
    features, targets, weight = data()
    state = ReadoutState(12, 3, form, dtype)
    state.update(features[:90], targets[:90], weight[:90])
    state.save(tmp_path / "state.npz")
    again = ReadoutState.load(tmp_path / "state.npz")
    assert (again.form, again.dtype, again.count) == (form, dtype, state.count)
    for each in (state, again):
        each.update(features[90:], targets[90:], weight[90:])
    np.testing.assert_allclose(
        solve(state, 1e-3).kernel, solve(again, 1e-3).kernel, rtol=1e-12
    )
    assert [path.name for path in tmp_path.iterdir()] == ["state.npz"]


def test_empty_states_are_saved_too(tmp_path):
    for form in FORMS:
        ReadoutState(4, 2, form).save(tmp_path / "empty.npz")
        again = ReadoutState.load(tmp_path / "empty.npz")
        assert again.count == 0
        again.update(np.ones((3, 4)), np.ones((3, 2)))


def test_interrupted_save_keeps_the_old_file(tmp_path, monkeypatch):
    features, targets, _ = data()
    path = tmp_path / "state.npz"
    ReadoutState(12, 3).update(features, targets).save(path)
    before = path.read_bytes()

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_swim.core.state_file.os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ReadoutState(12, 3).save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.npz"]


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, a=1)
    with pytest.raises(ValueError, match="no keras-swim readout state file"):
        ReadoutState.load(path)
    path.write_bytes(b"PK\x03\x04 half a file")
    with pytest.raises(ValueError, match="damaged"):
        ReadoutState.load(path)
    # A pickled object must not be run.
    np.savez(path, a=np.array([print], dtype=object))
    with pytest.raises(ValueError, match="no keras-swim readout state file"):
        ReadoutState.load(path)


def test_newer_versions_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_swim.core.state_file.VERSION", 99)
    ReadoutState(4, 2).save(tmp_path / "new.npz")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="version 99"):
        ReadoutState.load(tmp_path / "new.npz")


def test_bad_arguments():
    state = ReadoutState(4, 2)
    with pytest.raises(ValueError, match="count"):
        state.add_classes(0)
    with pytest.raises(ValueError, match="mask of 4"):
        state.keep_units(np.zeros(4, bool))
