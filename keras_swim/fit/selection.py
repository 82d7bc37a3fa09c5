"""What `swim_select` has found."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_swim.core.readout import ReadoutState
from keras_swim.core.surface import Surface


@dataclass
class Selection:
    """A fitted model, how it was chosen, and what else was tried.

    Attributes:
        model: The fitted Keras model of the chosen width. Frozen layers are
            shared with the model that was passed.
        width: Units of its last sampled layer.
        l2: Penalty of its readout, as `swim_fit` takes it.
        scale, seed: Those of its last sampled layer.
        metric, rule, method: How it was chosen.
        surface: `Surface` of its scale and seed: held-out scores for all
            widths and penalties, with standard errors.
        surfaces: Dict from `(scale, seed)` to the surface of each.
        state: `ReadoutState` of the chosen readout, for `swim_update`.
        metrics: Loss and accuracy (or r2) of held-out rows, at most about four
            thousand. The best of many is chosen by such rows: for a figure to
            publish, use other data.
        seconds: Time that it took.
    """

    model: Any
    width: int
    l2: float
    scale: float
    seed: int | None
    metric: str
    rule: str
    surface: Surface
    surfaces: dict[tuple[float, int | None], Surface]
    state: ReadoutState
    metrics: dict[str, float]
    method: str = "folds"
    seconds: float = 0.0

    def __str__(self):
        metrics = " - ".join(f"{name}: {v:.4g}" for name, v in self.metrics.items())
        text = f"{self.seconds:.1f}s - width: {self.width} - l2: {self.l2:.3g}"
        if len(self.surfaces) > 1:
            text += f" - scale: {self.scale:g} - seed: {self.seed}"
        return f"{text} - held-out {metrics}"

    def plot(self, path=None):
        """Draws the score over the width, a line for each penalty.

        Args:
            path: `None`, or the image file to write.

        Returns:
            The matplotlib `Figure`.
        """
        try:
            from matplotlib import colormaps
            from matplotlib.figure import Figure
            from matplotlib.ticker import ScalarFormatter
        except ImportError as error:
            raise ImportError(
                "`plot()` needs matplotlib: pip install keras-swim[plot]"
            ) from error

        surface = self.surface
        values, errors = surface.metric(self.metric)
        if self.metric == "accuracy":
            values = 1.0 - values
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.subplots()
        colors = colormaps["viridis"](np.linspace(0, 0.9, len(surface.l2)))
        for j, penalty in enumerate(surface.l2):
            axes.errorbar(
                surface.widths,
                values[:, j],
                errors[:, j],
                color=colors[j],
                linewidth=1.2,
                elinewidth=0.6,
                label=f"{penalty:.0e}",
            )
        at = self.surface.choose(self.metric, self.rule)
        axes.plot(
            self.width,
            values[at],
            "o",
            color="crimson",
            markersize=9,
            fillstyle="none",
            markeredgewidth=2,
            label="chosen",
        )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.set_xlabel("units of the last sampled layer")
        title = "squared error" if self.metric == "loss" else "accuracy"
        axes.set_ylabel(f"held-out {title}")
        _frame(axes, values)
        figure.legend(title="l2", fontsize="small", loc="outside right upper")
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure


def _frame(axes, values):
    """Limits that show the good part: bad penalties may be far off."""
    good = values[np.isfinite(values)]
    low, high = np.quantile(good, [0.0, 1.0])
    middle = np.median(good)
    if high > 0 and high > 3 * middle > 0:
        high = 3 * middle
    margin = 0.05 * (high - low or 1.0)
    axes.set_ylim(low - margin, high + margin)
