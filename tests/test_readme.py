"""The README's commands and examples are what they say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def code_blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(code_blocks("python"))))
def test_python_examples_run_as_pasted(number, run_python):
    done = run_python("-c", code_blocks("python")[number])
    assert done.returncode == 0, done.stderr


def test_every_command_is_explained():
    from keras_swim.apps.cli import _parser

    (commands,) = [
        action.choices for action in _parser()._actions if action.dest == "command"
    ]
    assert {"fit", "predict", "evaluate"} <= set(commands)
    for name in commands:
        assert f"keras-swim {name}" in README


def test_first_example_is_short():
    assert len(code_blocks("python")[0].strip().splitlines()) <= 12


def test_ci_runs_exactly_the_test_command():
    commands = [block.strip() for block in code_blocks("")]
    assert "bash tests/run.sh" in commands
    last = (ROOT / ".ci" / "run").read_text().strip().splitlines()[-1]
    assert last == "bash tests/run.sh"


# Those that take minutes have tests of their own.
EXAMPLES = sorted(
    script
    for script in (ROOT / "examples").glob("*.py")
    if not script.name.startswith(("train_", "burgers"))
)


@pytest.mark.parametrize("script", EXAMPLES, ids=str)
def test_examples_run_and_the_readme_quotes_their_result(script, run_python):
    done = run_python(script)
    assert done.returncode == 0, done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert last in README, f"{script.name} printed {last!r}"
