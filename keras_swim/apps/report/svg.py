"""The parts of charts: axes, lines, texts, as strings of SVG.

Whatever comes from the user passes through `text`, `hint` or `aria`, which
escape it.
"""

import math
from html import escape

LETTER = 6.8  # Width of a letter of a tick's name, in a wide font.


class Axis:
    """Where values between `low` and `high` lie between two pixels.

    Example:

    >>> Axis(0, 10, 100, 200)(5)
    150.0
    """

    def __init__(self, low, high, start, end, log=False):
        self.low, self.high, self.start, self.end = low, high, start, end
        self.log = log and low > 0

    def __call__(self, value):
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        if high == low:
            return (self.start + self.end) / 2
        return self.start + (self.end - self.start) * (value - low) / (high - low)


def nice_ticks(low, high, about=5):
    """Round numbers that cover the values between two ends.

    Example:

    >>> nice_ticks(0.83, 0.91)
    [0.82, 0.84, 0.86, 0.88, 0.9, 0.92]
    """
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    rough = (high - low) / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if rough <= size * factor)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(number * step, digits) for number in range(first, last + 1)]


def line(x1, y1, x2, y2, kind):
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} class="{kind}"/>'


def rect(x, y, width, height, kind, more=""):
    size = f'width="{width:.1f}" height="{height:.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} class="{kind}" {more}/>'


def path(points, kind, closed=False):
    steps = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{steps}{"Z" if closed else ""}" class="{kind}"/>'


def dot(x, y, kind, said="", radius=4.0):
    """A circle; `said` appears under the pointer."""
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"'
    return f'<circle {place} class="{kind}">{hint(said)}</circle>'


def text(x, y, words, kind, more="", said=""):
    """A text; `said` appears under the pointer."""
    inner = escape(str(words)) + hint(said)
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" {more}>{inner}</text>'


def turned(x, y, words, kind):
    """A text that runs upwards."""
    return text(x, y, words, kind, f'transform="rotate(-90 {x:.1f} {y:.1f})"')


def hint(words):
    return f"<title>{escape(words)}</title>" if words else ""


def shortened(name, length):
    """The name, cut to so many letters.

    Example:

    >>> shortened("hippopotamus", 6)
    'hippo…'
    """
    return name if len(name) <= length else name[: length - 1] + "…"


def aria(title):
    """What a screen reader makes of a picture: its title, or nothing."""
    if not title:
        return 'aria-hidden="true"'
    return f'role="img" aria-label="{escape(title)}"'


def picture(width, height, parts, title, shrinks=True):
    """The whole `<svg>`: as wide as the page, but at most a third wider than drawn.

    Without `shrinks` it stays readable on a narrow page, which must scroll.
    """
    size = f'viewBox="0 0 {width:.0f} {height:.0f}"'
    least = "" if shrinks else f";min-width:{0.85 * width:.0f}px"
    style = f'style="max-width:{1.35 * width:.0f}px{least}"'
    return f"<svg {size} {style} {aria(title)}>{''.join(parts)}</svg>"
