"""The tables of tabular.py from what its fits found.

Everywhere a task counts once: its score with a learner is the mean over its fits.
"""

import os
import platform
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from tabular_learners import BY_GRADIENT, DEPTHS, LEARNERS, OURS, TITLES

DEEP = ("sampled", *BY_GRADIENT)
MAIN = (
    *(name for name in LEARNERS if "-" not in name),
    "sampled-nested",
)
PAPER = (
    *OURS,
    "xgboost",
    "random",
    *(name for name in TITLES if name.startswith(DEEP)),
)
# Adam once: his two pipelines differ in time only.
PAPER_RANKED = (*OURS, "xgboost", "random", "sampled-nested", "adam-nested")
RIVALS = ("xgboost", "lightgbm")
PACKAGES = ("keras", "tensorflow", "scikit-learn", "xgboost", "lightgbm")


def frame_of(found, facts):
    """One row a fit, those of chosen depths among them."""
    rows = []
    for learner, results in found.items():
        for key, result in results.items():
            task, seed, fold = key.split("/")
            row = {"learner": learner, "task": task}
            row.update({name: facts[task][name] for name in ("kind", "rows")})
            rows.append({**row, "seed": int(seed), "fold": int(fold), **result})
    if not rows:
        return pd.DataFrame()
    columns = ("accuracy", "log_loss", "rmse", "validation", "judge_seconds")
    runs = pd.DataFrame(rows)
    runs = runs.reindex(columns=list(dict.fromkeys([*runs.columns, *columns])))
    return pd.concat([runs, *(nested(runs, name) for name in DEEP)])


def nested(runs, name):
    """Of each fold the depth that was best on the held-out tenth."""
    every = runs[runs.learner.isin([f"{name}-{depth}" for depth in DEPTHS])]
    fold = ["task", "seed", "fold"]
    depths = every.learner.nunique()
    if depths < 2:
        return every[:0]
    # Only where all of them were tried.
    every = every[every.groupby(fold).learner.transform("size") == depths]
    best = every.sort_values("validation", kind="stable").groupby(fold).head(1)
    return best.assign(learner=f"{name}-nested")


def lacking(runs, facts):
    """What there must be for a report worth keeping, or an empty string."""
    for name in (*OURS, *RIVALS):
        tasks = set(runs[runs.learner == name].task)
        missing = sorted(set(facts) - tasks)
        if missing:
            return f"{TITLES[name]} has not seen {', '.join(missing[:5])}"
    return ""


def by_task(runs, measure):
    """Tasks x learners, in the order of `TITLES`."""
    table = runs.pivot_table(
        index="task", columns="learner", values=measure, aggfunc="mean", sort=False
    )
    return table[[name for name in TITLES if name in table]]


def whole(runs, names):
    """Those of the learners that have every fit that any of them has."""
    keys = {
        name: set(zip(one.task, one.seed, one.fold, strict=True))
        for name, one in runs[runs.learner.isin(names)].groupby("learner")
    }
    every = set().union(*keys.values())
    return [name for name in names if keys.get(name) == every]


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def number(value, form):
    return "" if value is None or pd.isna(value) else format(value, form)


def geometric(ratios):
    ratios = ratios.dropna()
    return float(np.exp(np.log(ratios).mean())) if len(ratios) else None


def folds_of(one):
    """Number of tasks x fits a task."""
    fits = one.groupby("task").size()
    least, most = fits.min(), fits.max()
    return f"{len(fits)} x {least if least == most else f'{least} to {most}'}"


def ranks_and_wins(table):
    """Mean ranks and numbers of wins (ties shared) over tasks; greater is better."""
    table = table.round(9)  # Means of the same numbers in another order.
    best = table.eq(table.max(axis=1), axis=0)
    wins = best.div(best.sum(axis=1), axis=0).sum()
    return table.rank(axis=1, ascending=False).mean(), wins


