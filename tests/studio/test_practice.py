"""An evening of practice in a real browser: what is due, a review, and a hunt from its symptom to the mend."""

import re

import pytest
from playwright.sync_api import Page, expect

from grader.course import catalog, log
from grader.course.workspace import Workspace
from grader.practice import schedule
from grader.practice.hunting import HuntSpace
from tests.studio.conftest import Server, axe

ATTENTION = catalog.find("02")


@pytest.fixture
def practice(page: Page, studio: Server) -> Page:
    """The page of practice of somebody who passed 02 long ago, after forgetting the mask."""
    home = Workspace(studio.workspace)
    if ATTENTION.name not in home.progress():
        facts = {"verdict": "FAIL", "score": 2, "mistake": "causal mask missing"}, {"verdict": "PASS", "score": 6}
        at = "2026-01-05T10:00:00.000000Z"
        old = [log.Entry(f"{number}", at, "graded", ATTENTION.name, each) for number, each in enumerate(facts)]
        home.note(*old)
    page.goto(studio.base)
    page.get_by_role("link", name="Practice").click()
    return page


def test_what_is_due(practice: Page, studio: Server):
    page = practice
    expect(page.get_by_text("1 due today.")).to_be_visible()
    row = page.get_by_role("row", name=re.compile("02 Causal attention"))
    expect(row).to_contain_text("today")
    expect(row).to_contain_text("core")
    expect(page.get_by_role("img", name=re.compile("of practice in the last year"))).to_be_visible()
    assert axe(page) == []
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    right_ends = page.evaluate(
        "['.days', '.days svg'].map((css) => document.querySelector(css).getBoundingClientRect().right)"
    )
    assert right_ends[0] == right_ends[1], "today is in view"
    page.goto(studio.base)
    expect(page.get_by_role("link", name="1 due today")).to_be_visible()


@pytest.mark.thorough
def test_a_hunt(practice: Page, studio: Server):
    page = practice
    page.locator(".hunts").get_by_role("link", name="02 Causal attention, one head").click()
    page.get_by_role("button", name="Begin a hunt").click()
    expect(page.locator(".symptom")).to_contain_text("too good to be true")
    space = HuntSpace.of(Workspace(studio.workspace))
    current = space.under_way(ATTENTION)
    assert current is not None
    program = space.program(current)
    page.get_by_role("button", name="Ask me a question").click()
    expect(page.locator("#questions li")).to_have_text([current.kind.questions[0]])
    assert page.locator("#ideas button").count() == 0, "they would help to find the line"
    numbers = page.locator(".cm-lineNumbers .cm-gutterElement")
    numbers.filter(has_text=re.compile("^1$")).click()
    expect(page.locator("#says")).to_have_text("Line 1 is right.")
    numbers.filter(has_text=re.compile(f"^{min(program.fault)}$")).click()
    expect(page.locator("#ideas button")).to_have_count(4)
    page.get_by_role("button", name="causal mask missing").click()
    expect(page.locator("#says")).to_have_text("Yes. Now mend the program.")
    assert axe(page) == []
    page.get_by_role("button", name="Grade the mended program").click()
    expect(page.locator("#says")).to_contain_text("Not yet.")
    page.locator("#editor .cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(program.correct)
    page.get_by_role("button", name="Grade the mended program").click()
    expect(page.locator("#says")).to_have_text("It passes. The program is mended.")
    expect(page.locator("#lesson")).to_contain_text("How an experienced person finds it")
    assert space.file(ATTENTION).read_text() == program.correct
    page.get_by_role("link", name="All practice").click()
    expect(page.locator(".hunts")).to_contain_text("1 done")


def test_hunts_of_problems_that_were_not_passed_are_refused(practice: Page, studio: Server):
    page = practice
    for path in ("practice/hunts/07", "practice/hunts/99"):
        response = page.request.get(f"{studio.base}/{path}")
        assert response.status in (404, 422)
        assert "def " not in response.text()


@pytest.mark.thorough
def test_a_review(practice: Page, studio: Server):
    page, home = practice, Workspace(studio.workspace)
    right = catalog.solution_text(ATTENTION)
    home.file(ATTENTION).parent.mkdir(exist_ok=True)
    home.file(ATTENTION).write_text("# the passed file\n" + right)
    page.get_by_role("link", name="02 Causal attention, one head").first.click()
    expect(page.get_by_role("button", name="Write all of it")).to_be_enabled()
    page.get_by_role("button", name=re.compile("Write the core")).click()
    expect(page.locator("#task")).to_contain_text("causal_attention")
    expect(page.locator("#editor .cm-content")).to_contain_text("raise NotImplementedError")
    assert axe(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.set_viewport_size({"width": 1280, "height": 720})
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    stopped = page.locator("#clock").inner_text()
    page.wait_for_timeout(1100)
    assert page.locator("#clock").inner_text() == stopped
    page.get_by_role("button", name="Continue").click()

    def write(text: str) -> None:
        page.locator("#editor .cm-content").click()
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(text)

    write(right.replace("jnp.sqrt(", "jnp.abs("))
    page.reload()  # what was typed is not lost
    expect(page.locator("#editor .cm-content")).to_contain_text("jnp.abs(")
    page.keyboard.press("Control+s")
    expect(page.locator("#headline")).to_have_text(re.compile("^FAIL"))
    expect(page.locator("#report")).to_contain_text("output")
    page.get_by_role("button", name="Show a hint").click()
    expect(page.locator("#hints li")).to_have_count(1)
    assert axe(page) == []
    write(right)
    page.get_by_role("button", name="Save and grade").click()
    expect(page.locator("#headline")).to_have_text(re.compile("^PASS"))
    expect(page.locator("#ending")).to_contain_text("Review done in")
    expect(page.locator("#ending")).to_contain_text("1 hint")
    expect(page.locator("#ratings [aria-pressed=true]")).to_have_text("good")
    page.get_by_role("button", name="hard").click()
    expect(page.locator("#ending")).to_contain_text("Rated hard.")
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    (memory,) = schedule.memories(home.entries()).values()
    assert memory.reviews[-1].rating == 2
    assert home.file(ATTENTION).read_text().startswith("# the passed file"), "a review never changes it"
    page.get_by_role("link", name="All practice").click()
    expect(page.get_by_role("row", name=re.compile("02 Causal attention"))).not_to_contain_text("today")


def test_only_passed_problems_are_reviewed(practice: Page, studio: Server):
    for path in ("practice/reviews/07", "practice/reviews/99"):
        response = practice.request.get(f"{studio.base}/{path}")
        assert response.status in (404, 422)
        assert "def " not in response.text()
