"""Sections that show single rows: thumbnails, or tables where there are none."""

from keras_swim.apps.report.html_parts import file_name, image, meter, section, table
from keras_swim.apps.wording import counted, percent, shown


def mistakes(report):
    """The wrong answers that the model was surest of."""
    found, item = report["mistakes"], report["item"]
    if report["kind"] == "regression":
        title = "Its largest errors"
        what = (
            f"The validation {item}s whose prediction is furthest off. Look for what "
            "they have in common, or for a wrong value in the data."
        )
    else:
        title = "Its most confident mistakes"
        what = (
            f"{found['count']} of {counted(found['rows'], f'validation {item}')} "
            "are taken for another class. These are the ones that the model was "
            "surest of"
        )
        if _has_images(found["shown"]):
            what += ": in red what it said, below what it is, each with the probability"
            what += " that the model gave"
        what += "."
    if not found["shown"]:
        return section(title, what, "<p>There are none.</p>")
    if not _has_images(found["shown"]):
        return section(title, what, _mistake_table(found["shown"], item))
    return section(title, what, _tiles(found["shown"], _mistake_words))


def suspects(report):
    """The training rows whose label the model believes least."""
    found, item = report["suspects"], report["item"]
    how = "although it was fitted to them"
    if found.get("left_out") == "in turn":
        how = f"each {item} judged by fits without it"
    elif found.get("left_out"):
        how = f"fitted without that one {item} each time (leave-one-out)"
    if report["kind"] == "regression":
        title = "Values that may be wrong"
        what = (
            f"The training {item}s that lie furthest from what the model makes of "
            f"them, {how}. "
            f"{found['count']} of {found['rows']} are off by more than three times the "
            "usual error: there the value may be wrong."
        )
    else:
        title = "Labels that may be wrong"
        what = (
            f"The model contradicts {found['count']} of {found['rows']} training "
            f"labels, {how}. These it believes least"
        )
        if _has_images(found["shown"]):
            what += ": in red the label, below what the model would rather say"
        what += ". Some will be wrong labels, others hard cases: check them by eye."
    if not found["shown"]:
        return section(title, what, "<p>There is nothing to check.</p>")
    if not _has_images(found["shown"]):
        return section(title, what, _suspect_table(found["shown"], item))
    return section(title, what, _tiles(found["shown"], _suspect_words))


def closest(report):
    """The pairs of different labels that lie nearest to each other."""
    if report["kind"] == "regression":
        title = "Where values change fastest"
        what = (
            f"Pairs of training {report['item']}s behind the hidden units that are "
            "alike, but have different values. Here the model must be steepest, or a "
            "value is wrong."
        )
    else:
        title = "Where classes touch"
        what = (
            f"Pairs of training {report['item']}s behind the hidden units that look "
            "most alike to the model, but have different labels. The border between "
            "two classes runs between them, or one label is wrong. Distance is that of "
            "their features."
        )
    return section(title, what, _pairs(report["closest"]))


def strongest(report):
    """The pairs behind the units that move the scores most."""
    what = (
        f"Each hidden unit is made from two training {report['item']}s and tells one "
        "kind from the other. These units have most say: strength is how far the "
        "scores move from the one to the other through the unit. Many units work "
        "together, so one of them alone explains little."
    )
    return section("The strongest units", what, _pairs(report["strongest"]))


def _has_images(items):
    return any(item.get("image") is not None for item in items)


def _tiles(items, words):
    figures = []
    for item in items:
        lines, alt = words(item)
        caption = f"<figcaption>{lines}{file_name(item['name'])}</figcaption>"
        figures.append(f"<figure>{image(item.get('image'), alt)}{caption}</figure>")
    return f'<div class="tiles">{"".join(figures)}</div>'


def _mistake_words(item):
    alt = f"{item['name']}: {item['label']}, predicted {item['predicted']}"
    if item.get("probability") is None:
        return _says(item["predicted"], None) + _says(item["label"], None, "is"), alt
    said = _says(item["predicted"], item["probability"])
    return said + _says(item["label"], item["label_probability"], "is"), alt


def _suspect_words(item):
    alt = f"{item['name']}: labelled {item['label']}, predicted {item['predicted']}"
    if item.get("label_probability") is None:
        said = _says(item["label"], None) + _says(item["predicted"], None, "rather")
        return f"{said}<div>{item['suspicion']:.1f} times the usual error</div>", alt
    said = _says(item["label"], item["label_probability"])
    return said + _says(item["predicted"], item["predicted_probability"], "rather"), alt


