"""The changelog, the versions and the public names are as `docs/maintaining.md` says."""

import json
import re
import tomllib

import griffe
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


AUTHORING = [
    griffe.load(f"grader.{name}", search_paths=[ROOT])
    for name in ("problem", "checks", "task", "exhibits", "authoring")
]


@pytest.mark.parametrize("module", AUTHORING, ids=str)
def test_every_public_name_for_authors_is_documented(module: griffe.Module):
    assert [member.path for member in public(module) if not member.has_docstring] == []


@pytest.mark.parametrize("module", AUTHORING, ids=str)
def test_every_field_for_authors_is_documented(module: griffe.Module):
    for owner in public(module):
        if owner.is_class and "dataclass" in owner.labels:
            sections = owner.docstring.parse("google")
            named = [
                field.name for section in sections if section.kind.value == "attributes" for field in section.value
            ]
            own = {name: field for name, field in owner.attributes.items() if not field.inherited}
            fields = [name for name, field in own.items() if "property" not in field.labels]
            assert named == fields, owner.path


def public(module: griffe.Module) -> list[griffe.Object | griffe.Alias]:
    """The public names of a module, and the public methods and properties of its classes."""
    found = [member for member in module.members.values() if member.is_public and not member.is_module]
    methods = [
        part
        for owner in found
        if owner.is_class
        for part in owner.members.values()
        if part.name[0] != "_" and (part.is_function or "property" in part.labels)
    ]
    return [*found, *methods]
