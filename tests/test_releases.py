"""The changelog, the versions and the public names are as `docs/maintaining.md` says."""

import ast
import inspect
import json
import re
import tomllib

import pytest
import yaml

from tests.conftest import ROOT

pytestmark = pytest.mark.fast

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
RELEASES = re.findall(r"^## ([\d.]+) \((\d{4}-\d\d-\d\d)\)\n(.*?)(?=^## |\Z)", CHANGELOG, re.MULTILINE | re.DOTALL)
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
AUDIENCES = ("Everyone", "Learners", "Teachers", "Authors", "Trainers")
MOST_LINES = 60


def test_the_changelog_has_a_short_dated_section_for_each_release():
    titles = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    dated = [f"{version} ({date})" for version, date, _ in RELEASES]
    assert titles in (dated, ["Unreleased", *dated])
    assert [date for _, date, _ in RELEASES] == sorted((date for _, date, _ in RELEASES), reverse=True)
    for version, _, text in RELEASES:
        assert len(text.rstrip().splitlines()) < MOST_LINES, version
        assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= {"Breaking", "Added", "Fixed"}, version


def test_the_changelog_says_who_is_concerned():
    for version, _, text in RELEASES:
        if version not in ("0.1.0", "0.2.0"):  # published without it
            audiences = re.findall(r"^- (?:\*\*(\w+):\*\*)?", text, re.MULTILINE)
            assert set(audiences) <= set(AUDIENCES), version


def test_every_file_names_the_version_of_the_newest_release():
    version, date, _ = RELEASES[0]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    extension = ROOT / "editors" / "vscode"
    lock = json.loads((extension / "package-lock.json").read_text(encoding="utf-8"))
    found = {
        "pyproject.toml": VERSION,
        "CITATION.cff": citation["version"],
        "package.json": json.loads((extension / "package.json").read_text(encoding="utf-8"))["version"],
        "package-lock.json": lock["version"],
        "package-lock.json, packages": lock["packages"][""]["version"],
    }
    assert set(found.values()) == {version}, found
    assert citation["date-released"] == date


@pytest.mark.parametrize("page", ["docs/notebooks.md", "editors/vscode/README.md"])
def test_file_names_on_pages_have_the_version(page: str):
    names = re.findall(r"gpt.kata-(\d+\.\d+\.\d+)", (ROOT / page).read_text(encoding="utf-8"))
    assert names == [VERSION]


@pytest.mark.parametrize("module", ["problem", "checks", "exhibits"])
def test_every_public_name_for_authors_has_a_docstring(module: str):
    tree = ast.parse((ROOT / "grader" / f"{module}.py").read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]
    nodes = [
        node for owner in (tree, *classes) for node in owner.body if isinstance(node, ast.ClassDef | ast.FunctionDef)
    ]
    public = [node for node in nodes if node.name[0] != "_"]
    assert public
    assert [node.name for node in public if not ast.get_docstring(node)] == []


def test_the_tools_for_probes_have_docstrings():
    from grader import authoring

    tools = {name: getattr(authoring, name) for name in authoring.__all__}
    own = {
        name: tool for name, tool in tools.items() if str(getattr(tool, "__module__", "")).startswith("grader")
    }  # the others are constants
    assert [name for name, tool in own.items() if not inspect.getdoc(tool)] == []
