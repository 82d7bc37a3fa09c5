"""The rooms of the package: what each may import, and that its examples run."""

import ast
import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_swim

PACKAGE = Path(keras_swim.__file__).parent

# Each room may import itself and the rooms before it.
ROOMS = ["core", "data", "layers", "fit", "build", "apps"]

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages([str(PACKAGE)], prefix="keras_swim.")
)


def _room(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else None


def _path(module):
    base = PACKAGE.parent.joinpath(*module.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def _absolute(node, module):
    """The dotted name that `from ... import` starts from."""
    if not node.level:
        return node.module
    is_package = _path(module).name == "__init__.py"
    parents = module.split(".")
    parents = parents[: len(parents) - node.level + is_package]
    return ".".join(parents + ([node.module] if node.module else []))


def _imports(module, source=None):
    """Every name that a module imports, wherever in the file it does so."""
    source = _path(module).read_text() if source is None else source
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module)
            # What is imported may be a module: `from keras_swim import fit`.
            names.add(base)
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def _wrong_way(module, names):
    """Those imports that a module of its room must not have."""
    allowed = ROOMS[: ROOMS.index(_room(module)) + 1]
    return sorted(
        name
        for name in names
        if name == "keras_swim"
        or (
            (name.startswith("keras_swim.") and _room(name) not in allowed)
            and not name.startswith("keras_swim._version")
        )
    )


def test_all_rooms_are_known():
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert rooms <= set(ROOMS)
    assert {_room(name) for name in MODULES} >= {"core", "data", "layers", "fit"}


@pytest.mark.parametrize("module", [name for name in MODULES if _room(name)])
def test_imports_point_one_way(module):
    assert not _wrong_way(module, _imports(module))


def test_wrong_imports_would_be_noticed():
    for line in (
        "from keras_swim.fit.plan import plan",
        "from keras_swim import layers",
        "import keras_swim",
        "import keras_swim.data.pool",
        "from ..layers import sampled_dense",
        "def later():\n    from keras_swim.fit import sums",
    ):
        assert _wrong_way(
            "keras_swim.core.solvers", _imports("keras_swim.core.x", line)
        )
    for line in (
        "import numpy",
        "from keras_swim.core import folds",
        "from . import x",
    ):
        names = _imports("keras_swim.core.x", line)
        assert not _wrong_way("keras_swim.core.solvers", names)


def test_core_imports_numpy_and_scipy_only():
    allowed = {"numpy", "scipy", "keras_swim"} | sys.stdlib_module_names
    for module in MODULES:
        if _room(module) == "core":
            roots = {name.split(".")[0] for name in _imports(module)}
            assert roots <= allowed, module


# `keras_swim/__init__.py` imports Keras, so a bare package stands in for it.
_WITHOUT_KERAS = """
import importlib, sys, types

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("keras", "tensorflow", "jax", "torch"):
            raise ImportError(f"{name} must not be imported")

sys.meta_path.insert(0, Refuse())
try:
    import keras
except ImportError:
    pass
else:
    sys.exit("keras was not blocked")
package = types.ModuleType("keras_swim")
package.__path__ = [sys.argv[1]]
sys.modules["keras_swim"] = package
for name in sys.argv[2:]:
    importlib.import_module(name)
    print(name)
"""


def test_core_runs_without_keras():
    core = [name for name in MODULES if _room(name) == "core"]
    assert "keras_swim.core.sampling" in core
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_KERAS, str(PACKAGE), *core],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == core


def _examples(module):
    finder = doctest.DocTestFinder(exclude_empty=True)
    names = {"np": np, "keras": keras}
    names.update({name: getattr(keras_swim, name) for name in keras_swim.__all__})
    names.update(vars(module))
    return [test for test in finder.find(module, globs=names) if test.examples]


@pytest.mark.parametrize("name", ["keras_swim", *MODULES])
def test_examples_run(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    report = []
    for test in _examples(module):
        runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


def test_public_names_have_examples():
    for name in keras_swim.__all__:
        public = getattr(keras_swim, name)
        if callable(public):
            assert ">>>" in (public.__doc__ or ""), f"{name} has no example"
