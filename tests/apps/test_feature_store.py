import numpy as np
import pytest

from keras_swim.apps.console import CommandError
from keras_swim.apps.feature_store import FeatureStore


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(6, 3)).astype("float32")


DIGESTS = ["a", "b", "c", "d", "e", "f"]


def test_rows_come_back_by_digest(tmp_path, rows):
    store = FeatureStore(tmp_path / "s", "net", 3)
    store.append(DIGESTS[:4], rows[:4])
    store.append(DIGESTS[4:], rows[4:])
    np.testing.assert_array_equal(store.read(DIGESTS), rows)
    np.testing.assert_array_equal(store.read(["e", "a", "a"]), rows[[4, 0, 0]])
    store.close()
    again = FeatureStore(tmp_path / "s", "net", 3)
    np.testing.assert_array_equal(again.read(DIGESTS), rows)
    again.close()


def test_only_new_files_are_missing_and_each_once(tmp_path, rows):
    store = FeatureStore(tmp_path, "net", 3)
    assert store.missing(["a", "b", "a"]).tolist() == [0, 1]
    store.append(["a"], rows[:1])
    assert store.missing(["a", "b", "c", "b"]).tolist() == [1, 2]
    assert store.missing(["a"]).tolist() == []
    store.close()


def test_rows_behind_the_index_are_forgotten(tmp_path, rows):
    store = FeatureStore(tmp_path, "net", 3)
    store.append(DIGESTS[:2], rows[:2])
    store.save()
    store.append(DIGESTS[2:4], rows[2:4])
    store._file.close()  # As if the process had been killed.
    again = FeatureStore(tmp_path, "net", 3)
    assert again.missing(DIGESTS[:4]).tolist() == [2, 3]
    again.append(DIGESTS[2:4], rows[2:4])
    np.testing.assert_array_equal(again.read(DIGESTS[:4]), rows[:4])
    again.close()


def test_other_layers_are_refused(tmp_path, rows):
    store = FeatureStore(tmp_path, "net", 3)
    store.append(DIGESTS[:2], rows[:2])
    store.close()
    for layers, columns in (("other", 3), ("net", 4)):
        with pytest.raises(CommandError, match="another backbone"):
            FeatureStore(tmp_path, layers, columns)
    with pytest.raises(ValueError, match="rows of 3"):
        FeatureStore(tmp_path, "net", 3).append(["x"], np.zeros((1, 2)))


def test_foreign_and_damaged_folders_are_refused(tmp_path, rows):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "letter.txt").write_text("dear")
    with pytest.raises(CommandError, match="is no feature cache"):
        FeatureStore(tmp_path / "x", "net", 3)
    with pytest.raises(CommandError, match="must be a folder"):
        FeatureStore(tmp_path / "x" / "letter.txt", "net", 3)
    store = FeatureStore(tmp_path / "y", "net", 3)
    store.append(DIGESTS, rows)
    store.close()
    (tmp_path / "y" / "features.f32").write_bytes(b"")
    with pytest.raises(CommandError, match="shorter than its index"):
        FeatureStore(tmp_path / "y", "net", 3)
    (tmp_path / "y" / "index.npz").write_bytes(b"junk")
    with pytest.raises(CommandError, match="damaged"):
        FeatureStore(tmp_path / "y", "net", 3)
