"""Data that several tests share."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def digits():
    """Scikit-learn's digits: 1200 rows to fit, 597 to test."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype("float32")
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order], y[order]
    return x[:1200], y[:1200], x[1200:], y[1200:]


@pytest.fixture(scope="session")
def shared_data():
    """Folder with real features; tests skip where it is missing."""
    folder = Path(os.environ.get("KERAS_SWIM_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "resnet50_cifar10.npz").exists():
        pytest.skip(f"needs resnet50_cifar10.npz; set KERAS_SWIM_DATA ({folder})")
    return folder


@pytest.fixture(scope="session")
def resnet_features(shared_data):
    """ResNet50 features of CIFAR-10: x_train, y_train, x_test, y_test."""
    with np.load(shared_data / "resnet50_cifar10.npz") as file:
        return (
            file["x_train"].astype("float32"),
            file["y_train"].ravel().astype("int64"),
            file["x_test"].astype("float32"),
            file["y_test"].ravel().astype("int64"),
        )


@pytest.fixture
def run_python(tmp_path):
    """Runs Python with arguments, in a folder of its own, and gives what came out."""
    environment = dict(
        os.environ,
        PYTHONPATH=str(ROOT),
        TF_CPP_MIN_LOG_LEVEL="3",
        # Nothing is left in the user's folder.
        KERAS_SWIM_CACHE=str(tmp_path / "cache"),
    )

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def rng():
    return np.random.default_rng(0)
