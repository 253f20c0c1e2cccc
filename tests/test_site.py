"""The book: built without a network, every page whole, formulas and hints in it, and nothing fetched from elsewhere."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grader.course import catalog, page
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "NO_PROXY": "*"}
    done = subprocess.run(build, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", catalog.names())
def test_every_section_is_there(name: str, site: Path):
    problem = catalog.load(name)
    html = (site / name / "index.html").read_text()
    for title in page.SECTIONS:
        assert f'id="{title.lower().replace(" ", "-")}"' in html
    assert html.count("<summary>Hint ") == len(page.hints(problem))
    assert html.count("<math") == page.page_text(problem).count("```math")
    assert "```" not in re.sub(r"<code>.*?</code>", "", html, flags=re.DOTALL)


def test_the_navigation_follows_the_parts(site: Path):
    html = (site / "index.html").read_text()
    titles = list(dict.fromkeys(catalog.part_of(problem) for problem in catalog.problems()))
    places = [html.index(title) for title in titles]
    assert places == sorted(places)
    for problem in catalog.problems():
        assert f"{problem.label} · {problem.title}" in html


def test_nothing_is_fetched_from_elsewhere(site: Path):
    for file in site.rglob("*.html"):
        fetched = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', file.read_text())
        assert fetched == []


def test_search_finds_a_page(site: Path):
    index = json.loads((site / "search" / "search_index.json").read_text())
    assert any("decay_steps" in entry["text"] and entry["location"].startswith("p10") for entry in index["docs"])
