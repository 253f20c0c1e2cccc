"""A run from the studio: started, watched to its end, and sampled, in a real browser."""

import json
import re

from playwright.sync_api import Page, expect

from tests.studio.conftest import Server
from tests.studio.test_guard import ask

TINY = {"steps": "4", "d_model": "16", "num_layers": "1", "d_ff": "16", "context": "16", "eval_every": "2"}


def test_a_run_is_started_watched_and_sampled(page: Page, studio: Server):
    page.goto(f"{studio.base}/runs")
    page.get_by_label("Name").fill("tiny")
    page.locator("summary").click()
    for name, value in TINY.items():
        page.locator(f"[name={name}]").fill(value)
    page.get_by_role("button", name="Start").click()
    expect(page.locator(".words")).to_contain_text(re.compile("starting|training", re.I))
    expect(page.locator(".words")).to_contain_text("Finished")
    expect(page.locator(".level-name.bigram")).to_contain_text("bigram")
    expect(page.locator("#sample")).to_contain_text("Once upon a time")
    page.get_by_role("link", name="Playground").click()
    expect(page.locator(".token.given").first).to_be_visible()
    page.get_by_role("button", name="Continue the prompt").click()
    expect(page.locator(".token:not(.given)").first).to_be_visible()
    expect(page.locator("#layer option")).to_have_count(1)
    page.locator(".token").last.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#likeliest button").first).to_contain_text("%")


def test_no_path_or_link_of_a_run_leads_out(studio: Server):
    runs = studio.folder / "runs"
    runs.mkdir(exist_ok=True)
    outside = studio.folder / "elsewhere"
    outside.mkdir()
    (outside / "config.json").write_text("{}")
    (runs / "linked").symlink_to(outside)
    for path in (
        "/runs/linked",
        "/runs/..",
        "/runs/%2e%2e",
        "/runs/..%2felsewhere",
        "/runs/linked/playground",
        "/runs/%00",
    ):
        assert ask(studio, path).status == 404, path
    body = {"name": "../x", "preset": "pocket", "stories": "4000", "settings": {}, "with_pieces": False}
    assert ask(studio, "/runs", "POST", body).status == 422
    answer = ask(studio, "/runs", "POST", body | {"name": "x", "settings": {"data": "/etc/passwd"}})
    assert (answer.status, "error" in json.loads(answer.body)) == (400, True)
