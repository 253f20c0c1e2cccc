"""The results of a class in a real browser: in the studio while they arrive, and as one file without a server."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from grader.batch import class_page, deadlines, summary
from grader.batch.records import Person, StoredAttempt
from grader.batch.results import Results
from grader.batch.store import Store
from grader.course import catalog
from grader.judge import judge
from grader.judge.verdict import Verdict
from grader.report.json_report import MisconceptionRow, PublicReport
from tests.grader.batch.conftest import NAME, OWN
from tests.studio.conftest import Server, axe

PROBLEM = catalog.find("07")
REPORT = PublicReport.of(judge.refused(PROBLEM, f"{NAME}.py", Verdict.FAIL, "`loss` is 3, expected 2"))
IDEA = replace(REPORT, misconception=MisconceptionRow("no shift", "Row t must predict token t+1."))


def attempt(learner: str, verdict: str, score: int, **fields: object) -> StoredAttempt:
    source = fields.pop("source", "")
    return StoredAttempt(
        learner, NAME, "of "
            f"{learner}", "key", f"{NAME}.py", verdict, score, PROBLEM.points, sources={NAME: source}, **fields
    )  # fmt: skip


def settle(learner: str, attempts: list[deadlines.Attempt]) -> dict[str, deadlines.Settled]:
    return deadlines.settle(attempts, (learner,), None, best=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("class") / "results")
    store.remember_intake([Person("Ada")], [("Ada", "notes.txt", "is neither a .py file nor a notebook")])
    store.put(
        settle,
        attempt("Ada", "PASS", PROBLEM.points),
        attempt("Bo", "FAIL", 2, report=IDEA, misconception="no shift", source=OWN),
        attempt("Cleo <i>", "FAIL", 1, report=REPORT, source=OWN.replace("kept", "mine")),
        attempt("Dan", "ERROR", 0, message="NameError: x", report=REPORT),
    )
    yield store
    store.close()


@pytest.fixture(scope="module")
def studio(store: Store) -> Iterator[Server]:
    server = Server(store.folder.parent, "--class", store.folder.name)
    yield server
    server.stop()


def learners(page: Page) -> list[str]:
    """The names in the table, as far as they are shown, in order."""
    return page.locator("#table tbody tr:visible th").all_inner_texts()


def arranged(page: Page) -> None:
    """Sorts by total, filters, and follows a link to a learner's results."""
    assert learners(page) == ["Ada", "Bo", "Cleo <i>", "Dan"]
    page.get_by_role("button", name="total").click()
    expect(page.get_by_role("columnheader", name="total")).to_have_attribute("aria-sort", "descending")
    page.get_by_role("button", name="total").click()
    assert learners(page) == ["Dan", "Cleo <i>", "Bo", "Ada"]
    page.get_by_label("Show learners with").fill("NO shift")
    assert learners(page) == ["Bo"]
    expect(page.locator("#shown")).to_have_text("1 of 4")
    page.locator("#table").get_by_role("link", name="Bo").click()
    expect(page.get_by_text("Row t must predict token t+1.")).to_be_visible()


def test_the_page_follows_a_batch(page: Page, studio: Server, store: Store):
    expect(page.get_by_role("heading", level=1)).to_have_text("Results of a class")
    for text in ("NameError: x", "mean total"):
        expect(page.get_by_text(text).first).to_be_visible()
    expect(page.get_by_role("region", name="Files that were not used").get_by_text("notes.txt").first).to_be_visible()
    assert axe(page) == []
    arranged(page)
    expect(page.get_by_label("Show learners with")).to_have_value("NO shift")
    store.put(settle, attempt("Eve", "FAIL", 3, report=IDEA, misconception="no shift"))
    expect(page.locator("#table").get_by_role("link", name="Eve")).to_be_visible()
    assert learners(page) == ["Bo", "Eve"], "the order and the filter stay"
    expect(page.get_by_text("Row t must predict token t+1.").first).to_be_visible()
    assert not studio.workspace.exists(), "a teacher gets no workspace"
    assert page.request.get(f"{studio.base}/problems/07").status == 404


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1920, "light"), (1920, "dark")])
def test_one_file_on_any_screen(browser: Browser, store: Store, tmp_path: Path, width: int, scheme: str):
    file, requests = tmp_path / "summary.html", list[str]()
    results = Results(store.folder)
    records = [record for record in results.records() if record.learner != "Eve"]
    file.write_text(class_page.document(summary.summarize(records, results.unused())), encoding="utf-8")
    results.close()
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: requests.append(message.text))
    page.goto(file.as_uri())
    arranged(page)
    page.locator("summary").filter(has_text="100%").click()
    expect(page.locator("mark").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert requests == [file.as_uri()]
    context.close()
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    assert axe(page) == []
    context.close()


def test_one_file_without_scripts(browser: Browser, store: Store, tmp_path: Path):
    file = tmp_path / "summary.html"
    file.write_text(class_page.document(summary.of(store)), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    expect(page.get_by_label("Show learners with")).to_be_hidden()
    page.locator("#table").get_by_role("link", name="Bo").click()
    expect(page.get_by_text("Row t must predict token t+1.").first).to_be_visible()
    context.close()


def test_a_folder_without_results(grade, tmp_path: Path):
    (tmp_path / "results").mkdir()
    run = grade("web", "--class", "results", "--no-browser")
    assert (run.code, run.out) == (2, "")
    assert "results contains no results; run `grade batch` first." in json.dumps(run.err)
