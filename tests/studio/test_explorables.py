"""Explorables in the studio: their sliders, by the keyboard and on a phone."""

from playwright.sync_api import Browser, Page, expect

from tests.studio.conftest import Server, axe, enter, read_on


def test_sliders_move_two_drawings(page: Page, studio: Server):
    """By the keyboard, under the policy of the studio, whose violations are errors of the page."""
    page.goto(f"{studio.base}/problems/02")
    read_on(page)
    figure = page.locator("figure.explorable")
    scale = figure.get_by_role("slider", name="Divide the scores by")
    before = figure.locator("svg").inner_html()
    expect(figure.locator("output")).to_contain_text("1.00, 0.78, 0.62, 0.47")
    scale.press("Home")
    expect(figure.locator("output")).to_contain_text("1.00, 0.99, 0.95, 0.93")
    expect(scale).to_have_attribute("aria-valuetext", "1")
    assert figure.locator("svg").inner_html() != before
    figure.get_by_role("slider", name="Diagonal k").press("ArrowRight")
    expect(figure.locator("output")).not_to_contain_text("in all rows: 0.00")
    figure.get_by_text("The numbers at some settings").click()
    expect(figure.get_by_role("cell", name="1.00, 0.99, 0.95, 0.93")).to_be_visible()

    page.goto(f"{studio.base}/problems/29")
    read_on(page)
    temperature = figure.get_by_role("slider", name="Temperature")
    expect(figure.get_by_role("img")).to_have_count(1)
    temperature.press("End")
    expect(temperature).to_have_attribute("aria-valuetext", "3.0")
    expect(figure.locator("output")).to_contain_text("Tokens kept: 6 of 8")


def test_they_are_accessible_on_a_phone(browser: Browser, studio: Server):
    with browser.new_context(bypass_csp=True, viewport={"width": 390, "height": 844}, color_scheme="dark") as context:
        page = context.new_page()
        enter(page, studio)
        page.goto(f"{studio.base}/problems/02")
        read_on(page)
        expect(page.locator("figure.explorable input")).to_have_count(2)
        page.get_by_text("The numbers at some settings").click()
        assert axe(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == 390
