"""The result of `pair_report`: a table with one line a unit."""

from dataclasses import dataclass

import numpy as np

_COLUMNS = (
    "unit",
    "row_a",
    "row_b",
    "label_a",
    "label_b",
    "distance",
    "strength",
    "suspicion_a",
    "suspicion_b",
)


@dataclass(eq=False, repr=False)
class PairReport:
    """What `pair_report` returns: columns with one entry a unit, in order.

    Attributes:
        unit: Number of the unit in its layer.
        row_a, row_b: Numbers of its two training rows.
        label_a, label_b: Their classes; for several yes/no outputs or for a
            regression their targets.
        distance: Euclidean distance of the two in the layer's input, over the
            columns that the unit looks at.
        strength: How far the readout's scores move from one row to the other
            through this unit; NaN if the readout does not read the layer's
            units, or the layer is frozen.
        suspicion_a, suspicion_b: See `suspicion`.
        counts: `(c, c)` symmetric array: units between any two classes. `None`
            unless each row has one class.
        suspects: Row numbers, the most suspicious one first.
        suspicion: Their suspicion: 1 minus the probability that the model
            gives to the row's own class (largest gap between target and
            probability for several yes/no outputs). Regression: the residual
            as a multiple of the usual one (root mean square).
        layer: Name of the layer.
    """

    unit: np.ndarray
    row_a: np.ndarray
    row_b: np.ndarray
    label_a: np.ndarray
    label_b: np.ndarray
    distance: np.ndarray
    strength: np.ndarray
    suspicion_a: np.ndarray
    suspicion_b: np.ndarray
    counts: np.ndarray | None
    suspects: np.ndarray
    suspicion: np.ndarray
    layer: str

    def __len__(self):
        return len(self.unit)

    def columns(self):
        """Dict of columns, for `pandas.DataFrame(report.columns())`."""
        found = {}
        for name in _COLUMNS:
            column = getattr(self, name)
            if column.ndim == 1:
                found[name] = column
            else:
                found.update((f"{name}_{i}", part) for i, part in enumerate(column.T))
        return found

    def records(self, limit=None):
        """List of dicts, one a unit."""
        columns = {name: part[:limit].tolist() for name, part in self.columns().items()}
        return [
            dict(zip(columns, line, strict=True))
            for line in zip(*columns.values(), strict=True)
        ]

    def to_text(self, limit=20):
        """A table of the first `limit` units, and a summary."""
        columns = {name: part[:limit] for name, part in self.columns().items()}
        cells = [
            [name, *(f"{x:.4g}" if part.dtype.kind == "f" else str(x) for x in part)]
            for name, part in columns.items()
        ]
        widths = [max(map(len, column)) for column in cells]
        rows = np.unique([self.row_a, self.row_b])
        lines = [f"{len(self)} units of {self.layer!r}, made from {len(rows)} rows", ""]
        for line in zip(*cells, strict=True):
            lines.append("  ".join(map(str.rjust, line, widths)))
        if len(self) > limit:
            lines.append(f"... {len(self) - limit} more")
        if self.counts is not None:
            i, j = np.triu_indices(len(self.counts))
            most = np.argsort(-self.counts[i, j], kind="stable")[:5]
            parts = [f"{i[p]}-{j[p]} ({self.counts[i[p], j[p]]})" for p in most]
            lines += ["", "Most units between classes: " + ", ".join(parts)]
        first = zip(self.suspects[:10], self.suspicion, strict=False)
        parts = [f"{row} ({value:.3g})" for row, value in first]
        lines += ["", "Most suspicious rows: " + ", ".join(parts)]
        return "\n".join(lines)

    __str__ = to_text
