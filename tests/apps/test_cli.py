import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_swim.apps import fit_images
from keras_swim.apps.cli import main
from keras_swim.apps.image_files import read_image


@pytest.fixture
def fit(photos, backbone, tmp_path, capsys):
    """Runs `keras-swim fit`; returns the exit code, what it said, and the file."""

    def run(*more, folder=photos):
        out = tmp_path / "model.keras"
        code = main(
            ["fit", str(folder), "--backbone", str(backbone), "--units", "24"]
            + ["--out", str(out), *map(str, more)]
        )
        return code, capsys.readouterr(), out

    return run


def test_fit_predict_and_evaluate(fit, photos, tmp_path, capsys):
    code, said, out = fit("--report", tmp_path / "report.html")
    assert code == 0, said.err
    assert "30 images in 3 classes: blue 10, green 10, red 10." in said.out
    assert "images a second" in said.out
    assert "Accuracy on 6 validation images: 1.000" in said.out
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model.keras",
        "photos",
        "report.html",
    ]

    images = [photos / "red" / "0.png", photos / "blue" / "1.jpg"]
    assert main(["predict", str(out), *map(str, images)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[1].split()[0] for line in lines] == ["red", "blue"]

    assert main(["evaluate", str(out), str(photos), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accuracy"] == 1.0
    assert found["rows"] == 30
    assert np.array(found["confusion"]).trace() == 30


def test_the_file_gives_what_the_command_says(fit, photos, tmp_path, capsys):
    _, _, out = fit()
    paths = sorted((photos / "green").iterdir())
    target = tmp_path / "p.json"
    arguments = ["predict", str(out), str(photos / "green"), "--format", "json"]
    assert main([*arguments, "--out", str(target)]) == 0
    found = json.loads(target.read_text())
    assert [item["file"] for item in found] == [str(path) for path in paths]
    model = keras.models.load_model(out)
    for item, path in zip(found, paths, strict=True):
        p = model.predict(read_image(path)[None], verbose=0)[0]
        np.testing.assert_allclose(list(item["outputs"].values()), p, atol=1e-5)
        assert item["label"] == ["blue", "green", "red"][int(p.argmax())]
    capsys.readouterr()
    assert main(["predict", str(out), str(paths[0]), "--format", "csv"]) == 0
    rows = list(csv.reader(capsys.readouterr().out.splitlines()))
    assert rows[0] == ["file", "label", "probability", "blue", "green", "red"]
    assert rows[1][:2] == [str(paths[0]), "green"]
    main(["predict", str(out), str(paths[0]), "--top", "3"])
    assert capsys.readouterr().out.count(", ") == 2


def test_twenty_images_in_two_folders(fit, photos):
    shutil.rmtree(photos / "red")
    code, said, _ = fit()
    assert code == 0, said.err
    assert "20 images in 2 classes" in said.out


def test_two_images_a_class_and_no_validation(fit, photos):
    for path in photos.glob("*/*"):
        if path.stem not in "01":
            path.unlink()
    code, said, _ = fit("--validation-split", 0)
    assert code == 0, said.err
    assert "held-out training images" in said.out


def test_select_and_fine_tune(fit, tmp_path):
    code, said, out = fit(
        "--select", "--fine-tune", 1, "--class-weight", "balanced",
        "--report", tmp_path / "report.html",
    )  # fmt: skip
    assert code == 0, said.err
    assert "Chosen: " in said.out
    assert "readout solved again" in said.out
    model = keras.models.load_model(out)
    assert not model.compiled
    assert model.get_layer("sampled_1").units <= 24


def test_plain_ridge(fit, tmp_path):
    code, said, _ = fit("--hidden-layers", 0, "--report", tmp_path / "report.html")
    assert code == 0, said.err


def test_validation_folder(fit, photos, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(photos, other)
    code, said, _ = fit("--validation", other)
    assert code == 0
    assert "30 validation images of 30 are also among the training" in said.out
    (other / "red").rename(other / "pink")
    code, said, _ = fit("--validation", other)
    assert code == 1
    assert "no class of the model: pink" in said.err


def test_features_are_used_again(fit, photos, tmp_path, monkeypatch):
    cache = tmp_path / "features"
    assert fit("--cache", cache)[0] == 0
    ran = []
    run = fit_images._run
    monkeypatch.setattr(
        fit_images, "_run", lambda model, x: ran.append(len(x)) or run(model, x)
    )
    code, said, _ = fit("--cache", cache)
    assert code == 0
    assert "Features of 30 images are there already." in said.out
    assert not ran
    image = read_image(photos / "red" / "0.png")
    from PIL import Image

    Image.fromarray(255 - image).save(photos / "blue" / "new.png")
    assert fit("--cache", cache)[0] == 0
    assert set(ran) == {1}


def test_an_interrupted_fit_goes_on(fit, tmp_path, monkeypatch):
    ran = []
    run = fit_images._run

    def interrupted(model, x):
        ran.append(len(x))
        if len(ran) == 5:
            raise KeyboardInterrupt
        return run(model, x)

    monkeypatch.setattr(fit_images, "_run", interrupted)
    code, said, out = fit("--batch-size", 5)
    assert code == 130
    assert "interrupted" in said.err
    assert not out.exists()
    assert (tmp_path / "model.features").exists()
    code, said, out = fit("--batch-size", 5)
    assert code == 0
    assert "Features of 10 images are there already." in said.out
    assert out.exists()
    assert not (tmp_path / "model.features").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "nowhere"], "nowhere does not exist"),
        (["fit", "photos", "--out", "model.txt"], "--out must end with .keras"),
        (["fit", "photos", "--out", "no/model.keras"], "there is no folder no"),
        (["fit", "photos", "--report", "page"], "--report must end with .html"),
        (["fit", "photos", "--weights", "gone.h5"], "there is no file gone.h5"),
        (["fit", "photos", "--backbone", "resnet50"], "Did you mean ResNet50?"),
        (["fit", "photos", "--backbone", "mine.keras"], "there is no file mine.keras"),
        (
            ["fit", "photos", "--validation-split", "0", "--fine-tune", "1"],
            "needs validation images",
        ),
        (
            ["fit", "photos", "--validation", "photos", "--validation-split", "0.1"],
            "not both",
        ),
        (["predict", "gone.keras", "photos"], "no model file gone.keras"),
        (["predict", "photos/red/0.png", "photos"], "is no Keras model file"),
        (["predict", "gone.keras", "gone.png"], "no image to look at"),
        (["evaluate", "gone.keras", "gone"], "There is no folder gone"),
    ],
)
def test_what_cannot_work_is_said_at_once(
    arguments, words, photos, monkeypatch, capsys
):
    monkeypatch.chdir(photos.parent)
    monkeypatch.setattr(fit_images, "get_backbone", lambda *_: pytest.fail("too late"))
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "arguments",
    [[], ["fit"], ["fly"], ["fit", "x", "--units", "0"], ["fit", "x", "--seed", "-1"]]
    + [["fit", "x", "--validation-split", "1"]],
)
def test_wrong_arguments_exit_with_two(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: keras-swim" in capsys.readouterr().err


def test_bad_files_are_skipped_or_refused(fit, photos, capsys):
    (photos / "red" / "bad.jpg").write_text("no image")
    code, said, out = fit("--bad-files", "refuse")
    assert code == 1
    assert "bad.jpg" in said.err
    code, said, out = fit()
    assert code == 0
    assert "1 file cannot be used" in said.out
    bad = str(photos / "red" / "bad.jpg")
    good = str(photos / "red" / "0.png")
    assert main(["predict", str(out), bad, good]) == 0
    said = capsys.readouterr()
    assert "bad.jpg" in said.err
    assert len(said.out.splitlines()) == 1
    assert main(["predict", str(out), bad, good, "--bad-files", "refuse"]) == 1


def test_unexpected_errors_are_one_line(fit, monkeypatch):
    def broken(*_):
        raise RuntimeError("what?")

    monkeypatch.setattr(fit_images, "load_backbone", broken)
    code, said, _ = fit()
    assert code == 1
    assert "unexpected RuntimeError: what?" in said.err
    assert "--traceback" in said.err
    code, said, _ = fit("--traceback")
    assert code == 1
    assert "Traceback" in said.err


def test_the_installed_command_is_quiet():
    command = Path(sys.executable).parent / "keras-swim"
    if not command.exists():
        pytest.skip("keras-swim is not installed in this environment")
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [command, "--help"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0
    assert not done.stderr
    for name in ("fit", "predict", "evaluate", "demo"):
        assert name in done.stdout
