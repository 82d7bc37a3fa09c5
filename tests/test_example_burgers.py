"""The example of Burgers' equation: its table and its pictures."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "examples" / "burgers.py"


def mean_errors(text):
    """The first column of the table: four errors and seconds behind each name."""
    lines = re.findall(
        r"^(\w.*?) {2,}(\d\S+)(?: +\d\S+e-?\S+){3} +\d+\.\d$", text, re.M
    )
    return {title: float(error) for title, error in lines}


def test_symmetries_help_and_pictures_are_drawn(tmp_path, run_python):
    pytest.importorskip("matplotlib")
    options = ["--rows", "200", "--units", "64", "--out", "pictures"]
    done = run_python(SCRIPT, *options)
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


def test_missing_matplotlib_is_said_before_anything_is_solved(run_python):
    code = (
        "import runpy, sys; sys.modules['matplotlib'] = None; "
        f"sys.argv = ['burgers.py']; runpy.run_path({str(SCRIPT)!r}, "
        "run_name='__main__')"
    )
    done = run_python("-c", code)
    assert done.returncode == 1
    assert 'pip install "keras-swim[plot]"' in done.stderr
    assert "Solving" not in done.stdout
