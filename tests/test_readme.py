"""The commands and the output in the README and in docs/learn.md, and the tables in docs/, are true."""

import re

import pytest

from grader.course import catalog
from grader.course.scaffold import TEMPLATE
from tests.conftest import ROOT, Grade

TEXT = (ROOT / "README.md").read_text()
LEARN = (ROOT / "docs" / "learn.md").read_text()
SHOWN = re.findall(r"```sh\n([^\n]+)\n```\n\n```text\n(.*?)\n```", LEARN, re.DOTALL)


def test_the_readme_is_read_in_three_minutes():
    assert len(TEXT.split()) <= 700


def test_the_sample_attempt_prints_the_output_shown(grade: Grade):
    ((command, output),) = SHOWN
    assert command.removeprefix("grade ") in TEXT
    run = grade(*command.split()[1:], cwd=ROOT)
    assert run.out.strip() == output.strip()
    assert run.code == 1


def test_the_command_for_the_tests_is_the_one_that_ci_runs():
    commands = [line for line in TEXT.splitlines() if "-m pytest -q" in line]
    assert commands[0].endswith(".venv/bin/python -m pytest -q -n 3 --dist worksteal")
    assert "grep -m1 -- '-m pytest -q' README.md" in (ROOT / ".ci" / "run").read_text()


def test_every_command_mentioned_exists(grade: Grade):
    commands = set(re.findall(r"(?:`|bin/|^)grade (\w[\w-]*)", TEXT + LEARN, re.MULTILINE)) - {"problem"}
    known = grade("--help").out
    assert {"start", "show", "book", "hint", "list"} <= commands
    for command in commands:
        assert f"  {command} " in known, command


def test_links_resolve():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert "://" in link or (page.parent / link).exists(), (page.name, link)


def test_the_table_of_the_parts_names_their_problems():
    listed: dict[str, list[int]] = {}
    for problem in catalog.problems():
        listed.setdefault(catalog.part_of(problem), []).append(problem.number)
    rows = re.findall(r"^\| (.+?) \| ([\d, to]+) \| .+ \|$", LEARN.partition("## The problems")[2], re.MULTILINE)
    ranges = {title: [re.findall(r"\d+", each) for each in numbers.split(",")] for title, numbers in rows}
    assert {
        title: [number for ends in some for number in range(int(ends[0]), int(ends[-1]) + 1)]
        for title, some in ranges.items()
    } == {title: sorted(numbers) for title, numbers in listed.items()}


PAGES = {
    "grader": "design.md",
    "harness": "harness-design.md",
    "hosting": "hosting.md",
    "hosting/lti": "lti.md",
    "studio": "studio.md",
}


@pytest.mark.parametrize(("package", "page"), PAGES.items())
def test_the_table_of_modules_is_complete_and_true(package: str, page: str):
    listed = set()
    for row in re.findall(r"^\| (.*) \|$", (ROOT / "docs" / page).read_text(), re.MULTILINE):
        room = re.match(r"`(?:\./)?(\w*/)?`", row)
        listed |= {f"{(room and room[1]) or ''}{file}" for file in re.findall(r"`([\w/]+\.py)`", row)}
    elsewhere = {TEMPLATE, *(ROOT / other for other in PAGES if other.startswith(f"{package}/"))}
    modules = (
        path.relative_to(ROOT / package) for path in (ROOT / package).rglob("*.py") if not elsewhere & {*path.parents}
    )
    assert listed - {"__main__.py"} == {str(path) for path in modules if path.name[0] != "_"}
