"""The page: sections, escaping, writing, and how a browser shows it."""

import copy
import html
import json
import os
import re
import shutil
import subprocess

import pytest

from keras_swim.apps.report.page import render_report, write_report

# The smallest grey JPEG.
JPEG = bytes.fromhex(
    "ffd8ffe000104a46494600010100000100010000ffdb004300"
    + "01" * 64
    + "ffc0000b080001000101011100ffc40014000100000000000000000000000000000009"
    "ffc40014100100000000000000000000000000000000ffda0008010100003f0054dfffd9"
)
NASTY = "<script>alert('x')</script>\"&"
LONG = "photos/" + "averyveryverylongname" * 6 + ".jpg"


def row(**more):
    return {"name": f"{NASTY}/{LONG}", "label": NASTY, "image": JPEG, **more}


def pair():
    return {"a": row(), "b": row(label="dog"), "distance": 0.123, "strength": 4.5}


def full_report():
    """A report with every section, and names that could do harm."""
    return {
        "title": NASTY,
        "kind": "classes",
        "item": "image",
        "lead": NASTY,
        "date": "2030-01-01",
        "facts": {"Backbone": NASTY, NASTY: 3, "File": LONG},
        "notes": [NASTY],
        "seconds": 3.2,
        "scores": {
            "source": "validation",
            "rows": 40,
            "accuracy": 0.9,
            "low": 0.8,
            "high": 0.95,
            "loss": 0.3,
            "baseline_accuracy": 0.5,
            "baseline_loss": 0.69,
        },
        "comparison": [
            {"method": NASTY, "accuracy": 0.9, "loss": 0.3, "seconds": 1.5},
            {"method": "Adam", "accuracy": 0.8, "loss": None, "seconds": 75.0},
        ],
        "confusion": {
            "rows": 40,
            "classes": [NASTY, "dog"],
            "counts": [[18, 2], [2, 18]],
            "pairs": [{"true": NASTY, "predicted": "dog", "count": 2, "rows": 20}],
        },
        "classes": [
            {"name": NASTY, "rows": 20, "precision": 0.9, "recall": 0.8, "f1": 0.85},
            {"name": "dog", "rows": 0, "precision": 0.5, "recall": None, "f1": 0.0},
        ],
        "calibration": {
            "rows": 40,
            "error": 0.021,
            "bins": [
                {
                    "low": 0.9,
                    "high": 1.0,
                    "rows": 40,
                    "confidence": 0.95,
                    "accuracy": 0.9,
                    "accuracy_low": 0.8,
                    "accuracy_high": 0.95,
                }
            ],
        },
        "widths": {
            "metric": "accuracy",
            "widths": [16, 32, 64],
            "values": [0.7, 0.8, 0.9],
            "errors": [0.02, 0.02, 0.01],
            "chosen": 32,
            "rows": 200,
            "method": "folds",
            "limit": 60,
        },
        "regression": [
            {
                "name": NASTY,
                "true": [1.0, 2.0],
                "predicted": [1.1, 1.9],
                "r2": 0.9,
                "rmse": 0.1,
                "mae": 0.1,
            }
        ],
        "mistakes": {
            "count": 4,
            "rows": 40,
            "shown": [
                row(predicted=NASTY, probability=0.99, label_probability=0.01),
                row(predicted="d", probability=0.9, label_probability=0.1, image=None),
            ],
        },
        "suspects": {
            "count": 1,
            "rows": 200,
            "shown": [
                row(predicted=NASTY, label_probability=0.01, predicted_probability=0.99)
            ],
        },
        "closest": [pair(), pair()],
        "strongest": [pair()],
        "tuning": {
            "metric": "accuracy",
            "epochs": [0, 1, 2],
            "values": [0.9, 0.91, 0.92],
            "resolved": [None, 0.92, 0.93],
            "best": {"epoch": 2, "value": 0.93, "resolved": True},
        },
        "stages": {NASTY: 1.0, "solve": 0.001},
    }


HEADINGS = {
    "comparison": "Side by side",
    "confusion": "Which classes it mixes up",
    "regression": "Predicted against true",
    "classes": "Class by class",
    "calibration": "Can its probabilities be trusted?",
    "widths": "How wide is wide enough?",
    "mistakes": "Its most confident mistakes",
    "suspects": "Labels that may be wrong",
    "closest": "Where classes touch",
    "strongest": "The strongest units",
    "tuning": "Fine-tuning",
    "stages": "Where the time went",
}


def headings(page):
    return re.findall(r"<h2>(.*?)</h2>", page)


