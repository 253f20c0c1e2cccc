"""The members of a course as the roster of a class."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.batch import roster as rosters
from grader.batch.intake import Intake
from grader.batch.records import Person
from hosting.lti import claims as names
from hosting.lti import roster
from hosting.lti.launch import accepted
from hosting.lti.tool import Tool
from tests.grader.batch.conftest import table
from tests.hosting.lti.conftest import ONE_PLATFORM, folder_for, offline
from tests.hosting.lti.platform import LearningPlatform, User

pytestmark = pytest.mark.fast


@pytest.fixture
def tool(tmp_path: Path, platform: LearningPlatform) -> Iterator[Tool]:
    """A tool that user 17 has used, who is called Ada at the hub."""
    tool = offline(folder_for(tmp_path / "lti", platform))
    tool.enrollments.remember(accepted(platform.claims("17", "n"), tool.platforms), "ada")
    yield tool
    tool.close()


def write(tool: Tool, file: Path) -> int:
    (course,) = tool.enrollments.courses()
    return asyncio.run(roster.write(file, course, tool.services, tool.enrollments))


def test_it_has_the_active_learners_of_all_pages(tool: Tool, platform: LearningPlatform, tmp_path: Path):
    file = tmp_path / "roster.csv"
    file.write_text("username\nold\n")
    assert write(tool, file) == 3
    assert [tuple(row.values()) for row in table(file)] == [
        ("18", "Bob, =cmd()", "18@example.edu"),
        ("19", "Grace Hopper", "19@example.edu"),
        ("ada", "Ada Lovelace", "17@example.edu"),
    ]
    pages = [path for path in platform.asked if "member" in path or "names" in path]
    assert len(pages) == (3 if platform.system == "canvas" else 1)


def test_the_grader_knows_the_learners_of_the_roster(tool: Tool, tmp_path: Path):
    """Those who handed in, by the hub's name, and those who did not."""
    write(tool, tmp_path / "roster.csv")
    intake = Intake("folders", {"ada": Person("ada", ("ada",)), "19": Person("19", ("19",))}, [], [], [], [])
    enrollment = rosters.enroll(rosters.read(tmp_path / "roster.csv"), intake)
    assert sorted(enrollment.learner_of.values()) == ["19", "Bob, =cmd() (18)", "ada"]
    assert enrollment.notes == []


@ONE_PLATFORM
def test_a_name_that_would_be_a_formula_is_text(tool: Tool, platform: LearningPlatform, tmp_path: Path):
    platform.users["22"] = User("22", "=HYPERLINK(1)\u202e\n")
    write(tool, tmp_path / "roster.csv")
    names_ = [row["name"] for row in table(tmp_path / "roster.csv")]
    assert "'=HYPERLINK(1)\\u202e\\n" in names_


def test_a_list_that_is_not_whole_replaces_nothing(tool: Tool, platform: LearningPlatform, tmp_path: Path):
    file = tmp_path / "roster.csv"
    write(tool, file)
    before = file.read_text()
    platform.busy = 1
    with pytest.raises(UsageError, match=r"roster.csv was not replaced: 127.0.0.1 answers 429"):
        write(tool, file)
    platform.next_page = "http://localhost:1"
    with pytest.raises(UsageError, match="continues a list on another server"):
        write(tool, file)
    platform.next_page = ""
    for user in platform.users.values():
        user.status = "Inactive"
    with pytest.raises(UsageError, match="lists no learner of 'Language models'"):
        write(tool, file)
    assert file.read_text() == before


def test_a_platform_that_shows_no_members_is_named(tmp_path: Path, canvas: LearningPlatform):
    tool = offline(folder_for(tmp_path / "lti", canvas))
    claims = canvas.claims("17", "n")
    del claims[names.NAMES_AND_ROLES]
    tool.enrollments.remember(accepted(claims, tool.platforms), "ada")
    with pytest.raises(UsageError, match="canvas does not show this tool the members of 'Language models'"):
        write(tool, tmp_path / "roster.csv")
    tool.close()
