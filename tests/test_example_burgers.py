"""The example of Burgers' equation: its table and its pictures."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "examples" / "burgers.py"


def run(arguments, folder):
    environment = dict(
        os.environ,
        PYTHONPATH=str(ROOT),
        TF_CPP_MIN_LOG_LEVEL="3",
        # Nothing is left in the user's folder.
        KERAS_SWIM_CACHE=str(folder / "cache"),
    )
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def mean_errors(text):
    """The first column of the table: four errors and seconds behind each name."""
    lines = re.findall(
        r"^(\w.*?) {2,}(\d\S+)(?: +\d\S+e-?\S+){3} +\d+\.\d$", text, re.M
    )
    return {title: float(error) for title, error in lines}


def test_symmetries_help_and_pictures_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    options = ["--rows", "200", "--units", "64", "--out", "pictures"]
    done = run([str(SCRIPT), *options], tmp_path)
    assert done.returncode == 0, done.stderr
    errors = mean_errors(done.stdout)
    assert len(errors) == 10, done.stdout
    assert errors["fourier, shift"] < errors["fourier"]
    assert errors["fourier, shift, Galilei"] < errors["fourier, shift"] / 2
    assert errors["fourier, all symmetries"] < errors["fourier"] / 10
    assert errors["Adam, shift, Galilei"] < errors["Adam"]
    assert "the same predictions" in done.stdout
    for name in ("burgers_prediction.png", "burgers_seconds.png"):
        assert (tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG")


def test_missing_matplotlib_is_said_before_anything_is_solved(tmp_path):
    code = (
        "import runpy, sys; sys.modules['matplotlib'] = None; "
        f"sys.argv = ['burgers.py']; runpy.run_path({str(SCRIPT)!r}, "
        "run_name='__main__')"
    )
    done = run(["-c", code], tmp_path)
    assert done.returncode == 1
    assert 'pip install "keras-swim[plot]"' in done.stderr
    assert "Solving" not in done.stdout
