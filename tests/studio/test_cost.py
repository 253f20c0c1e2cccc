"""What a file costs, in a real browser."""

from playwright.sync_api import Browser, expect

from grader.course import catalog
from tests.studio.conftest import Server, axe, enter

PROBLEM = catalog.find("02")
RIGHT = catalog.text_of(catalog.solution_path(PROBLEM))


def test_the_tab_shows_the_figures_the_lines_and_other_programs(browser: Browser, studio: Server):
    studio.file(PROBLEM.name).write_text(RIGHT)
    with browser.new_context(bypass_csp=True, viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        enter(page, studio)
        page.goto(f"{studio.base}/problems/02")
        page.get_by_role("tab", name="Cost").click()
        page.get_by_role("button", name="Count").click()
        expect(page.locator("#cost-said")).to_contain_text("Counted on the file")
        shown = page.locator("#cost-shown")
        expect(shown).to_contain_text("matrix products")
        expect(shown).to_contain_text("and the traffic")
        expect(shown).to_contain_text("return weights_TS @ v")
        expect(shown.locator("svg").first).to_be_visible()
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert axe(page) == []


def test_a_file_that_does_not_run_says_so(browser: Browser, studio: Server):
    studio.file(PROBLEM.name).write_text("def causal_attention(q, k, v):\n    return w\n")
    with browser.new_context() as context:
        page = context.new_page()
        enter(page, studio)
        page.goto(f"{studio.base}/problems/02")
        page.get_by_role("tab", name="Cost").click()
        page.get_by_role("button", name="Count").click()
        expect(page.locator("#cost-shown")).to_contain_text("There is nothing to count: NameError")
