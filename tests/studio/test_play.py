"""See it work, in a real browser: what a mistake does, what a pass shows, and the end of what takes too long."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from grader.course import catalog
from tests.grader.course.test_models_on_disk import cached
from tests.studio.conftest import Server, axe, enter
from tests.studio.test_learner import editor, graded, write

PROBLEM = catalog.find("02")
RIGHT = catalog.solution_path(PROBLEM).read_text(encoding="utf-8")
IDEA = next(idea for idea in catalog.misconceptions(PROBLEM) if "mask" in idea.name)
WRONG = next(iter(IDEA.variants(RIGHT).values()))
ENDLESS = f"{RIGHT}\n\ndef causal_attention(q, k, v):\n    while True:\n        pass\n"


def over(page: Page) -> None:
    expect(page.locator("#exhibits")).to_have_attribute("aria-busy", "false")


@pytest.mark.thorough
def test_a_mistake_and_a_pass_are_seen_at_work(browser: Browser, studio: Server):
    studio.file(PROBLEM.name).write_text(WRONG)
    with browser.new_context(bypass_csp=True, viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        enter(page, studio)
        page.goto(f"{studio.base}/problems/02")
        write(page, WRONG + "\n")
        page.keyboard.press("Control+s")
        graded(page, "FAIL")
        expect(page.locator("#exhibits figure")).to_have_count(0)
        page.get_by_role("button", name="See what your code does now").click()
        expect(page.locator("#exhibits figure").first).to_contain_text("tokens that come later")
        over(page)
        expect(page.locator("#play .compared")).to_contain_text("The play of a right file differs from yours in 2 of 2")
        found = axe(page)

        write(page, RIGHT)
        page.keyboard.press("Control+s")
        graded(page, "PASS")
        expect(page.locator("#exhibits figure").first).to_contain_text(
            "Right of the diagonal is the future, and it is empty"
        )
        over(page)
        expect(page.locator("#play-said")).to_contain_text(re.compile("The play is over: [0-9]+ exhibits"))
        assert page.evaluate("document.documentElement.scrollHeight") == 900

        page.get_by_label("with the text").fill("Tom saw a dog")
        page.keyboard.press("Enter")
        expect(page.locator("#exhibits figure").first).to_contain_text("dog")
        over(page)

        page.set_viewport_size({"width": 390, "height": 844})
        found += axe(page)
        assert page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]") == [
            390,
            844,
        ]
        page.get_by_role("tab", name="See it work").focus()
        page.keyboard.press("ArrowLeft")
        expect(page.get_by_role("tab", name="Verdict")).to_be_focused()
        expect(page.locator("#verdict")).to_be_visible()
        expect(page.locator("#play")).to_be_hidden()
        found += axe(page)

        page.goto(studio.base)
        page.set_viewport_size({"width": 1440, "height": 900})
        expect(page.get_by_role("link", name=re.compile("^02"))).to_have_attribute("title", re.compile("Played: "))
        assert page.evaluate("document.documentElement.scrollHeight") <= 900
        found += axe(page)
    assert found == []


def test_what_never_ends_is_stopped(page: Page, studio: Server):
    studio.file(PROBLEM.name).write_text(ENDLESS)
    page.goto(f"{studio.base}/problems/02")
    page.get_by_role("button", name="Save and grade").click()
    expect(page.locator("#headline")).to_have_text("Grading…")
    page.wait_for_timeout(1500)  # as a learner waits who sees that it does not end
    page.locator("#stop").click()
    expect(page.locator("#headline")).to_have_text("Grading was stopped")
    page.get_by_role("tab", name="See it work").click()
    expect(page.locator("#exhibits")).to_have_attribute("aria-busy", "true")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#play-said")).to_have_text("Stopped.")
    page.get_by_role("button", name="Play again").click()
    write(page, "causal_attention = 1 / 0\n")
    page.keyboard.press("Control+s")
    graded(page, "ERROR")
    over(page)
    expect(page.locator("#exhibits .ending")).to_contain_text("ZeroDivisionError")
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    for name in ("Verdict", "See it work"):
        page.get_by_role("tab", name=name).click()
    page.wait_for_timeout(500)
    assert asked == [], "the same file is not played again"
    page.locator("#exhibits").get_by_role("button", name="Go to line 1").click()
    expect(editor(page)).to_be_focused()


@pytest.mark.thorough
def test_a_play_ends_with_the_command_for_a_model_on_the_disk(browser: Browser, tmp_path: Path):
    problem = catalog.find("37")
    folder = tmp_path / "<i>mine & 'co'"
    folder.mkdir()
    cached(tmp_path / "hub", "org/small-1.5", "llama", 2_000_000)
    server = Server(folder, HF_HUB_CACHE=str(tmp_path / "hub"))
    try:
        server.file(problem.name).parent.mkdir(exist_ok=True)
        shutil.copyfile(catalog.solution_path(problem), server.file(problem.name))
        with browser.new_context() as context:
            page = context.new_page()
            enter(page, server)
            page.goto(f"{server.base}/problems/37")
            page.get_by_role("tab", name="See it work").click()
            command = page.locator("#exhibits .command")
            expect(command).to_be_visible()
            expect(page.locator("#play-said")).to_contain_text("The play is over")
            expect(page.locator("#exhibits")).to_contain_text("There is org/small-1.5 (0.0 GB) on your disk.")
            command.click()
            selected = page.evaluate("getSelection().toString()")
            program, *words = shlex.split(selected)
            assert Path(program).name in ("harness", "python", "python3")
            assert words[-6:] == ["sample", "hf:org/small-1.5", "--pieces", str(server.workspace), "--max-tokens", "40"]

            write(page, "def rope(x, positions, base):\n    raise ValueError\n")
            page.keyboard.press("Control+s")
            graded(page, "(FAIL|ERROR)")
            page.get_by_role("tab", name="See it work").click()
            expect(page.locator("#exhibits .ending")).to_be_visible()
            expect(command).to_have_count(0)
    finally:
        server.stop()
