"""What the command says about a table and about scores."""

import numpy as np

from keras_swim.apps.console import say
from keras_swim.apps.table_files import SEPARATORS
from keras_swim.apps.wording import counted
from keras_swim.core.table_columns import MOST_LEVELS

# Ratio of the largest to the smallest class from which weights are worth a word.
_UNBALANCED = 5
_NAMES = 8


def say_survey(table, data, survey, class_weight="none"):
    """Says what was found in a table.

    Args:
        table: `TextTable`.
        data: `TableData` of it.
        survey: `Survey` of it.
        class_weight: `"none"` or `"balanced"`.
    """
    name = SEPARATORS.get(table.separator, repr(table.separator))
    say(
        f"{table.path}: {counted(len(table), 'row')}, "
        f"{counted(len(table.columns), 'column')}, separated by {name}."
    )
    if survey.without_target:
        say(
            f"{counted(survey.without_target, 'row')} without {data.target!r} left out."
        )
    numbers = [_name(column) for column, text in data.kinds.items() if not text]
    if numbers:
        say(f"{counted(len(numbers), 'column')} of numbers: {_some(numbers)}.")
    if survey.levels:
        each = [f"{_name(column)} {count}" for column, count in survey.levels.items()]
        say(
            f"{counted(len(each), 'column')} of categories, and how many these are: "
            f"{_some(each)}."
        )
    if survey.missing:
        each = [f"{_name(column)} {count}" for column, count in survey.missing.items()]
        say(f"Missing values: {_some(each)}.")
    for column, reason in survey.left_out.items():
        say(f"Left out: {column} ({reason}).")
    for column, count in survey.levels.items():
        if count > MOST_LEVELS:
            say(
                f"Of the {count} categories of {column!r} the {MOST_LEVELS} commonest "
                "are told apart."
            )
    _say_target(data, survey, class_weight)


def scores_line(scores, what, digits=3):
    """Scores as a sentence.

    Args:
        scores: Dict as `class_scores` or `regression_scores` gives it.
        what: What a row is called.
        digits: Digits of accuracy and log loss.

    Example:

    >>> scores = {"rows": 9, "r2": 0.5, "rmse": 2.0, "mae": 1.25}
    >>> scores_line(scores, "row")
    'On 9 rows: RMSE 2, MAE 1.25, R2 0.500.'
    """
    rows = counted(scores["rows"], what)
    if "accuracy" in scores:
        return (
            f"Accuracy on {rows}: {scores['accuracy']:.{digits}f} "
            f"({scores['low']:.{digits}f} to {scores['high']:.{digits}f} with 95 % "
            f"confidence), log loss {scores['loss']:.{digits}f}; always the commonest "
            f"class: {scores['baseline_accuracy']:.{digits}f}."
        )
    r2 = "unknown" if scores["r2"] is None else f"{scores['r2']:.{digits}f}"
    return f"On {rows}: RMSE {scores['rmse']:.4g}, MAE {scores['mae']:.4g}, R2 {r2}."


def _say_target(data, survey, class_weight):
    if data.class_names is None:
        low, high = data.targets.min(), data.targets.max()
        say(
            f"Regression ({survey.why}): from {low:.6g} to {high:.6g}, mean "
            f"{data.targets.mean():.6g}. For classes pass --task classification."
        )
        return
    counts = np.bincount(data.targets, minlength=len(data.class_names))
    each = [
        f"{name} {count}" for name, count in zip(data.class_names, counts, strict=True)
    ]
    say(f"Classification ({survey.why}): {_some(each, 12)}.")
    if "whole numbers" in survey.why:
        say("If these are quantities rather than classes, pass --task regression.")
    if class_weight == "none" and counts.max() >= _UNBALANCED * counts.min():
        say(
            "The classes are unbalanced. If the small ones matter as much, pass "
            "--class-weight balanced."
        )


def _name(column):
    return repr(column) if "," in column else column


def _some(names, most=_NAMES):
    shown = ", ".join(names[:most])
    more = len(names) - most
    return f"{shown} and {more} more" if more > 0 else shown
