"""What the README shows is what happens."""

import re
import subprocess
import sys

from tests.conftest import ROOT, Grade

TEXT = (ROOT / "README.md").read_text()
SHOWN = re.findall(r"```sh\n([^\n]+)\n```\n\n```text\n(.*?)\n```", TEXT, re.DOTALL)


def test_the_first_command_prints_what_is_shown(grade: Grade):
    command, output = SHOWN[0]
    run = grade(*command.split(".venv/bin/grade ")[1].split(), cwd=ROOT)
    assert run.out.strip() == output.strip()
    assert run.code == 1


def test_the_number_of_tests_is_what_is_shown():
    command, output = SHOWN[1]
    assert command.endswith(".venv/bin/python -m pytest -q")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    shown = sum(int(number) for number in re.findall(r"\d+", output))  # passed, and skipped without torch
    assert re.findall(r"^(\d+) tests collected", done.stdout, re.MULTILINE) == [str(shown)]


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
