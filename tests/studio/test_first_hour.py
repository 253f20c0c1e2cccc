"""A learner's first hour in the studio, scripted: two problems passed by following what is on screen, and nothing
else."""

import re

from playwright.sync_api import Page, expect

from grader.course import catalog
from tests.studio.conftest import Server
from tests.studio.test_learner import editor, graded, write

LABELS = ("01", "02")


def test_two_problems_are_passed_by_what_is_on_screen(page: Page, studio: Server):
    expect(page.get_by_role("link", name="Next: 01")).to_be_visible()
    page.get_by_role("link", name="01").first.click()
    for label, following in zip(LABELS, (*LABELS[1:], "03"), strict=True):
        problem = catalog.find(label)
        right = catalog.solution_path(problem).read_text(encoding="utf-8")
        idea = catalog.misconceptions(problem)[0]
        expect(page.get_by_role("heading", level=1)).to_contain_text(problem.title)
        for entry in problem.entries:  # the page and the stub both name what is to be written
            expect(page.get_by_role("article")).to_contain_text(entry.name)
            expect(editor(page)).to_contain_text(entry.name)
        page.get_by_role("button", name="Save and grade").click()
        graded(page, "NOT ATTEMPTED")
        page.get_by_role("button", name="Show hint 1 of").click()
        expect(page.locator("#hints li")).to_have_count(1)
        write(page, next(iter(idea.variants(right).values())))
        page.keyboard.press("Control+Enter")
        graded(page, "FAIL")
        expect(page.locator("#advice")).to_contain_text(idea.name)
        write(page, right)
        page.keyboard.press("Control+Enter")
        graded(page, f"PASS, {problem.points} of {problem.points} points")
        assert studio.file(problem.name).read_text() == right
        page.locator("#advice").get_by_role("link", name=re.compile(following)).click()
    page.goto(studio.base)
    expect(page.get_by_role("link", name="Next: 03")).to_be_visible()
    expect(page.locator(".state", has_text=re.compile("^passed"))).to_have_count(len(LABELS))