def learner_table(runs, names, ranked=None):
    """Classification; ranks are among the names `ranked`, or all."""
    accuracy, seconds = by_task(runs, "accuracy"), by_task(runs, "fit_seconds")
    spread = runs.groupby(["learner", "task"]).accuracy.std().groupby("learner").mean()
    ranks, wins = ranks_and_wins(accuracy[whole(runs, ranked or names)])
    losses = by_task(runs, "log_loss")
    rows = []
    for name in (name for name in names if name in accuracy):
        one = runs[runs.learner == name]
        ratio = seconds[name] / seconds["xgboost"] if "xgboost" in seconds else None
        rows.append(
            [
                TITLES[name],
                number(100 * accuracy[name].mean(), ".2f"),
                number(100 * spread[name], ".2f"),
                number(ranks.get(name), ".2f"),
                number(wins.get(name), ".1f"),
                number(losses[name].mean() if name in losses else None, ".4f"),
                number(seconds[name].mean(), ".2f"),
                number(None if ratio is None else geometric(ratio), ".2f"),
                number(by_task(one, "predict_seconds")[name].mean(), ".3f"),
                folds_of(one),
            ]
        )
    header = [
        "learner",
        "accuracy %",
        "spread of folds",
        f"mean rank of {len(ranks)}",
        "wins",
        "log loss",
        "fit seconds",
        "fit, x XGBoost",
        "predict seconds",
        "tasks x fits",
    ]
    return markdown(header, rows)


def pair_table(runs):
    """Ours against boosted trees, task by task, on the fits that both have."""
    rows = []
    for ours in OURS:
        for rival in RIVALS:
            pair = common(runs, (ours, rival))
            if pair.empty:
                continue
            table = 100 * by_task(pair, "accuracy")
            lead = (table[ours] - table[rival]).round(9)
            moved = lead[lead != 0]
            p = stats.wilcoxon(lead).pvalue if len(moved) else None
            rows.append(
                [
                    f"{TITLES[ours]} - {TITLES[rival]}",
                    f"{lead.mean():+.2f}",
                    f"{lead.median():+.2f}",
                    f"{(lead > 0).sum()} / {(lead == 0).sum()} / {(lead < 0).sum()}",
                    number(p, ".3f"),
                    f"{lead.min():+.2f} ({lead.idxmin()})",
                    f"{lead.max():+.2f} ({lead.idxmax()})",
                ]
            )
    header = [
        "accuracy, points of %",
        "mean",
        "median",
        "better / same / worse",
        "Wilcoxon p",
        "largest loss",
        "largest gain",
    ]
    return markdown(header, rows)


def common(runs, names):
    """The fits of folds that all of the learners have."""
    some = runs[runs.learner.isin(names)]
    there = some.groupby(["task", "seed", "fold"]).learner.transform("nunique")
    return some[there == len(names)]


def accuracy_table(runs, names):
    table = by_task(runs[runs.learner.isin(names)], "accuracy").round(9)
    sizes = runs.groupby("task").rows.first()
    rows = []
    for task, values in table.iterrows():
        best = values.max()
        cells = [
            f"**{100 * value:.2f}**" if value == best else number(100 * value, ".2f")
            for value in values
        ]
        rows.append([task, str(sizes[task]), *cells])
    return markdown(["task", "rows", *(TITLES[name] for name in table)], rows)


def regression_table(runs, names):
    """RMSE over XGBoost's."""
    names = [name for name in names if name in set(runs.learner)]
    errors = by_task(runs[runs.learner.isin(names)], "rmse")
    if "xgboost" not in errors:
        return ["No task has XGBoost's error to compare with."]
    ratios = errors.div(errors["xgboost"], axis=0)
    seconds = by_task(runs, "fit_seconds")
    rows = [
        [
            TITLES[name],
            *(number(value, ".3f") for value in ratios[name]),
            f"**{number(geometric(ratios[name]), '.3f')}**",
            number(seconds[name].mean(), ".2f"),
            number(geometric(seconds[name] / seconds["xgboost"]), ".2f"),
            folds_of(runs[runs.learner == name]),
        ]
        for name in ratios
    ]
    own = ["XGBoost's RMSE", *(f"{value:.4g}" for value in errors["xgboost"])]
    rows.append([*own, "", "", "", ""])
    last = ["geometric mean", "fit seconds", "fit, x XGBoost", "tasks x fits"]
    return markdown(["learner", *ratios.index, *last], rows)


