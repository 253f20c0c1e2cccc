"""The page of an open task in a real browser: from the map to its page, the best score, and the scores of attempts."""

import re

from playwright.sync_api import Page, expect

from grader.course import tasks
from grader.course.workspace import Workspace
from tests.studio.conftest import Server, axe


def test_from_the_map_to_the_scores(page: Page, studio: Server):
    page.get_by_role("link", name="Open task The speedrun").click()
    expect(page.get_by_role("heading", name="The speedrun")).to_be_visible()
    expect(page.get_by_text("You have no score yet.")).to_be_visible()
    expect(page.get_by_role("heading", name="What is counted")).to_be_visible()
    home = Workspace(studio.workspace)
    for score in (150_000_000_000, 54_084_554_856, 93_296_356_758):
        home.record(tasks.SCORED, "speedrun", score=score)
    page.reload()
    expect(page.get_by_text("54,084,554,856 scalar operations, silver.")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^billion scalar operations by attempt"))).to_be_visible()
    assert axe(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.goto(studio.base)
    expect(page.get_by_role("link", name="Open task The speedrun silver")).to_be_visible()


def test_there_is_no_other_task(page: Page, studio: Server):
    """A browser reports a page that is not there as an error, so it is asked without one."""
    assert page.request.get(f"{studio.base}/tasks/none").status == 404