def visible(page):
    """The words of a page, as a person reads them."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    words = html.unescape(re.sub(r"<[^>]*>", " ", body))
    return re.sub(r"\s+", " ", words)


def test_every_section_appears():
    assert headings(render_report(full_report())) == list(HEADINGS.values())


@pytest.mark.parametrize("key", HEADINGS)
def test_a_section_appears_alone_and_never_without_its_data(key):
    report = full_report()
    alone = {"title": "t", "item": "image", key: report[key]}
    assert headings(render_report(alone)) == [HEADINGS[key]]
    del report[key]
    assert HEADINGS[key] not in headings(render_report(report))


def test_a_title_is_enough():
    page = render_report({"title": "Only a title"})
    assert "<h1>Only a title</h1>" in page
    assert "<section" not in page


def test_user_strings_are_escaped():
    page = render_report(full_report())
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 20
    # Inside of attributes too, where a quote would end them.
    assert not re.search(r'="[^"]*<script', page)
    assert "alert('x')" not in page


def test_the_page_needs_nothing_else():
    page = render_report(full_report())
    assert not re.search(r"https?://|<link|@import|url\(|<iframe|<object", page)
    sources = re.findall(r'src="([^"]*)"', page)
    assert len(sources) == 8
    assert all(source.startswith("data:image/jpeg;base64,") for source in sources)


def test_pictures_have_words():
    page = render_report(full_report())
    for tag in re.findall(r"<img[^>]*>", page):
        assert re.search(r'alt="[^"]+"', tag)
    for tag in re.findall(r"<svg[^>]*>", page):
        assert "aria-label=" in tag or 'aria-hidden="true"' in tag


def test_headline_figures():
    words = visible(render_report(full_report()))
    assert "Accuracy on 40 images not used for fitting 90.0%" in words
    assert "On new images of this kind likely (95%) 80.0% to 95.0%." in words
    assert "Log loss 0.300 smaller is better; guessing gives 0.690" in words
    assert "Time 3.2 s" in words


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("held-out", "Accuracy on held-out training images"),
        ("training", "Accuracy on its own training images"),
    ],
)
def test_the_headline_says_which_rows_it_is_about(source, expected):
    report = full_report()
    report["scores"]["source"] = source
    assert expected in visible(render_report(report))


def test_the_best_of_a_comparison_is_bold():
    page = render_report({"title": "t", "comparison": full_report()["comparison"]})
    bold = re.findall(r'<span class="best">(.*?)</span>', page)
    assert bold == ["90.0%", "0.300", "1.5 s"]
    assert "1 min 15 s" in page


def test_a_comparison_may_lack_columns():
    rows = [{"method": "a", "seconds": 0.0}, {"method": "b", "seconds": 0.0}]
    page = render_report({"title": "t", "comparison": rows})
    assert "accuracy</th>" not in page


def test_many_classes_show_the_commonest_mistakes_only():
    names = [f"class {i}" for i in range(100)]
    pairs = [{"true": "class 1", "predicted": "class 2", "count": 3, "rows": 9}]
    table = [
        {"name": name, "rows": 5, "precision": 1.0, "recall": i / 100, "f1": 0.5}
        for i, name in enumerate(names)
    ]
    page = render_report(
        {
            "title": "t",
            "confusion": {"rows": 500, "classes": names, "pairs": pairs},
            "classes": table,
        }
    )
    assert "<svg viewBox" not in page
    assert "class 1 class 2 3 of 9" in visible(page)
    before, after = page.split("The other 85 classes")
    assert "class 3<" in before and "class 99<" in after


def test_rows_without_thumbnails_become_tables():
    report = full_report()
    for key in ("mistakes", "suspects"):
        for one in report[key]["shown"]:
            one["image"] = None
    for key in ("closest", "strongest"):
        for one in report[key]:
            one["a"]["image"] = one["b"]["image"] = None
    page = render_report(report)
    assert "<img" not in page and "<figure" not in page
    assert page.count("<table") > render_report(full_report()).count("<table")


def test_nothing_to_show_is_said():
    page = render_report(
        {
            "title": "t",
            "mistakes": {"count": 0, "rows": 9, "shown": []},
            "suspects": {"count": 0, "rows": 9, "shown": []},
            "confusion": {
                "rows": 9,
                "classes": ["a", "b"],
                "counts": [[4, 0], [0, 5]],
                "pairs": [],
            },
        }
    )
    for words in ("There are none.", "nothing to check.", "no mistakes."):
        assert words in page


def test_a_regression():
    report = full_report()
    report["kind"] = "regression"
    report["scores"] = {"source": "validation", "rows": 9, "r2": 0.9123, "rmse": 2.5}
    shown = [{"name": "row 1", "label": 1.5, "predicted": 4.0, "suspicion": 3.14}]
    report["mistakes"]["shown"] = report["suspects"]["shown"] = shown
    for key in ("confusion", "classes", "calibration"):
        del report[key]
    words = visible(render_report(report))
    assert "R² on 9 images not used for fitting 0.912" in words
    assert "Its largest errors" in words
    assert "row 1 1.5 4 +2.5" in words
    assert "row 1 1.5 4 3.1" in words
    with_images = copy.deepcopy(report)
    shown = [{**shown[0], "image": JPEG}]
    with_images["mistakes"]["shown"] = with_images["suspects"]["shown"] = shown
    words = visible(render_report(with_images))
    assert "3.1 times the usual error" in words


def test_unknown_keys_are_refused():
    with pytest.raises(ValueError, match=r"Received: 'title', 'confusions'"):
        render_report({"title": "t", "confusions": {}})
    with pytest.raises(ValueError, match="has a `title`"):
        render_report({})


@pytest.mark.parametrize("data", [b"\x89PNG\r\n", "text", b""])
def test_thumbnails_must_be_jpeg(data):
    report = full_report()
    report["closest"][0]["a"]["image"] = data
    with pytest.raises(ValueError, match="bytes of a JPEG file"):
        render_report(report)


def test_written_page_is_the_rendered_one(tmp_path):
    path = write_report(tmp_path / "report.html", full_report())
    assert path.read_text(encoding="utf-8") == render_report(full_report())
    assert os.listdir(tmp_path) == ["report.html"]
    plain = tmp_path / "plain"
    plain.write_text("")
    assert path.stat().st_mode == plain.stat().st_mode


def test_a_report_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="has a `title`"):
        write_report(path, {})

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_report(path, full_report())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="Make the folder"):
        write_report(tmp_path / "no" / "report.html", full_report())


# Two frames show the page at two widths; what they hold is measured.
CHECK = """
<iframe id="400" style="width:400px;height:900px;border:0"></iframe>
<iframe id="1200" style="width:1200px;height:900px;border:0"></iframe>
<script>
const page = %s;
let left = 2;
for (const frame of document.querySelectorAll("iframe")) {
  frame.onload = () => {
    const inside = frame.contentDocument;
    for (const image of inside.images) image.loading = "eager";
    Promise.all([...inside.images].map(image => image.decode())).then(() => {
      const pictures = [...inside.querySelectorAll("svg, img, .blank")];
      const boxes = pictures.map(picture => picture.getBoundingClientRect());
      const found = {
        headings: inside.querySelectorAll("h2").length,
        overflow: inside.documentElement.scrollWidth - frame.clientWidth,
        outside: [...inside.querySelectorAll("section *")].filter(part =>
          !part.closest(".scroll, svg") && part.getBoundingClientRect().width > 0 &&
          part.getBoundingClientRect().right > frame.clientWidth).length,
        pictures: boxes.length,
        empty: boxes.filter(box => box.width < 8 || box.height < 4).length,
        images: [...inside.images].filter(image => image.naturalWidth > 0).length,
      };
      const note = document.createElement("pre");
      note.className = "found";
      note.id = "found-" + frame.id;
      note.textContent = JSON.stringify(found);
      document.body.append(note);
    });
  };
  frame.srcdoc = page;
}
</script>
"""


def browser():
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


@pytest.mark.skipif(browser() is None, reason="needs Chromium to look at the page")
def test_a_browser_shows_every_figure_and_nothing_overflows(tmp_path):
    page = render_report(full_report())
    script = CHECK % json.dumps(page).replace("</", "<\\/")
    (tmp_path / "check.html").write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><body>{script}', encoding="utf-8"
    )
    done = subprocess.run(
        [
            browser(),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=1700,1000",
            "--virtual-time-budget=5000",
            "--dump-dom",
            (tmp_path / "check.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = {
        int(width): json.loads(html.unescape(text))
        for width, text in re.findall(r'id="found-(\d+)">(.*?)</pre>', done.stdout)
    }
    assert sorted(found) == [400, 1200], done.stderr
    for shown in found.values():
        assert shown["headings"] == len(HEADINGS)
        assert shown["pictures"] == page.count("<svg") + page.count("<img") + 1
        assert shown["images"] == page.count("<img")
        assert shown["empty"] == 0
        assert shown["overflow"] <= 0
        assert shown["outside"] == 0
