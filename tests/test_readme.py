"""What the README shows is what happens."""

import re

import pytest

from tests.conftest import ROOT, Grade

TEXT = (ROOT / "README.md").read_text()
SHOWN = re.findall(r"```sh\n([^\n]+)\n```\n\n```text\n(.*?)\n```", TEXT, re.DOTALL)


def test_the_first_command_prints_what_is_shown(grade: Grade):
    command, output = SHOWN[0]
    run = grade(*command.split(".venv/bin/grade ")[1].split(), cwd=ROOT)
    assert run.out.strip() == output.strip()
    assert run.code == 1


def test_the_number_of_tests_is_what_is_shown(request: pytest.FixtureRequest):
    command, output = SHOWN[1]
    assert command.endswith(".venv/bin/python -m pytest -q")
    if {item.path for item in request.session.items} != set((ROOT / "tests").rglob("test_*.py")):
        pytest.skip("a part of the suite was asked for")
    shown = sum(int(number) for number in re.findall(r"\d+", output))  # passed, and skipped without torch
    assert len(request.session.items) == shown


def test_every_command_that_is_named_exists(grade: Grade):
    commands = set(re.findall(r"(?:`|bin/)grade (\w+)", TEXT)) - {"problem"}
    known = grade("--help").out
    assert {"start", "show", "hint", "list"} <= commands
    for command in commands:
        assert f"  {command} " in known, command


def test_links_lead_somewhere():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), (page.name, link)


@pytest.mark.parametrize(("folder", "page"), [("grader", "design.md"), ("harness", "harness.md")])
def test_every_module_stands_in_the_page_on_its_folder(folder: str, page: str):
    table = (ROOT / "docs" / page).read_text()
    modules = [path.name for path in (ROOT / folder).iterdir() if path.suffix == ".py" and path.name[0] != "_"]
    folders = [f"{path.parent.name}/" for path in (ROOT / folder).glob("*/__init__.py")]
    assert [name for name in modules + folders if f"`{name}`" not in table] == []
