"""`keras-swim predict` and `keras-swim evaluate` for tables."""

import json

import keras
import numpy as np

from keras_swim.apps.answers import written
from keras_swim.apps.console import CommandError, replacing, say, warn
from keras_swim.apps.model_files import load
from keras_swim.apps.report.scores import (
    class_scores,
    class_table,
    confusion_counts,
    regression_scores,
)
from keras_swim.apps.table_cells import find_column
from keras_swim.apps.table_command import add_reading_options, read_said
from keras_swim.apps.table_rows import class_codes, real_targets, rows_of, with_target
from keras_swim.apps.table_words import scores_line
from keras_swim.apps.wording import counted, percent
from keras_swim.build.tables import MISSING_TEXT
from keras_swim.layers.table_readout import table_readout

_BATCH = 1024


def add_options(group):
    """Adds what only tables need to an `OptionGroup`."""
    add_reading_options(group)


def run_predict(arguments, path):
    """Prints a prediction for each row of a table."""
    model, readout = _load(arguments.model)
    names = [column["name"] for column in readout.columns]
    table = read_said(path, arguments, warn, alone=names)
    known = {*names, readout.target}
    others = [name for name in table.columns if name not in known]
    outputs = predict_rows(model, readout, table)
    if others:
        warn(
            f"{counted(len(others), 'column')} that the model does not use: "
            f"{', '.join(others[:8])}{', ...' if len(others) > 8 else ''}."
        )
    activation = "linear" if readout.class_names is None else "softmax"
    text = written(
        table.lines,
        outputs,
        _output_names(readout),
        activation,
        arguments.format,
        arguments.top,
        key="line",
    )
    if arguments.out is None:
        say(text)
        return
    with replacing(arguments.out) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    say(f"Wrote {arguments.out}: {counted(len(table), 'row')}.")


def run_evaluate(arguments, path):
    """Measures a model on a table with targets."""
    model, readout = _load(arguments.model)
    if readout.target is None:
        raise CommandError(
            f"{arguments.model} does not know the name of its target. Fit it with "
            "`keras-swim fit`."
        )
    table = read_said(path, arguments, warn)
    find_column(table, readout.target, "target")
    table, without = with_target(table, readout.target)
    if without:
        warn(f"{counted(without, 'row')} without {readout.target!r} left out.")
    names = readout.class_names
    if names is None:
        targets = real_targets(table, readout.target)
    else:
        targets = class_codes(table, readout.target, names)
    outputs = predict_rows(model, readout, table)
    if names is None:
        scores = regression_scores(outputs, targets)
        if arguments.json:
            say(json.dumps(scores, indent=1))
        else:
            say(scores_line(scores, "row"))
        return
    scores = class_scores(outputs, targets)
    counts = confusion_counts(targets, outputs.argmax(axis=1), len(names))
    lines = class_table(counts, names)
    if arguments.json:
        found = {**scores, "classes": lines, "confusion": counts.tolist()}
        say(json.dumps(found, indent=1))
        return
    width = max(map(len, names))
    for line in lines:
        if line["rows"]:
            say(
                f"  {line['name']:{width}}  {counted(line['rows'], 'row')}, recall "
                f"{percent(line['recall'])}, precision {percent(line['precision'])}"
            )
    say(scores_line(scores, "row", digits=4))


def predict_rows(model, readout, table):
    """`(n, c)` outputs of a Keras model for the rows of a `TextTable`."""
    kinds = {column["name"]: column["categories"] for column in readout.columns}
    rows = rows_of(table, kinds)
    inputs = {
        column["input"]: _tensor(rows[column["name"]]) for column in readout.columns
    }
    return np.asarray(model.predict(inputs, batch_size=_BATCH, verbose=0), float)


def _tensor(values):
    if values.dtype == object:
        values = np.array(
            [MISSING_TEXT if value is None else value for value in values], dtype=object
        )
    else:
        values = values.astype("float32")
    return keras.ops.convert_to_tensor(values[:, None])


def _load(path):
    """A model for tables and its readout."""
    model = load(path)
    readout = table_readout(model)
    if readout is None:
        raise CommandError(
            f"{path} is no model for tables. Pass images, or a model that `keras-swim "
            "fit TABLE.csv` has written."
        )
    if readout.columns is None:
        raise CommandError(
            f"{path} was fitted to an array and has no names of columns. Fit it "
            "to a data frame, or with `keras-swim fit`."
        )
    return model, readout


def _output_names(readout):
    if readout.class_names is not None:
        return readout.class_names
    if readout.units == 1:
        return [readout.target or "prediction"]
    return [f"output {number + 1}" for number in range(readout.units)]
