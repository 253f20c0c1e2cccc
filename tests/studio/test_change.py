"""The page of a change to review in a real browser: verdicts and tests become files, and what is found is shown."""

from playwright.sync_api import Page, expect

from grader.changes.drawing import Plan
from grader.changes.reviewing import ChangeReview
from grader.course import tasks
from grader.course.workspace import Workspace
from tests.studio.conftest import Server, axe

FILES = (
    ("p02_causal_attention", "reference", "p02_loops_over_positions.py"),
    ("p04_layer_norm", "p04_row_by_row.py", "reference"),
)


def test_from_the_task_to_the_end_of_a_change(page: Page, studio: Server):
    page.get_by_role("link", name="Open task Review: a change to the model").click()
    page.get_by_role("link", name="Review a change").click()
    expect(page.get_by_role("button", name="Draw a change")).to_be_enabled()
    space, task = Workspace(studio.workspace), tasks.find("review_model")
    review = ChangeReview.begin(space, task, plan=Plan("1", FILES).dumps())  # without a fault

    page.reload()
    expect(page.get_by_role("heading", name="Change 1")).to_be_visible()
    expect(page.get_by_text("Handles one position at a time.")).to_be_visible()
    assert axe(page) == []
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") == width

    first = page.get_by_role("region", name="Hunk 1 ")
    expect(first.get_by_role("textbox")).to_be_hidden()
    first.get_by_role("radio", name="faulty").check()
    first.get_by_role("textbox").fill("def test(pieces):\n    pass\n")
    test = review.folder / "test_1.py"
    page.get_by_role("button", name="Hand in").click()
    expect(first.get_by_text("faulty, which is wrong.")).to_be_visible()
    assert test.read_text() == "def test(pieces):\n    pass\n"
    assert ChangeReview.under_way(space, task).verdicts == {1: "faulty"}
    page.get_by_role("button", name="Hand in").click()
    expect(page.get_by_text("Nothing here is new, so this was no run.")).to_be_visible()

    page.reload()
    expect(first.get_by_role("radio", name="faulty")).to_be_disabled()
    for number in review.numbers[1:]:
        page.get_by_role("region", name=f"Hunk {number} ").get_by_role("radio", name="sound").check()
    page.get_by_role("button", name="Hand in").click()
    expect(page.get_by_text("This change had no fault.")).to_be_visible()
    expect(page.get_by_text("12 points, in no class.")).to_be_visible()
    expect(page.get_by_role("button", name="Draw a change")).to_be_visible()
    assert axe(page) == []


def test_other_tasks_have_no_changes(page: Page, studio: Server):
    assert page.request.get(f"{studio.base}/tasks/speedrun/change").status == 404
