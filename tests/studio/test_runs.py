"""Runs and the playground: as a learner uses them in a real browser, and as an attacker tries to."""

import dataclasses
import json
import math
import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from harness.presets import preset
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import ignore, open_session
from tests.studio.conftest import Server, axe, enter
from tests.studio.test_guard import ask

TINY = {"steps": "100000", "d_model": "16", "num_layers": "1", "d_ff": "16", "context": "16", "eval_every": "100"}
STORIES = "4000"  # the fewest that the studio offers
HTML = "<img src=x onerror=alert(1)>"
SAMPLE = {"page": "0" * 16, "kind": "read", "prompt": "Once", "ids": None}


def write_run(runs: Path, name: str, last: int = 40, **settings: object) -> Path:
    """The folder of a run as the harness leaves it, without checkpoints."""
    folder = runs / name
    (folder / "samples").mkdir(parents=True)
    (folder / "config.json").write_text(
        dataclasses.replace(preset("pocket"), **{"steps": 40, "warmup_steps": 5} | settings).to_json()
    )
    (folder / "baselines.json").write_text('{"unigram": 5.5, "bigram": 2.3}')
    (folder / "samples" / "0000020.txt").write_text(f"A story of {HTML}")
    add_steps(folder, 1, last)
    return folder


def add_steps(folder: Path, first: int, last: int) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        for step in range(first, last + 1):
            entry = {"step": step, "loss": 8 - step / 10, "tokens": 512 * step, "tokens_per_s": 1000.0}
            entry |= {"learning_rate": 1e-3, "gradient_norm": 1.0}
            entry |= {"validation_loss": 8 - step / 11} if step % 20 == 0 else {}
            file.write(json.dumps(entry) + "\n")


@pytest.fixture(scope="module")
def runs(studio: Server) -> Path:
    """The studio's folder of runs. Each test makes those it needs: it may run alone, or in another process."""
    folder = studio.folder / "runs"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def trained(runs: Path) -> str:
    """The name of a run with a checkpoint."""
    settings = preset("pocket").with_settings(TINY | {"steps": "2", "warmup_steps": "1", "data": f"pocket:{STORIES}"})
    assert train(open_session(Run(runs / "trained"), settings, None, log=ignore, quiet=True), log=ignore, quiet=True)
    return "trained"


@pytest.mark.thorough
def test_from_the_first_run_to_its_tokens(page: Page, studio: Server, runs: Path):
    page.goto(f"{studio.base}/runs")
    expect(page.get_by_text("There is no run yet")).to_be_visible()
    assert axe(page) == []
    page.get_by_label("Name").fill("tiny")
    page.get_by_label("Stories").select_option(STORIES)
    page.locator("summary").click()
    for name, value in TINY.items():
        page.locator(f"[name={name}]").fill(value)
    page.get_by_role("button", name="Start").click()
    expect(page.locator(".words")).to_contain_text("Training")
    expect(page.locator(".level-name.bigram")).to_contain_text("bigram")
    expect(page.locator("#sample")).to_contain_text("Once upon a time")
    assert axe(page) == []
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".words")).to_contain_text("Stopped")
    stopped_at = len((runs / "tiny" / "metrics.jsonl").read_text().splitlines())

    page.get_by_role("link", name="Playground").click()
    expect(page.locator(".token.given").last).to_have_attribute("aria-label", re.compile(r"was, .*%"))
    page.locator("#max_tokens").fill("10")  # with the prompt, fewer than fit into the context
    page.get_by_role("button", name="Continue the prompt").click()
    expect(page.locator(".token:not(.given)").first).to_be_visible()
    expect(page.get_by_role("button", name="Write more")).to_be_visible()
    page.locator(".token").nth(3).focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".token").nth(4)).to_be_focused()
    page.locator("#top_p").fill("1")
    expect(page.locator("#likeliest button")).to_have_count(10)
    page.locator("#temperature").fill("0")
    expect(page.locator("#likeliest button")).to_have_count(1)
    expect(page.locator("#likeliest")).to_contain_text("100%")
    page.locator("#head").select_option("2")
    expect(page.locator("#map")).to_have_attribute("aria-label", re.compile("head 2"))
    expect(page.locator("#attended")).to_contain_text(re.compile(r"attends to .*%"))
    page.locator(".token").nth(1).hover()
    expect(page.locator(".token").nth(1)).to_have_attribute("aria-selected", "true")

    page.get_by_role("link", name="tiny").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".words")).to_contain_text("Training")
    studio.stop(says="Stopping the run tiny after it has saved a checkpoint.\n")
    assert len((runs / "tiny" / "metrics.jsonl").read_text().splitlines()) >= stopped_at
    studio.start()
    expect(page.locator("#offline")).to_be_hidden()


def test_a_run_of_another_program_is_followed_and_compared(page: Page, studio: Server, runs: Path):
    folder = write_run(runs, "one", 20)
    write_run(runs, "two", seed=3)
    page.goto(f"{studio.base}/runs/one")
    expect(page.locator(".words")).to_contain_text("Training in another program")
    expect(page.locator(".facts")).to_contain_text("10 s")
    add_steps(folder, 21, 40)
    expect(page.locator(".words")).to_contain_text("Finished")
    page.get_by_label("with").select_option("two")
    expect(page.locator(".compared-with")).to_contain_text("seed: 3 -> 0")
    expect(page.locator(".chart").first).to_contain_text("two validation")