def _says(value, probability, before=""):
    """A line of a tile: in red what seems wrong, after a word what is said."""
    kind = "strong-text" if before else "bad"
    chance = "" if probability is None else f"<span>{percent(probability)}</span>"
    words = f'{before} <span class="{kind}">{shown(value)}</span>'
    return f'<div class="says"><span>{words}</span>{chance}</div>'


def _row_table(head, lines, items):
    """A table of rows, with what is in their own columns beside it."""
    for name, values in _columns_of(items).items():
        head = [*head, name]
        lines = [[*line, value] for line, value in zip(lines, values, strict=True)]
    return table(head, lines)


def _columns_of(items):
    """Dict from the head of each column of the rows' own table to its cells."""
    if not items[0].get("cells"):
        return {}
    found = {}
    for name in items[0]["cells"]:
        values = [item["cells"][name] for item in items]
        is_text = any(isinstance(value, str) for value in values)
        head = shown(name) if is_text else f"#{shown(name)}"
        found[head] = [shown(value) for value in values]
    return found


def _mistake_table(items, item):
    head = [item, "true", "predicted"]
    lines = [
        [shown(one[key]) for key in ("name", "label", "predicted")] for one in items
    ]
    if items[0].get("probability") is not None:
        head.append("#how sure")
        for line, one in zip(lines, items, strict=True):
            line.append(
                meter(percent(one["probability"]), one["probability"], "bar wrong")
            )
        return _row_table(head, lines, items)
    head = [item, "#true", "#predicted", "#off by"]
    for line, one in zip(lines, items, strict=True):
        gap = one["predicted"] - one["label"]
        line.append(("+" if gap >= 0 else "") + shown(gap))
    return _row_table(head, lines, items)


def _suspect_table(items, item):
    lines = [
        [shown(one[key]) for key in ("name", "label", "predicted")] for one in items
    ]
    if items[0].get("label_probability") is not None:
        for line, one in zip(lines, items, strict=True):
            line.append(percent(one["label_probability"]))
        head = [item, "label", "predicted", "#chance of its label"]
        return _row_table(head, lines, items)
    for line, one in zip(lines, items, strict=True):
        line.append(f"{one['suspicion']:.1f}")
    head = [item, "#value", "#predicted", "#times the usual error"]
    return _row_table(head, lines, items)


def _pair_tables(pairs):
    """Each pair as a small table: its columns down, its two rows across."""
    figures = []
    for pair in pairs:
        a, b = pair["a"], pair["b"]
        target = "label" if isinstance(a["label"], str) else "value"
        lines = [
            [
                f'<span class="strong-text">{target}</span>',
                *(
                    f'<span class="strong-text">{shown(row["label"])}</span>'
                    for row in (a, b)
                ),
            ]
        ]
        for name in a["cells"]:
            values = [row["cells"][name] for row in (a, b)]
            cells = [shown(value) for value in values]
            # Numbers nearly always differ.
            if values[0] != values[1] and any(isinstance(one, str) for one in values):
                cells = [f'<span class="differs">{cell}</span>' for cell in cells]
            lines.append([shown(name), *cells])
        head = ["", shown(a["name"]), shown(b["name"])]
        words = f"distance {pair['distance']:#.3g}"
        figures.append(
            f'<figure class="pair-table">{table(head, lines)}'
            f'<figcaption class="soft">{words}</figcaption></figure>'
        )
    return f'<div class="several">{"".join(figures)}</div>'


def _pairs(pairs):
    if pairs and pairs[0]["a"].get("cells"):
        return _pair_tables(pairs)
    if not _has_images([pair[side] for pair in pairs for side in ("a", "b")]):
        lines = [
            [
                f"{shown(pair['a']['name'])}, {shown(pair['b']['name'])}",
                f"{shown(pair['a']['label'])}, {shown(pair['b']['label'])}",
                shown(pair["distance"]),
                shown(pair["strength"]),
            ]
            for pair in pairs
        ]
        return table(["pair", "labels", "#distance", "#strength"], lines)
    figures = []
    for pair in pairs:
        sides = "".join(_side(pair[side]) for side in ("a", "b"))
        words = f"distance {pair['distance']:#.3g}"
        if pair["strength"] is not None:
            words += f", strength {pair['strength']:#.3g}"
        figures.append(
            f'<figure><div class="two">{sides}</div>'
            f'<figcaption class="soft">{words}</figcaption></figure>'
        )
    return f'<div class="tiles pairs">{"".join(figures)}</div>'


def _side(row):
    picture = image(row.get("image"), f"{row['name']}: {row['label']}")
    words = shown(row["label"])
    label = f'<div class="strong-text" title="{words}">{words}</div>'
    return f"<div>{picture}{label}{file_name(row['name'])}</div>"
