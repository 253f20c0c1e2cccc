"""The glossary in the studio: from a word on a page to what it means, and on to the problem that teaches it."""

from playwright.sync_api import Page, expect

from tests.studio.conftest import Server, axe


def test_from_a_word_to_its_meaning_and_its_problem(page: Page, studio: Server):
    page.goto(f"{studio.base}/problems/01")
    page.get_by_role("link", name="token", exact=True).click()
    expect(page.get_by_role("heading", name="Glossary")).to_be_visible()
    expect(page.locator("#token")).to_be_in_viewport()
    assert page.url.endswith("/glossary#token")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("link", name="47").first.click()
    expect(page.get_by_role("heading", name="47 ·")).to_be_visible()
    page.go_back()
    assert axe(page) == []


def test_the_map_opens_it(page: Page, studio: Server):
    page.get_by_role("link", name="Glossary").click()
    expect(page.get_by_role("heading", name="Glossary")).to_be_visible()
