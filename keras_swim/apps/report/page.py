"""The report: a plain dict becomes one HTML page that needs nothing else.

No scripts, no other files, no network: the page can be mailed, archived and
printed. A section appears when its key is in the dict.

Keys of the dict (strings, numbers, lists, dicts, and JPEG bytes as `image`; all
but `title` may be left out):

- `title`: heading of the page.
- `kind`: `"classes"` (default) or `"regression"`.
- `item`: what a row is, `"image"` or `"row"` (default).
- `lead`: one line below the title. `date`: when this was written.
- `facts`: dict from names to values. `notes`: sentences of caution.
- `seconds`: time of the fit.
- `scores`: `source` (`"validation"`, `"held-out"` or `"training"`), `rows`;
  for classes `accuracy`, `low`, `high` (its 95 % interval), `loss`,
  `baseline_accuracy`, `baseline_loss`; for a regression `r2`, `rmse`, `mae`.
- `comparison`: dicts with `method`, `accuracy`, `loss`, `seconds`.
- `confusion`: `rows`, `classes` (names), `counts` (lists, true classes down; or
  none, where there are too many), `pairs`: dicts with `true`, `predicted`,
  `count`, `rows`.
- `classes`: dicts with `name`, `rows`, `precision`, `recall`, `f1`.
- `calibration`: `rows`, `error`, `bins`: see `charts.reliability_diagram`.
- `widths`: `metric`, `widths`, `values`, `errors`, `chosen`, `rows`, `method`,
  `limit` (units that rows were judged by at most).
- `regression`: a dict for each output: `name`, `true`, `predicted`, `r2`, `rmse`,
  `mae`.
- `residuals`: `rows`, `edges` and `counts` of a histogram, `outside` (rows beyond it).
- `columns`: `metric` (`"log loss"` or `"R²"`), `others` (columns that are not shown),
  `shown`: dicts with `name`, `strength` (share), `cost` (what shuffling the column
  costs, or none).
- `mistakes`: `count`, `rows`, `shown`: dicts with `name`, `label`, `predicted`,
  `image`; for classes `probability` of what was predicted, `label_probability`.
- `suspects`: the same, but for classes `label_probability` and
  `predicted_probability`, for a regression `suspicion`; `left_out`: whether each
  row was judged by a fit without it (`"in turn"`: with others).
- `closest`, `strongest`: pairs, dicts with `a` and `b` (`name`, `label`, `image`
  each), `distance`, `strength`. Rows of tables have `cells`, a dict of their columns.
- `tuning`: `metric`, `epochs`, `values`, `resolved`, `best` (`epoch`, `value`,
  `resolved`).
- `stages`: dict from names to seconds.

`None` stands for a value that is not known.
"""

import os
import tempfile
from html import escape
from pathlib import Path

from keras_swim.apps.report import charts, sections, table_sections, tiles
from keras_swim.apps.report.page_style import STYLE
from keras_swim.apps.wording import DASH, counted, percent, seconds, shown

# In the order of the page.
_SECTIONS = {
    "comparison": sections.comparison,
    "confusion": sections.confusion,
    "regression": sections.regression,
    "residuals": table_sections.residuals,
    "classes": sections.classes,
    "calibration": sections.calibration,
    "columns": table_sections.columns,
    "widths": sections.widths,
    "mistakes": tiles.mistakes,
    "suspects": tiles.suspects,
    "closest": tiles.closest,
    "strongest": tiles.strongest,
    "tuning": sections.tuning,
    "stages": sections.stages,
}
_TOP = ("title", "kind", "item", "lead", "date", "facts", "notes", "seconds", "scores")

_WHERE = {
    "validation": "on {rows} not used for fitting",
    "held-out": "on held-out training {item}s",
    "training": "on its own training {item}s",
}


def render_report(report):
    """The page, as a string.

    Args:
        report: Dict; see the top of this module for its keys.

    Example:

    >>> page = render_report({"title": "Cats & dogs", "stages": {"solve": 0.5}})
    >>> "<h1>Cats &amp; dogs</h1>" in page, "Where the time went" in page
    (True, True)
    """
    unknown = sorted(set(report) - set(_TOP) - set(_SECTIONS))
    if unknown or "title" not in report:
        raise ValueError(
            "A report has a `title` and some of the keys "
            f"{', '.join([*_TOP[1:], *_SECTIONS])}. Received: "
            f"{', '.join(map(repr, report))}."
        )
    report = {"kind": "classes", "item": "row", **report}
    body = "".join(
        make(report) for key, make in _SECTIONS.items() if report.get(key) is not None
    )
    title = escape(report["title"])
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title>'
        f'<style>{STYLE}</style></head><body><div class="page">{_top(report)}'
        f"<main>{body}</main>{_footer(report)}</div></body></html>\n"
    )


