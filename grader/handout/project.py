"""The project file and the license of a copy of the course, also where the course is installed without its
repository."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution

import tomli_w

from grader.errors import CourseError
from grader.paths import ROOT

DISTRIBUTION = "gpt-kata"
PROJECT_FILE = "pyproject.toml"
_SCRIPTS = "console_scripts"  # the group of entry points that a project file calls `scripts`
LICENSE = "LICENSE"
BUILD_SYSTEM = {"requires": ["uv_build>=0.8,<1"], "build-backend": "uv_build"}
_EXTRA = re.compile(r";.*\bextra\s*==")
_ONLY_EXTRA = re.compile(r"(.+?)\s*;\s*extra\s*==\s*['\"](.+?)['\"]")
_FOR_DEVELOPERS = "dev"  # the extra that a copy does not offer


@dataclass(frozen=True)
class Metadata:
    """The metadata that a copy of the course takes over. `entry_points` maps each group to the entry points in it, by
    name."""

    version: str
    requires_python: str
    dependencies: Sequence[str]
    extras: Mapping[str, Sequence[str]]
    scripts: Mapping[str, str]
    entry_points: Mapping[str, Mapping[str, str]]


def in_repository() -> bool:
    """Returns whether the course runs from its repository, or from another folder with a project file."""
    return (ROOT / PROJECT_FILE).is_file()


def metadata() -> Metadata:
    """Returns the metadata in the repository's project file, else in the installed distribution. Raises CourseError."""
    if in_repository():
        project = tomllib.loads((ROOT / PROJECT_FILE).read_text(encoding="utf-8"))["project"]
        return Metadata(
            project["version"], project["requires-python"], project["dependencies"],
            _for_users(project.get("optional-dependencies", {})), project["scripts"], project["entry-points"],
        )  # fmt: skip
    installed = _installed()
    groups: dict[str, dict[str, str]] = {}
    for entry in installed.entry_points:
        groups.setdefault(entry.group, {})[entry.name] = entry.value
    dependencies = [requirement for requirement in installed.requires or [] if not _EXTRA.search(requirement)]
    extras: dict[str, list[str]] = {}
    for match in filter(None, map(_ONLY_EXTRA.fullmatch, installed.requires or [])):
        extras.setdefault(match[2], []).append(match[1])
    scripts = groups.pop(_SCRIPTS, {})
    return Metadata(
        installed.version, installed.metadata["Requires-Python"], dependencies, _for_users(extras), scripts, groups
    )


def _for_users(extras: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    return {name: packages for name, packages in extras.items() if name != _FOR_DEVELOPERS}


def project_file(packages: Sequence[str], beside: str = "") -> str:
    """Returns the project file of a copy with these packages. Its wheel also contains the folder `beside`."""
    course = metadata()
    return tomli_w.dumps({
        "build-system": BUILD_SYSTEM,
        "project": {
            "name": DISTRIBUTION,
            "version": course.version,
            "requires-python": course.requires_python,
            "dependencies": list(course.dependencies),
            "optional-dependencies": course.extras,
            "scripts": _of(course.scripts, packages),
            "entry-points": {
                group: chosen for group, points in course.entry_points.items() if (chosen := _of(points, packages))
            },
        },
        "tool": {"uv": {"build-backend": {
            "module-root": "", "module-name": sorted(packages), **({"data": {"purelib": beside}} if beside else {}),
        }}},
    })  # fmt: skip


def _of(entries: Mapping[str, str], packages: Sequence[str]) -> dict[str, str]:
    """Returns the entry points that lead to these packages."""
    return {name: entry for name, entry in entries.items() if entry.split(".")[0] in packages}


def license_text() -> str:
    """Returns the text of the license. Raises CourseError if it is missing."""
    if in_repository():
        return (ROOT / LICENSE).read_text(encoding="utf-8")
    text = _installed().read_text(f"licenses/{LICENSE}")
    if text is None:
        raise CourseError(f"The installed {DISTRIBUTION} has no license file; reinstall the course.")
    return text


def _installed() -> Distribution:
    try:
        return distribution(DISTRIBUTION)
    except PackageNotFoundError:
        raise CourseError(
            f"{ROOT} has no {PROJECT_FILE}, and {DISTRIBUTION} is not installed; reinstall the course."
        ) from None
