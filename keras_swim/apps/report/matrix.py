"""The confusion matrix: counts in, a string of SVG out."""

from keras_swim.apps.report import svg
from keras_swim.apps.report.svg import LETTER

_NAME = 13  # Letters of a class name that there is room for.


def confusion_matrix(names, counts, title="Confusion matrix"):
    """Counts of true (down) against predicted (across) classes.

    Cells are shaded by the share of their line: what is right in one colour,
    what is wrong in another.

    Args:
        names: Names of the c classes.
        counts: c lists of c counts.
        title: Text for people who do not see the chart.

    Example:

    >>> chart = confusion_matrix(["cat", "dog"], [[8, 2], [1, 9]])
    >>> "2 of 10: cat taken for dog" in chart
    True
    """
    n = len(names)
    cell = min(max(320 / n, 25), 84)
    longest = min(max(len(name) for name in names), _NAME) * LETTER
    slanted = n > 4
    left, top = longest + 26, 32 + (0.72 * longest if slanted else 8)
    right = max(_overhang(name, (n - i - 0.5) * cell) for i, name in enumerate(names))
    parts = [
        svg.text(left + n * cell / 2, 11, "predicted", "name"),
        svg.turned(11, top + n * cell / 2, "true", "name"),
    ]
    for i, name in enumerate(names):
        middle = (i + 0.5) * cell
        short = svg.shortened(name, _NAME)
        parts.append(svg.text(left - 7, top + middle + 4, short, "tick end", said=name))
        parts.append(_column_name(left + middle, top - 8, name, cell, slanted))
    digits = max(len(str(max(map(max, counts)))), 2)
    size = min(13.0, 0.86 * cell / (0.62 * digits))
    for i, line in enumerate(counts):
        for j, count in enumerate(line):
            what = "right" if i == j else f"taken for {names[j]}"
            said = f"{count} of {sum(line)}: {names[i]} {what}"
            share = count / sum(line) if count else 0.0
            x, y = left + j * cell, top + i * cell
            parts.append(_cell(x, y, cell, count, share, i == j, said, size))
    width = left + n * cell + 4 + right * slanted
    return svg.picture(width, top + n * cell + 4, parts, title, shrinks=n <= 12)


def _column_name(x, y, name, cell, slanted):
    if slanted:
        turn = f'transform="rotate(-45 {x:.1f} {y:.1f})"'
        short = svg.shortened(name, _NAME)
        return svg.text(x, y, short, "tick start", turn, said=name)
    short = svg.shortened(name, max(int(cell / LETTER) - 1, 4))
    return svg.text(x, y, short, "tick", said=name)


def _overhang(name, room):
    """How far a slanted name reaches out to the right of the matrix."""
    return max(0.72 * LETTER * min(len(name), _NAME) - room, 0.0)


def _cell(x, y, cell, count, share, right, said, size):
    place = x + 1, y + 1, cell - 2, cell - 2
    inner = svg.rect(*place, "cell", 'rx="3"')
    if count:
        # Few mistakes are still to be seen: the root lifts small shares.
        shade = max(share if right else share**0.6, 0.08)
        more = f'rx="3" style="fill-opacity:{shade:.3f}"'
        inner += svg.rect(*place, "right" if right else "wrong", more)
        kind = "count strong" if shade > 0.55 else "count"
        more = f'style="font-size:{size:.1f}px"'
        inner += svg.text(x + cell / 2, y + cell / 2 + 0.36 * size, count, kind, more)
    return f"<g>{inner}{svg.hint(said)}</g>"