def test_the_newest_sample_is_followed_unless_another_one_is_read(page: Page, studio: Server, runs: Path):
    folder = write_run(runs, "samples", 20)

    def write_sample(step: int) -> None:
        (folder / "samples" / f"{step:07}.txt").write_text(f"The story after {step} steps.")
        add_steps(folder, step - 4, step)

    write_sample(25)
    page.goto(f"{studio.base}/runs/samples")
    chosen = page.locator("#sample-step")
    expect(chosen).to_have_value("25")
    write_sample(30)
    expect(chosen).to_have_value("30")
    expect(page.locator("#sample")).to_have_text("The story after 30 steps.")
    chosen.select_option("25")
    write_sample(35)
    expect(chosen.locator("option")).to_have_count(4)
    expect(chosen).to_have_value("25")
    expect(page.locator("#sample")).to_have_text("The story after 25 steps.")


def test_text_of_a_run_is_only_text(page: Page, studio: Server, runs: Path):
    write_run(runs, f"--help {HTML.replace('/', '')} #?%41")
    page.on("dialog", lambda dialog: pytest.fail("a script ran"))
    page.goto(f"{studio.base}/runs")
    page.get_by_role("link", name=HTML).first.click()
    expect(page.get_by_role("heading", name=HTML)).to_be_visible()
    expect(page.locator("#sample")).to_contain_text(HTML)
    assert page.locator("main img").count() == 0


@pytest.mark.thorough
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_stands_in_the_way_of_a_screen_reader(
    browser: Browser, studio: Server, runs: Path, trained: str, theme: str
):
    if not (runs / "read").exists():
        write_run(runs, "read")
    with browser.new_context(bypass_csp=True, color_scheme=theme, viewport={"width": 390, "height": 844}) as context:
        page, found = context.new_page(), list[str]()
        enter(page, studio)
        for path in ("/runs", f"/runs/read?with={trained}", f"/runs/{trained}", "/runs/read/playground", "/runs/none"):
            page.goto(studio.base + path)
            found += axe(page)
            assert page.evaluate("document.documentElement.scrollWidth") == 390, path
        page.goto(f"{studio.base}/runs/{trained}/playground")
        expect(page.locator("#attended")).to_contain_text("attends to")
        found += axe(page)
    assert found == []


def test_no_path_or_link_of_a_run_leads_out(studio: Server, runs: Path):
    outside = write_run(studio.folder, "elsewhere")
    (outside / "samples" / "0000020.txt").write_text("secret")
    (runs / "linked").symlink_to(outside)
    for path in ("linked", "..", "%2e%2e", "..%2felsewhere", "linked/playground", "linked/live", "%00", "x" * 999):
        assert ask(studio, f"/runs/{path}").status == 404, path

    inner = write_run(runs, "inner")
    (inner / "checkpoints" / "20").mkdir(parents=True)
    for link, target in (("metrics.jsonl", outside / "metrics.jsonl"), ("checkpoints/20/state", outside)):
        (inner / link).unlink(missing_ok=True)
        (inner / link).symlink_to(target)
        assert ask(studio, "/runs/inner/resume", "POST", {}).status == 422
        assert ask(studio, "/runs/inner/playground", "POST", SAMPLE).status == 422
        (inner / link).unlink()
    (inner / "samples" / "0000020.txt").unlink()
    (inner / "samples" / "0000020.txt").symlink_to(outside / "samples" / "0000020.txt")
    os.mkfifo(inner / "samples" / "0000040.txt")
    assert json.loads(ask(studio, "/runs/inner/live").body)["samples"] == []
    (inner / "config.json").write_bytes(b" " * (1 << 20))
    assert ask(studio, "/runs/inner").status == 422
    assert ask(studio, "/runs").status == 200


def test_the_map_names_the_best_run_of_ones_own_pieces(studio: Server, runs: Path):
    assert b"Your best run" not in ask(studio, "/").body
    write_run(runs, "a<b", pieces=("MiniGPT 01",))
    shown = ask(studio, "/").body.decode()
    assert "Your best run: a&lt;b, with a validation loss of 4.36 at step 40; a bigram model has 2.30." in shown
    assert f'href="{studio.root}/runs/a%3Cb"' in shown


def test_only_a_page_of_the_studio_changes_runs(studio: Server, runs: Path, trained: str):
    new = {"name": "new", "preset": "pocket", "stories": "4000", "settings": {}, "with_pieces": False}
    for path, body in (
        ("/runs", new),
        (f"/runs/{trained}/stop", {}),
        (f"/runs/{trained}/resume", {}),
        (f"/runs/{trained}/playground", SAMPLE),
    ):
        assert ask(studio, path, "POST", body, Origin="http://evil.example").status == 403
        assert ask(studio, path, "POST", body, cookie="").status == 403
        assert ask(studio, path, "POST", b"x" * (3 << 20)).status == 413
    (runs / "dangling").symlink_to(studio.folder / "nowhere")
    for change in (
        {"name": "../x"},
        {"name": "-x"},
        {"name": "dangling"},
        {"preset": "gpt2"},
        {"stories": "/etc/passwd"},
    ):
        assert ask(studio, "/runs", "POST", new | change).status == 422, change
    for settings in ({"data": "/etc/passwd"}, {"steps": "9" * 5000}, {"steps": 1}):
        assert ask(studio, "/runs", "POST", new | {"settings": settings}).status == 400
    for change in (
        {"page": "x"},
        {"kind": "run"},
        {"ids": [{}]},
        {"temperature": "x"},
        {"top_p": math.nan},
        {"temperature": math.nan},
        {"prompt": None},
    ):
        assert ask(studio, f"/runs/{trained}/playground", "POST", SAMPLE | change).status == 400, change
    assert not (runs / "new").exists()
