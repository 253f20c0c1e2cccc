"""The extension for VS Code, as far as plain Node runs it: types, bundle, and what it reads of `grade`."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from grader.editors import language_server
from tests.conftest import ROOT, Grade
from tests.studio.conftest import missing

EXTENSION = ROOT / "editors" / "vscode"
MANIFEST = json.loads((EXTENSION / "package.json").read_text())


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None or not (EXTENSION / "node_modules" / "typescript").is_dir():
        missing("the packages of the extension are not installed: run `npm ci` in editors/vscode")
    return found


def test_its_types_are_right(node: str):
    subprocess.run([node, "node_modules/typescript/bin/tsc"], cwd=EXTENSION, check=True, timeout=120)


def test_it_is_one_file_that_reads_what_grade_lists(node: str, grade: Grade, tmp_path: Path):
    """The bundle needs nothing but VS Code. Its own tests also read a list that `grade` has just printed."""
    bundle = tmp_path / "bundle"
    subprocess.run([node, "build.js", bundle], cwd=EXTENSION, check=True, timeout=120)
    text = (bundle / "extension.cjs").read_text()
    assert len(text) < 600_000
    assert "vscode-languageclient 11" in (bundle / "licenses.txt").read_text()
    listed = tmp_path / "listed.json"
    listed.write_text(grade("list", "--json").out)
    run = subprocess.run(
        [node, "--test", "--test-reporter=tap", bundle / "course.test.js"],
        env={**os.environ, "LISTED": str(listed)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert "# skipped 0" in run.stdout
    assert int(run.stdout.partition("# pass ")[2].split()[0]) >= 6


def test_its_commands_are_those_of_the_language_server():
    of_server = {
        getattr(language_server, name).removeprefix("gpt-kata.") for name in ("HINT", "PLAY", "PAGE", "REPORT", "TRY")
    }
    commands = {each["command"].removeprefix("gptKata.") for each in MANIFEST["contributes"]["commands"]}
    assert commands == {*of_server, "refresh"}
    assert not MANIFEST["capabilities"]["untrustedWorkspaces"]["supported"], "it runs what the workspace names"


def test_the_lock_file_pins_all_packages_and_names_no_registry():
    packages = json.loads((EXTENSION / "package-lock.json").read_text())["packages"]
    assert packages["node_modules/vscode-languageclient"]["version"].startswith("11.")
    assert all("integrity" in package and "resolved" not in package for name, package in packages.items() if name)
