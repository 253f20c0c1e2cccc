"""The book: built without a network, every page whole, drawings, formulas and hints in it, and nothing fetched from
elsewhere."""

import ast
import json
import re
from importlib import metadata
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from commandline.errors import UsageError
from grader.cli.book import book as command
from grader.course import book, catalog, drawing, page
from tests.conftest import ROOT, Grade, made_once
from tests.studio.conftest import axe, browser  # noqa: F401  (a fixture)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "book", book.build)


@pytest.mark.parametrize("name", catalog.names())
def test_every_section_is_there(name: str, site: Path):
    problem = catalog.load(name)
    html = (site / f"{name}.html").read_text()
    for title in page.SECTIONS:
        assert f'id="{title.lower().replace(" ", "-")}"' in html
    assert html.count("<summary>Hint ") == len(page.hints(problem))
    formulas = [line for block in page.FORMULAS.findall(page.page_text(problem)) for line in block.splitlines()]
    assert html.count("<math") == len(formulas)
    source = problem.folder / drawing.FILE
    assert not source.is_file() or drawing.render(name, source.read_text(encoding="utf-8")) in html
    assert "```" not in re.sub(r"<code>.*?</code>", "", html, flags=re.DOTALL)


def test_the_navigation_follows_the_parts(site: Path):
    html = (site / "index.html").read_text()
    titles = list(dict.fromkeys(catalog.part_of(problem) for problem in catalog.problems()))
    places = [html.index(title) for title in titles]
    assert places == sorted(places)
    for problem in catalog.problems():
        assert f"{problem.label} · {problem.title}" in html


def test_the_home_page_and_the_navigation_list_every_document(site: Path):
    html = (site / "index.html").read_text()
    documents = [path.stem for path in (ROOT / "docs").glob("*.md") if path.stem != "index"]
    for name in documents:
        assert html.count(f'href="{name}.html"') >= 2, name
    assert 0 < html.index("Tutorials") < html.index("How-to guides") < html.index("Explanation")


def test_the_authoring_reference_has_every_name_that_a_course_imports(site: Path):
    html = (site / "authoring.html").read_text()
    imported = {
        (node.module, alias.name)
        for folder in ("problems", "tasks")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("grader.")
        for alias in node.names
    }
    modules = {("grader.authoring", "stablehlo"), ("grader.authoring", "witness")}  # described by their own docstrings
    for module, name in imported - modules:
        assert f'id="{module}.{name}"' in html, name
    assert "The points that it is worth." in html
    assert "```" not in html


def test_the_words_of_a_page_lead_to_the_glossary_and_back(site: Path):
    words = (site / "glossary.html").read_text()
    used = {anchor for name in catalog.names() for anchor in _terms((site / f"{name}.html").read_text())}
    assert {"all-reduce", "residual-stream"} <= used
    assert [anchor for anchor in used if f'<strong id="{anchor}">' not in words] == []
    assert '<strong id="all-reduce">all-reduce</strong> (<a href="p47_collectives.html">47</a>)' in words
    assert 'href="glossary.html"' in (site / "index.html").read_text()


def _terms(html: str) -> list[str]:
    return re.findall(r'<a class="term" href="glossary\.html#([^"]+)">', html)


def test_the_book_ends_with_the_sources_of_all_pages(site: Path):
    html = (site / "sources.html").read_text()
    assert '<a href="https://arxiv.org/abs/1706.03762">arXiv 1706.03762</a>' in html
    for name in catalog.names():
        assert f'<a href="{name}.html#sources">' in html
    assert 'href="sources.html"' in (site / "index.html").read_text()


def test_nothing_is_fetched_from_elsewhere(site: Path):
    for file in site.rglob("*.html"):
        fetched = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', file.read_text())
        assert fetched == []


def test_it_has_no_programs_that_make_it(site: Path):
    assert [path for path in site.rglob("*") if path.suffix in (".py", ".pyc", ".mjs")] == []


def test_it_opens_from_disk(site: Path):
    html = (site / "index.html").read_text()
    for link in re.findall(r'<(?:a|script|link|img)[^>]+(?:src|href)="([^"#]+)', html):
        assert (site / link).is_file() or link.startswith("https:"), link
    script = (site / "search" / "search_index.js").read_text()
    index = json.loads(script.removeprefix("var __index = "))
    assert any(
        "decay_steps" in entry["text"] and entry["location"].startswith("p10_lr_schedule.html")
        for entry in index["docs"]
    )


def test_an_explorable_moves_in_a_page_from_disk(browser: Browser, site: Path):  # noqa: F811
    with browser.new_context() as context:
        page, errors = context.new_page(), list[str]()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((site / "p10_lr_schedule.html").as_uri())
        figure = page.locator("figure.explorable")
        for name in ("warmup_steps", "decay_steps"):
            figure.get_by_role("slider", name=name).press("End")
        expect(figure.locator("output")).to_contain_text("where the run ends, it is 0.550")
        figure.get_by_text("The numbers at some settings").click()
        expect(figure.get_by_role("cell", name="0.550")).to_have_count(3)
        expect(figure.locator("figcaption")).to_contain_text("What rate does the run end with?")
        assert axe(page) == []
    assert errors == []


def test_without_scripts_an_explorable_is_a_picture_a_question_and_numbers(browser: Browser, site: Path):  # noqa: F811
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto((site / "p02_causal_attention.html").as_uri())
        expect(page.locator("figure.explorable svg")).to_be_visible()
        expect(page.locator("figure.explorable + p")).to_contain_text("Divide their scores by 1")
        expect(page.get_by_role("cell", name="1.00, 0.99, 0.95, 0.93")).to_be_visible()
        expect(page.locator("figure.explorable input")).to_have_count(0)


def test_the_copy_button_copies_code_without_prompts_and_outputs(site: Path):
    html = (site / "p10_lr_schedule.html").read_text()
    first, *_ = re.findall(r'data-copy="([^"]*)"', html)
    assert "for step in (0, 2, 4, 8, 12, 1000):\n    print(f&quot;{step:4} {schedule(step):.5f}&quot;)\n" in first
    assert "0.55000" not in first


def test_without_its_extra_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    with pytest.raises(UsageError, match=r"`mkdocs-material` is missing: `.*pip install .*gpt-kata\[book\]'`\."):
        command.main(["--no-browser", "--out", str(tmp_path / "book")], standalone_mode=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_grade_book_builds_it_once(grade: Grade, tmp_path: Path):
    folder = tmp_path / "book"
    built = grade("book", "--no-browser", "--out", str(folder))
    assert (built.code, built.out) == (0, f"{folder / 'index.html'}\n")
    assert "end of life" not in built.err
    assert grade("book", "--no-browser", "--out", str(tmp_path)).code == 2
    first, again = (grade("book", "--no-browser") for _ in range(2))
    assert Path(first.out.strip()).is_file()
    assert again.out == first.out
    assert again.err == ""
