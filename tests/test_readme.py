"""The commands and the output in the README, and the tables in docs/, are true."""

import re

import pytest

from tests.conftest import ROOT, Grade

TEXT = (ROOT / "README.md").read_text()
SHOWN = re.findall(r"```sh\n([^\n]+)\n```\n\n```text\n(.*?)\n```", TEXT, re.DOTALL)


def test_the_first_command_prints_the_output_shown(grade: Grade):
    command, output = SHOWN[0]
    run = grade(*command.split(".venv/bin/grade ")[1].split(), cwd=ROOT)
    assert run.out.strip() == output.strip()
    assert run.code == 1


def test_the_number_of_tests_is_true(request: pytest.FixtureRequest):
    command, output = SHOWN[1]
    assert command.endswith(".venv/bin/python -m pytest -q -n 2 --dist worksteal")
    if {item.path for item in request.session.items} != set((ROOT / "tests").rglob("test_*.py")):
        pytest.skip("needs the whole suite")
    shown = sum(int(number) for number in re.findall(r"\d+", output))  # passed, and skipped without torch
    assert len(request.session.items) == shown


def test_every_command_mentioned_exists(grade: Grade):
    commands = set(re.findall(r"(?:`|bin/)grade (\w+)", TEXT)) - {"problem"}
    known = grade("--help").out
    assert {"start", "show", "hint", "list"} <= commands
    for command in commands:
        assert f"  {command} " in known, command


def test_links_resolve():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), (page.name, link)


@pytest.mark.parametrize(("package", "page"), [("grader", "design.md"), ("harness", "harness.md")])
def test_the_table_of_modules_is_complete_and_true(package: str, page: str):
    listed = set()
    for row in re.findall(r"^\| (.*) \|$", (ROOT / "docs" / page).read_text(), re.MULTILINE):
        room = re.match(r"`(?:\./)?(\w*/)?`", row)
        listed |= {f"{(room and room[1]) or ''}{file}" for file in re.findall(r"`([\w/]+\.py)`", row)}
    modules = (path.relative_to(ROOT / package) for path in (ROOT / package).rglob("*.py"))
    assert listed - {"__main__.py"} == {str(path) for path in modules if path.name[0] != "_"}
