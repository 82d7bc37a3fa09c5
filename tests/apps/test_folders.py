import shutil

import numpy as np
import pytest

from keras_swim.apps.console import CommandError
from keras_swim.apps.folders import find_images, scan_folder, split_images


def test_classes_are_the_folders_in_order(photos):
    scan = scan_folder(photos)
    assert scan.images.class_names == ["blue", "green", "red"]
    assert scan.images.counts.tolist() == [10, 10, 10]
    assert not scan.problems
    for path, label in zip(scan.images.paths, scan.images.labels, strict=True):
        assert path.parent.name == scan.images.class_names[label]


def test_images_in_deeper_folders_count(photos):
    (photos / "red" / "more").mkdir()
    shutil.copy(photos / "red" / "0.png", photos / "red" / "more" / "x.png")
    assert scan_folder(photos).images.counts.tolist() == [10, 10, 11]


def test_bad_files_are_named_with_a_reason(photos):
    whole = (photos / "red" / "1.jpg").read_bytes()
    (photos / "red" / "cut.jpg").write_bytes(whole[: len(whole) * 4 // 5])
    (photos / "red" / "text.png").write_text("no pixels")
    (photos / "red" / "empty.png").write_bytes(b"")
    (photos / "red" / "notes.txt").write_text("a note")
    (photos / "loose.png").write_bytes((photos / "red" / "0.png").read_bytes())
    (photos / "red" / ".hidden").write_text("")
    (photos / "red" / "Thumbs.db").write_text("")
    scan = scan_folder(photos)
    reasons = {problem.path.name: problem.reason for problem in scan.problems}
    assert set(reasons) == {
        "cut.jpg",
        "text.png",
        "empty.png",
        "notes.txt",
        "loose.png",
    }
    assert "damaged" in reasons["cut.jpg"]
    assert "not an image" in reasons["text.png"]
    assert "empty" in reasons["empty.png"]
    assert len(scan.images) == 30


def test_one_picture_in_two_classes_is_used_in_none(photos):
    shutil.copy(photos / "red" / "0.png", photos / "blue" / "copy.png")
    scan = scan_folder(photos)
    assert {problem.path.name for problem in scan.problems} == {"0.png", "copy.png"}
    assert scan.images.counts.tolist() == [10, 10, 9]


def test_empty_classes_are_left_out(photos):
    (photos / "aaa").mkdir()
    images = scan_folder(photos).images
    assert images.class_names == ["blue", "green", "red"]
    assert images.labels.min() == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: shutil.rmtree(path), "does not exist"),
        (lambda path: [shutil.rmtree(p) for p in path.iterdir()], "no folders in it"),
        (
            lambda path: [shutil.rmtree(path / name) for name in ("red", "blue")],
            "one class only",
        ),
        (
            lambda path: [f.unlink() for f in path.glob("*/*")],
            "no image",
        ),
    ],
)
def test_bad_folders_are_refused(photos, change, words):
    change(photos)
    with pytest.raises(CommandError, match=words):
        scan_folder(photos)


def test_a_file_instead_of_a_folder(photos):
    with pytest.raises(CommandError, match="is a file"):
        scan_folder(photos / "red" / "0.png")


def test_parts_of_a_data_set_get_advice(photos, tmp_path):
    (tmp_path / "set").mkdir()
    shutil.copytree(photos, tmp_path / "set" / "train")
    shutil.copytree(photos, tmp_path / "set" / "val")
    with pytest.raises(CommandError, match=r"fit .*train --validation .*val"):
        scan_folder(tmp_path / "set")


def test_classes_of_a_model_keep_their_numbers(photos):
    shutil.rmtree(photos / "green")
    names = ["red", "green", "blue"]
    images = scan_folder(photos, names).images
    assert images.class_names == names
    assert images.counts.tolist() == [10, 0, 10]
    with pytest.raises(CommandError, match="no class of the model: blue"):
        scan_folder(photos, ["red", "green"])


def test_split_keeps_classes_and_equal_files_together(photos):
    for i in range(4):
        shutil.copy(photos / "red" / "0.png", photos / "red" / f"copy{i}.png")
    images = scan_folder(photos).images
    for seed in range(5):
        first, second = split_images(images, 0.2, seed)
        assert len(first) + len(second) == len(images)
        assert not set(first.digests) & set(second.digests)
        assert second.counts[:2].tolist() == [2, 2]
    again = split_images(images, 0.2, seed)[1]
    assert again.paths == second.paths


def test_split_of_tiny_classes(photos):
    for i in range(1, 10):
        for path in (photos / "red").glob(f"{i}.*"):
            path.unlink()
    first, second = split_images(scan_folder(photos).images, 0.01)
    assert first.counts.tolist() == [9, 9, 1]
    assert second.counts.tolist() == [1, 1, 0]


def test_find_images(photos):
    found, problems = find_images([photos / "red", photos / "blue" / "0.png", "gone"])
    assert len(found) == 11
    assert [problem.reason for problem in problems] == ["no such file"]


def test_take(photos):
    images = scan_folder(photos).images
    part = images.take(np.array([3, 1]))
    assert part.paths == [images.paths[3], images.paths[1]]
