"""Single rows and pairs of rows that are worth looking at."""

import numpy as np

from keras_swim.apps.report import scores

# Points of a scatter plot: more would only make the page large.
_POINTS = 1000
# Outputs of a regression with a plot of their own.
SHOWN_OUTPUTS = 6
# Residuals beyond so many times the usual one count as suspicious.
_FAR_OFF = 3.0


def mistakes(judged, names, limit=12):
    """The wrong answers that the model was surest of; for real targets the
    largest errors.

    Args:
        judged: `Judged` rows that the model has not seen.
        names: Names of the classes, or of the outputs.
        limit: How many to show.
    """
    if not judged.is_classes:
        rows, outputs, gaps = _largest_gaps(judged, limit)
        shown = [
            _real_row(judged, names, row, output)
            for row, output in zip(rows, outputs, strict=True)
        ]
        return {"count": len(gaps), "rows": len(gaps), "shown": shown}
    predicted = judged.predicted
    wrong = np.flatnonzero(predicted != judged.targets)
    sure = judged.outputs[wrong, predicted[wrong]]
    order = wrong[np.argsort(-sure, kind="stable")]
    shown = [
        {
            "name": judged.name(row),
            "label": names[judged.targets[row]],
            "predicted": names[predicted[row]],
            "probability": float(judged.outputs[row, predicted[row]]),
            "label_probability": float(judged.own[row]),
            **judged.looks(row),
        }
        for row in order[:limit]
    ]
    return {"count": len(wrong), "rows": len(predicted), "shown": shown}


def suspects(judged, names, limit=12):
    """The rows whose label the model believes least, although it knows it.

    Args:
        judged: `Judged` training rows.
        names: Names of the classes, or of the outputs.
        limit: How many to show.
    """
    if not judged.is_classes:
        rows, outputs, gaps = _largest_gaps(judged, limit)
        shown = [
            {**_real_row(judged, names, row, output), "suspicion": float(gaps[row])}
            for row, output in zip(rows, outputs, strict=True)
            if gaps[row] > _FAR_OFF
        ]
        count = int((gaps > _FAR_OFF).sum())
        return {"count": count, "rows": len(gaps), "shown": shown}
    predicted, own = judged.predicted, judged.own
    wrong = np.flatnonzero(predicted != judged.targets)
    order = wrong[np.argsort(own[wrong], kind="stable")]
    shown = [
        {
            "name": judged.name(row),
            "label": names[judged.targets[row]],
            "predicted": names[predicted[row]],
            "label_probability": float(own[row]),
            "predicted_probability": float(judged.outputs[row, predicted[row]]),
            **judged.looks(row),
        }
        for row in order[:limit]
    ]
    return {"count": len(wrong), "rows": len(predicted), "shown": shown}


def closest_pairs(pairs, judged, names, limit=8):
    """The closest pairs of different labels, from a report by distance.

    Args:
        pairs: `PairReport` in the order of `sort="distance"`.
        judged: `Judged` training rows.
        names: Names of the classes, or of the outputs.
        limit: How many to show.
    """
    different = pairs.label_a != pairs.label_b
    if different.ndim > 1:
        different = different.any(axis=1)
    return _pairs(pairs, np.flatnonzero(different), judged, names, limit)


def strongest_pairs(pairs, judged, names, limit=8):
    """The pairs behind the units that the readout makes most of."""
    known = np.flatnonzero(np.isfinite(pairs.strength))
    order = known[np.argsort(-pairs.strength[known], kind="stable")]
    return _pairs(pairs, order, judged, names, limit)


def regression_outputs(judged, names, limit=SHOWN_OUTPUTS):
    """True and predicted values of the weakest outputs, with their scores."""
    n, columns = judged.targets.shape
    some = np.linspace(0, n - 1, min(n, _POINTS)).round().astype(int)
    found = []
    for j in range(columns):
        true, predicted = judged.targets[:, j : j + 1], judged.outputs[:, j : j + 1]
        score = scores.regression_scores(predicted, true)
        found.append(
            {
                "name": names[j],
                "true": true[some, 0].tolist(),
                "predicted": predicted[some, 0].tolist(),
                **{key: score[key] for key in ("r2", "rmse", "mae")},
            }
        )
    weakest = sorted(found, key=lambda one: 1.0 if one["r2"] is None else one["r2"])
    kept = weakest[:limit]
    return [one for one in found if any(one is other for other in kept)]


def _largest_gaps(judged, limit):
    """Rows by how far they are off, the output where, and all rows' gaps."""
    gaps = np.abs(judged.outputs - judged.targets)
    # Outputs may have different units: compare with the usual gap of each.
    usual = np.sqrt(np.mean(gaps**2, axis=0))
    gaps = gaps / np.where(usual > 0, usual, 1.0)
    largest = gaps.max(axis=1)
    rows = np.argsort(-largest, kind="stable")[:limit]
    return rows, gaps[rows].argmax(axis=1), largest


def _real_row(judged, names, row, output):
    name = judged.name(row)
    return {
        "name": name if len(names) == 1 else f"{name}, {names[output]}",
        "label": float(judged.targets[row, output]),
        "predicted": float(judged.outputs[row, output]),
        **judged.looks(row),
    }


def _pairs(pairs, order, judged, names, limit):
    found, seen = [], set()
    for unit in order:
        rows = int(pairs.row_a[unit]), int(pairs.row_b[unit])
        # Units may share a pair.
        if frozenset(rows) in seen:
            continue
        seen.add(frozenset(rows))
        strength = float(pairs.strength[unit])
        ends = [
            {
                "name": judged.name(row),
                "label": _label(label, names),
                **judged.looks(row),
            }
            for row, label in zip(
                rows, (pairs.label_a[unit], pairs.label_b[unit]), strict=True
            )
        ]
        found.append(
            {
                "a": ends[0],
                "b": ends[1],
                "distance": float(pairs.distance[unit]),
                "strength": strength if np.isfinite(strength) else None,
            }
        )
        if len(found) == limit:
            break
    return found


def _label(label, names):
    if np.ndim(label):
        return ", ".join(f"{value:.3g}" for value in label)
    return names[label] if np.asarray(label).dtype.kind == "i" else float(label)
