"""Numbers and user strings as they stand in the report; all of it escaped."""

from html import escape

DASH = "\u2013"  # Stands for what is not known.


def percent(share):
    """A share in per cent, or a dash where there is none.

    Example:

    >>> percent(0.9137), percent(None) == DASH
    ('91.4%', True)
    """
    return DASH if share is None else f"{100 * share:.1f}%"


def seconds(value):
    """A time that a person can read.

    Example:

    >>> seconds(0.0001), seconds(0.0312), seconds(3.14), seconds(75.2), seconds(4000)
    ('< 0.01 s', '0.03 s', '3.1 s', '1 min 15 s', '1 h 7 min')
    """
    if value < 0.005:
        return "< 0.01 s"
    if value < 59.95:
        return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(value / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def shown(value):
    """A value as HTML: text is escaped, numbers get few digits.

    Example:

    >>> shown("<b>"), shown(1234567), shown(0.123456), shown(250123.4)
    ('&lt;b&gt;', '1234567', '0.1235', '250123')
    """
    if value is None:
        return DASH
    if isinstance(value, float):
        # All digits before the point: no powers of ten for prices.
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"
    return escape(str(value))


def counted(count, thing):
    """A count and its noun.

    Example:

    >>> counted(1, "image"), counted(20, "class")
    ('1 image', '20 classes')
    """
    ending = "es" if thing.endswith("s") else "s"
    return f"{count} {thing}" if count == 1 else f"{count} {thing}{ending}"
