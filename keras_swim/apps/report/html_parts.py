"""What the sections of a report are put together from."""

import base64
from html import escape

from keras_swim.apps.report import charts
from keras_swim.apps.wording import shown


def section(title, what, body, half=False):
    """A section: its heading, one sentence on what it means, and the rest."""
    words = f'<h2>{title}</h2><p class="what">{what}</p>'
    if half:
        # Side by side where half a line is wide enough, see the style sheet.
        inside = f"<div><div>{words}</div><div>{body}</div></div>"
        return f'<section class="card half">{inside}</section>'
    return f'<section class="card">{words}{body}</section>'


def table(head, lines, caption=""):
    """A table.

    Args:
        head: Names of the columns; those of numbers begin with `#`.
        lines: Lists of cells, as HTML.
        caption: Its caption, as HTML.

    Example:

    >>> table(["name", "#rows"], [["cat", "8"]]).count("<td")
    2
    """
    kinds = [' class="num"' if name.startswith("#") else "" for name in head]
    top = "".join(
        f'<th scope="col"{kind}>{name.lstrip("#")}</th>'
        for name, kind in zip(head, kinds, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{cell}</td>" for cell, kind in zip(line, kinds, strict=True)
        )
        + "</tr>"
        for line in lines
    )
    title = f"<caption>{caption}</caption>" if caption else ""
    head_part = f"<thead><tr>{top}</tr></thead>"
    whole = f"<table>{title}{head_part}<tbody>{rows}</tbody></table>"
    return f'<div class="scroll">{whole}</div>'


def meter(words, share, kind="bar", best=False, whole=True, long=False):
    """A number with a bar beside it, for a cell; see `charts.bar`."""
    drawn = charts.bar(share, kind, whole) if share is not None else ""
    emphasis = ' class="best"' if best else ""
    size = "meter long" if long else "meter"
    return f'<div class="{size}">{drawn}<span{emphasis}>{words}</span></div>'


def image(data, alt):
    """A thumbnail inside the page, or an empty place where there is none.

    Args:
        data: JPEG bytes, or `None`.
        alt: What is to be seen, for people who do not.
    """
    if data is None:
        return f'<div class="blank" role="img" aria-label="{escape(alt)}"></div>'
    if not isinstance(data, bytes) or not data.startswith(b"\xff\xd8"):
        got = type(data).__name__ if not isinstance(data, bytes) else repr(data[:8])
        raise ValueError(
            f"Thumbnails must be the bytes of a JPEG file, or None. Received: {got}. "
            'Save the picture with `image.save(buffer, "JPEG")`.'
        )
    encoded = base64.b64encode(data).decode("ascii")
    source = f"data:image/jpeg;base64,{encoded}"
    return f'<img src="{source}" alt="{escape(alt)}" loading="lazy">'


def file_name(name):
    """The name of a row without its folders; the whole of it under the pointer."""
    last = str(name).replace("\\", "/").rstrip("/").split("/")[-1]
    return f'<span class="file" title="{escape(str(name))}">{shown(last)}</span>'