def write_report(path, report):
    """Writes the page; a file that was there before stays until it is complete.

    Args:
        path: Path of the HTML file; its folder must exist.
        report: Dict; see the top of this module for its keys.

    Returns:
        The path.

    Example:

    >>> path = write_report(tempfile.mkdtemp() + "/report.html", {"title": "Mine"})
    >>> path.name
    'report.html'
    """
    path = Path(path)
    page = render_report(report)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"`write_report` needs a folder that exists. Received: {str(path)!r}. "
            f"Make the folder {str(path.parent)!r} first."
        )
    handle, temporary = tempfile.mkstemp(suffix=".html", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(page)
        # As any new file: `mkstemp` lets only its owner read.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def _top(report):
    lead = f'<p class="lead">{shown(report["lead"])}</p>' if report.get("lead") else ""
    head = (
        '<header><p class="eyebrow">keras-swim report</p>'
        f"<h1>{shown(report['title'])}</h1>{lead}</header>"
    )
    notes = "".join(f"<li>{shown(note)}</li>" for note in report.get("notes") or ())
    notes = f'<ul class="notes">{notes}</ul>' if notes else ""
    facts = "".join(
        f"<div><dt>{shown(name)}</dt><dd>{shown(value)}</dd></div>"
        for name, value in (report.get("facts") or {}).items()
    )
    facts = f'<dl class="facts">{facts}</dl>' if facts else ""
    return head + _headline(report) + notes + facts


def _headline(report):
    scores = report.get("scores")
    parts = []
    if scores:
        rows = counted(scores["rows"], report["item"]) if scores.get("rows") else ""
        where = _WHERE[scores["source"]].format(rows=rows, item=report["item"])
        make = _real_scores if report["kind"] == "regression" else _class_scores
        parts += make(scores, where, report["item"])
    if report.get("seconds") is not None:
        about = "in all" if report.get("stages") else "for the fit"
        parts.append(_figure("Time", seconds(report["seconds"]), about))
    if not parts:
        return ""
    first, *rest = parts
    first = first.replace("<div>", '<div class="first">', 1)
    return f'<div class="headline card">{first}{"".join(rest)}</div>'


def _class_scores(scores, where, item):
    low, high = scores.get("low"), scores.get("high")
    base = scores.get("baseline_accuracy")
    about, said = "", f"Accuracy {percent(scores['accuracy'])}"
    if low is not None:
        interval = f"{percent(low)} to {percent(high)}"
        about = f"On new {item}s of this kind likely (95%) {interval}."
        said += f", 95% interval {interval}"
    named = "" if base is None else f"always the commonest class: {percent(base)}"
    strip = charts.interval_strip(scores["accuracy"], low, high, base, named, said)
    parts = [
        _figure(f"Accuracy {where}", percent(scores["accuracy"]), about, strip),
    ]
    if scores.get("loss") is not None:
        about = "smaller is better"
        if scores.get("baseline_loss") is not None:
            about += f"; guessing gives {scores['baseline_loss']:.3f}"
        parts.append(_figure("Log loss", f"{scores['loss']:.3f}", about))
    return parts


def _real_scores(scores, where, item):
    r2 = scores["r2"]
    about = "share of the variance that the predictions explain; 1 is perfect"
    parts = [_figure(f"R² {where}", DASH if r2 is None else f"{r2:.3f}", about)]
    about = "root mean square error, in the units of the target"
    if scores.get("mae") is not None:
        about += f"; mean absolute error {shown(scores['mae'])}"
    parts.append(_figure("Usual error", shown(scores["rmse"]), about))
    return parts


def _figure(label, value, about, chart=""):
    return (
        f'<div><p class="label">{label}</p><p class="value">{value}</p>{chart}'
        f'<p class="about">{about}</p></div>'
    )


def _footer(report):
    when = f" on {shown(report['date'])}" if report.get("date") else ""
    return f"<footer>Written by keras-swim{when}.</footer>"