def depth_lines(runs):
    """The paper's setting, on the folds that Adam ran."""
    adam = runs[runs.learner.str.startswith(BY_GRADIENT)]
    folds = adam[["task", "seed", "fold"]].drop_duplicates()
    if folds.empty:
        return ["Adam has not run yet."]
    runs = runs[runs.learner.isin(PAPER)].merge(folds, on=["task", "seed", "fold"])
    classify = runs[runs.kind == "classification"]
    regress = runs[runs.kind == "regression"]
    lines = []
    if len(classify):
        table = learner_table(classify, PAPER, PAPER_RANKED)
        lines += ["Classification (ranks leave out single depths):", "", *table, ""]
    if len(regress):
        lines += ["Regression:", "", *regression_table(regress, PAPER), ""]
    return lines + [depth_costs(runs)]


def depth_costs(runs):
    seconds = by_task(runs, "fit_seconds")
    texts = []
    for name in BY_GRADIENT:
        if not {f"{name}-nested", "sampled-nested"} <= set(seconds):
            continue
        ratios = seconds[f"{name}-nested"] / seconds["sampled-nested"]
        means = seconds[f"{name}-nested"].mean() / seconds["sampled-nested"].mean()
        each = ", ".join(
            f"{geometric(seconds[f'{name}-{depth}'] / seconds[f'sampled-{depth}']):.0f}"
            for depth in DEPTHS
            if {f"{name}-{depth}", f"sampled-{depth}"} <= set(seconds)
        )
        title = TITLES[f"{name}-nested"]
        texts.append(
            f"{title}: {geometric(ratios):.1f} times the fit seconds of sampling "
            f"(geometric mean over all tasks; {ratios.mean():.1f} in the arithmetic "
            f"one, {means:.1f} by mean seconds); for depths of 1 and more {each} times."
        )
    for name in DEEP:
        depths = [f"{name}-{depth}" for depth in DEPTHS]
        if f"{name}-nested" in seconds:
            every = runs[runs.learner.isin(depths)]
            spent = every.judge_seconds if name == "sampled" else every.fit_seconds
            total = spent.groupby([every.task, every.seed, every.fold]).sum().mean()
            title = TITLES[f"{name}-nested"]
            texts.append(f"{title}: choosing it took {total:.1f} seconds a fold.")
    return " ".join(texts)


def machine(runs):
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if "model name" in line]
        model = names[0].split(":")[1].strip() if names else model
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    return (
        f"Machine: {model}, {os.cpu_count()} cores, of which one was used; no "
        f"accelerator; Python {platform.python_version()}, {packages}. Mean load "
        f"during the fits {runs.load.mean():.1f} (1 if nothing else ran). Seeds: "
        f"{', '.join(map(str, sorted(runs.seed.unique())))}."
    )


TUNED = (
    "Every learner has the settings it comes with, the same for all tasks, and nothing "
    "was chosen on a test fold. That favours ours: their settings were found by trying "
    "about 45 variants on half of 42 classification tasks (3 folds), many of which are "
    "tasks here; the order of learners on the other half was the same. Later ones "
    "(numbers of units, step of boosting, when it stops, trees and their thresholds) "
    "were compared on all tasks here, in other folds, and the number of trees a round "
    "once more after a look at the first seed's: expect a little less of ours on "
    "tables they have never seen. Those of rivals were not tuned here at all. Within a "
    "training fold ours choose ridge, temperature, rounds and mixture; `swim_fit` its "
    "ridge; ridge regression its penalty; Adam its epochs, and the networks of "
    "the paper's setting their depth, on a tenth of the rows."
)


def report(runs):
    """The whole text."""
    classify = runs[runs.kind == "classification"]
    regress = runs[runs.kind == "regression"]
    lines = [
        "# Tables",
        "",
        "From `python benchmarks/tabular.py`, whose head says what was done.",
        "",
        machine(runs),
    ]
    if len(classify):
        lines += ["", "## Classification", "", *learner_table(classify, MAIN)]
        lines += ["", "Means over tasks. Ranks and wins (ties are shared) are among "]
        lines[-1] += "learners that ran all fits. Spread is that of folds, in points."
        lines += ["", "## Ours against boosted trees", "", *pair_table(classify)]
        lines += ["", "## Accuracy in %, by task", "", *accuracy_table(classify, MAIN)]
    if len(regress):
        lines += ["", "## Regression: RMSE over XGBoost's", ""]
        lines += regression_table(regress, MAIN)
    lines += ["", "## The paper's setting, on the folds that Adam ran", ""]
    lines += depth_lines(runs)
    lines += ["", "## What was tuned on what", "", TUNED, ""]
    return "\n".join(lines)
