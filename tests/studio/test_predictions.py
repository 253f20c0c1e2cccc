"""Predictions and remedies in the studio: what the learner thinks of first, and what is told on demand."""

from playwright.sync_api import Browser, Page, expect

from grader.course import catalog, predictions
from grader.course.workspace import Workspace
from tests.studio.conftest import Server, axe, enter
from tests.studio.test_learner import graded, write

PROBLEM = catalog.find("06")
FIRST, SECOND = predictions.of(PROBLEM)


def test_nobody_has_to_answer(browser: Browser, studio: Server):
    """By the keyboard, on a phone."""
    with browser.new_context(bypass_csp=True, viewport={"width": 390, "height": 844}) as context:
        page = context.new_page()
        enter(page, studio)
        page.goto(f"{studio.base}/problems/06")
        expect(page.get_by_role("button", name="Predict").first).to_be_visible()
        assert axe(page) == []
        page.get_by_role("button", name="Read on without an answer").first.press("Enter")
        page.get_by_role("button", name="Read on without an answer").locator("visible=true").press("Enter")
        expect(page.get_by_role("heading", name="The problem")).to_be_visible()
        page.get_by_text("more pitfalls, for after your first attempt").click()
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_page_goes_on_after_an_answer(page: Page, studio: Server):
    page.goto(f"{studio.base}/problems/06")
    first, second = page.locator(".predict").all()
    expect(page.get_by_role("heading", name="The problem")).not_to_be_visible()
    expect(second).not_to_be_visible()
    number = first.get_by_role("textbox", name="Your prediction, question 1")
    number.fill("many")
    first.get_by_role("button", name="Predict").click()
    expect(first.get_by_role("status")).to_have_text("Answer with a number.")
    number.fill("40")
    first.get_by_role("button", name="Predict").click()
    expect(first.get_by_role("status")).to_contain_text(f"No: {FIRST.answer}.")
    expect(second).to_be_visible()
    expect(page.get_by_role("heading", name="The problem")).not_to_be_visible()
    second.get_by_label(SECOND.answer).check()
    second.get_by_role("button", name="Predict").click()
    expect(second.get_by_role("status")).to_contain_text("Right.")
    expect(page.get_by_role("heading", name="The problem")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="The problem")).to_be_visible()
    expect(page.get_by_role("button", name="Predict")).to_have_count(0)


def test_a_remedy_is_told_on_demand_and_counted(page: Page, studio: Server):
    problem = catalog.find("04")
    idea = next(each for each in catalog.misconceptions(problem) if each.fix)
    page.goto(f"{studio.base}/problems/04")
    write(page, next(iter(idea.variants(catalog.solution_text(problem)).values())))
    page.keyboard.press("Control+s")
    graded(page, "FAIL")
    remedy = page.locator("#cause .fix")
    expect(remedy).to_contain_text("How to mend it, which counts as a hint")
    expect(remedy.locator("p")).not_to_be_visible()
    with page.expect_response("**/mend"):
        remedy.locator("summary").click()
    expect(remedy.locator("p")).to_be_visible()
    assert Workspace(studio.workspace).progress()[problem.name].fixes == (idea.name,)
