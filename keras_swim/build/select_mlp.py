"""The choice of depth and width of a sampled network."""

from typing import Any, NamedTuple

from keras_swim.build.candidates import choose_among
from keras_swim.fit.selection import Selection


class MLPChoice(NamedTuple):
    """A fitted model, and how it was chosen.

    Attributes:
        model: The model of the chosen depth and width.
        hidden_layers: Its depth.
        selection: Its `Selection`: width, ridge, scale, scores of all widths.
    """

    model: Any
    hidden_layers: int
    selection: Selection


def select_mlp(build, x, y=None, depths=(1, 2, 3), report=None, **options):
    """Selects depth, width, scale and ridge of a `SwimMLP`, and fits it.

    Each depth goes through `swim_select`, which scores all widths of the last
    sampled layer; the layers before it keep their units. Every depth is scored on
    the same held-out rows if there is a `seed`.

    Args:
        build: Function from `hidden_layers` to a model:
            `functools.partial(SwimMLP, num_outputs, units=2048, ...)`. The units
            are the largest to try.
        x, y: Data, as for `swim_select`.
        depths: Numbers of sampled layers to try, each 1 or more.
        report: `None`, or a function that is called with each depth and its
            `Selection`.
        **options: See `swim_select`. With `rule="one_standard_error"` the choice is
            the fewest layers that, at the width which this rule gives them, come
            within one standard error of the best.

    Returns:
        An `MLPChoice`.

    Example:

    >>> from functools import partial
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, size=(400, 2))
    >>> y = np.sin(3 * x[:, 0]) + rng.normal(0, 0.3, size=400)
    >>> build = partial(SwimMLP, 1, units=128, output_activation=None)
    >>> choice = select_mlp(
    ...     build, x, y, rule="one_standard_error", seed=0, verbose=0
    ... )
    >>> choice.hidden_layers, choice.selection.width < 64
    (1, True)
    """
    depths = sorted(set(depths))
    if not depths or depths[0] < 1:
        raise ValueError(
            "`depths` must be numbers of sampled layers, each 1 or more. Received: "
            f"depths={depths!r}. For plain ridge regression use `swim_fit` on "
            "`SwimMLP(..., hidden_layers=0)`."
        )
    # Shallow ones first: of equals the first is chosen.
    models = ((depth, build(hidden_layers=depth)) for depth in depths)
    found = choose_among(models, x, y, report, **options)
    return MLPChoice(found.selection.model, found.settings, found.selection)
