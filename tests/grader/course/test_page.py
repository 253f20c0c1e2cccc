"""Pages: their sections, their hints apart from the rest, and their drawings for a terminal and for a browser."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from grader.course import catalog, drawing, page
from grader.errors import CourseError
from grader.problem import Problem

pytestmark = pytest.mark.fast

SVG = "{http://www.w3.org/2000/svg}"
ANCHORS = {"start": 0.0, "middle": 0.5, "end": 1.0}


@pytest.fixture(params=catalog.names())
def problem(request: pytest.FixtureRequest) -> Problem:
    return catalog.load(request.param)


@pytest.fixture(params=[name for name in catalog.names() if (catalog.load(name).folder / drawing.FILE).is_file()])
def drawn(request: pytest.FixtureRequest) -> Problem:
    return catalog.load(request.param)


def test_every_page_has_the_sections_in_order(problem: Problem):
    assert list(page.sections(problem)) == list(page.SECTIONS)
    assert all(page.sections(problem).values())


def test_hints_are_apart(problem: Problem):
    text, hints = page.without_hints(problem), page.hints(problem)
    assert len(hints) >= 3
    assert "## Hints" not in text
    assert not any(hint in text for hint in hints)
    assert catalog.page_text(problem).startswith(text.split("\n", 1)[0])


def test_text_drawings_fit_into_a_terminal(problem: Problem):
    assert page.sections(problem)["The architecture"].startswith("```text\n")
    blocks = re.findall(r"^```text\n(.*?)^```$", catalog.page_text(problem), re.MULTILINE | re.DOTALL)
    assert [line for block in blocks for line in block.splitlines() if len(line) > 72] == []


def test_a_browser_gets_the_drawing_in_place_of_the_first_text_drawing(drawn: Problem):
    text, shown = page.without_hints(drawn), page.for_browser(drawn)
    shown = re.sub(
        r'<figure class="explorable" data-(explorable)="(.*?)">.*?</figure>', r"<!-- \1: \2 -->", shown, flags=re.DOTALL
    )
    before, figure, after = re.split(r"(<figure class=\"drawing\".*?</figure>)", shown, flags=re.DOTALL)
    assert text.startswith(before)
    assert text.endswith(after)
    assert "```text" not in before, "a text drawing before it would have been replaced"
    assert "\n\n" not in figure, "a blank line ends a block of HTML in Markdown"
    assert "style=" not in figure, "a strict content security policy forbids it"


def test_a_problem_without_a_drawing_keeps_its_text(tmp_path: Path):
    text = "# 01 · Two tables\n\n## The architecture\n\n```text\ntoken_ids ──► rows\n```\n"
    (tmp_path / "page.md").write_text(f"{text}\n## Hints\n\n1. Look up rows.\n")
    assert page.for_browser(replace(catalog.find("01"), folder=tmp_path)) == text


def test_an_author_may_bring_a_picture_or_describe_it(tmp_path: Path):
    problem = replace(catalog.find("01"), folder=tmp_path)
    (tmp_path / "page.md").write_text(
        "# 01 · Two tables\n\n```text\nids ──► rows\n```\n\n## Hints\n\n1. Look up rows.\n"
    )
    (tmp_path / "drawing.svg").write_text("<svg><title>mine</title></svg>\n")
    assert "<title>mine</title>" in page.for_browser(problem)
    (tmp_path / drawing.FILE).write_text("size 90x40\ntitle Rows\nabout Rows of a table.\nbox ids 45,20 60x20 | ids\n")
    shown = page.for_browser(problem)
    assert "mine" not in shown
    assert ">Rows</title>" in shown
    assert "ids</text>" in shown


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("size 90x40\nbox ids 45,20 20x20 | far too wide\n", "line 2: 'far too wide' takes 83 pixels; ids is 20 wide."),
        ("size 90x40\narrow a.e b.w\n", "line 2: no shape is called 'a'."),
        ("size 90x40\ncircle a 1,1\n", "line 2: there is no command 'circle'."),
        ("size 90x40\n", " must have the lines `size`, `title` and `about`."),
    ],
)
def test_a_drawing_that_cannot_be_drawn_is_named_by_its_line(text: str, complaint: str):
    with pytest.raises(CourseError) as caught:
        drawing.render("p01_token_embedding", text)
    said = str(caught.value).removeprefix("problems/p01_token_embedding/drawing.txt").removeprefix(", ")
    assert said == complaint


def width(text: ElementTree.Element) -> float:
    """The width of a text with a font like DejaVu Sans, which is wider than others."""
    size = float(text.get("font-size", 14))
    share = 0.61 if "mono" in text.get("font-family", "").lower() else 0.54
    return len(text.text or "") * size * share


def test_drawings_are_named_and_inside_their_picture(drawn: Problem):
    root = ElementTree.fromstring(drawing.render(drawn.name, (drawn.folder / drawing.FILE).read_text(encoding="utf-8")))
    left, top, right, bottom = map(float, root.attrib["viewBox"].split())
    assert right <= 720
    label = drawn.name.split("_")[0]
    assert root.get("aria-labelledby") == f"{label}-title {label}-about"
    for tag, ending in (("title", "title"), ("desc", "about")):
        element = root.find(SVG + tag)
        assert element is not None
        assert element.text
        assert element.get("id") == f"{label}-{ending}"
    outside = []
    for text in root.iter(SVG + "text"):
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        start = x - width(text) * ANCHORS[text.get("text-anchor", "middle")]
        if start < left - 2 or start + width(text) > right + 2 or not top + 8 <= y <= bottom - 2:
            outside.append(text.text)
    assert outside == []


def test_a_cold_page_has_the_task_and_no_way_to_it(problem: Problem):
    text = page.cold(problem)
    assert re.findall(r"^## (.+)", text, re.MULTILINE)[0] == "Why this matters"
    for section in ("The problem", "Inputs", "Output", "Sources"):
        assert f"## {section}\n\n{page.sections(problem)[section][:40]}" in text
    for section in ("A worked sketch", "Pitfalls", "The ideas", "Examples", "Hints"):
        assert f"## {section}\n" not in text
    assert "```predict" not in text
    assert "explorable" not in text
    assert text.count("```math") == page.without_hints(problem).count("```math")
    assert all(entry.name in text for entry in problem.entries)


def test_the_last_problem_of_each_late_part_is_cold():
    listed = [problem for problem in catalog.problems() if not catalog.is_optional(problem)]
    last = list({catalog.part_of(problem): problem for problem in listed}.values())
    late = next(place for place, problem in enumerate(last) if catalog.part_of(problem).startswith("VIII."))
    assert [problem for problem in catalog.problems() if catalog.is_cold(problem)] == last[late:]
