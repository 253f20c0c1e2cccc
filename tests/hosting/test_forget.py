"""A learner who is deleted from a class: nothing in its folder names them, and nobody else loses anything."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result

from grader.course.workspace import Workspace
from hosting.forget import main
from hosting.lti.database import Database
from hosting.lti.enrollments import Enrollments
from hosting.lti.tool import DATABASE, KEY
from tests.conftest import cli_runner
from tests.hosting.conftest import Hub, Teacher, class_of_a_course, grade, hand_in, wait_until
from tests.hosting.lti.platform import LearningPlatform

pytestmark = pytest.mark.fast
Spaces = Callable[[str], Workspace]


@pytest.fixture
def hub(tmp_path: Path, platform: LearningPlatform) -> Iterator[Hub]:
    """A class with a platform, to which ada and bob came from their course."""
    with class_of_a_course(tmp_path / "class", platform) as hub:
        yield hub


@pytest.fixture
def without_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Gradings are what `grade` stores, until this is undone."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        yield patch


def forget(hub: Hub, learner: str) -> Result:
    return cli_runner().invoke(main, [str(hub.of.folder), learner])


def test_nothing_names_a_learner_who_is_deleted(
    without_batches: pytest.MonkeyPatch, hub: Hub, platform: LearningPlatform, workspace: Spaces, teacher: Teacher
):
    for user in ("ada", "bob"):
        hand_in(workspace(user), hub.service(user), "01", f"x = '{user}'")
    grade(hub, "01", ada=3, bob=6)
    hub.loop.call_soon_threadsafe(hub.app.state.service.grading.wake)
    wait_until(lambda: len(platform.sent) == 2)
    for user in ("Ada", "bob"):
        teacher.send("extend", learner=user, problems="01", time="2 days", because="ill")
    assert "stop it first" in forget(hub, "ada").stderr, "the service runs"
    hub.stop()
    hub.of.regrades.mkdir(exist_ok=True)
    (hub.of.regrades / "1.json").write_text('{"learner": "ada", "problem": "p01", "by": "teacher", "because": "why"}')
    hub.of.log.write_text("ada: PASS")
    without_batches.undo()
    result = forget(hub, "ada")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("'ada' is deleted from ")
    left = [path for path in hub.of.folder.rglob("*") if path.name != KEY]
    assert [path for path in left if path.stem.casefold() == "ada"] == []
    files = [path for path in left if path.is_file()]
    assert [path for path in files if re.search(rb"\bada\b", path.read_bytes(), re.IGNORECASE)] == []
    with closing(Database(hub.of.lti / DATABASE)) as database:
        assert Enrollments(database).enrolled() == ["bob"]
    assert [path.parts[-4] for path in hub.of.hand_ins.glob("*/*/*/*.py")] == ["bob"]
    assert forget(hub, "ada").stderr.endswith("has no learner 'ada'; name one as in hand-ins/.\n")
    without_batches.setattr(sys, "executable", "/bin/false")
    hub.start()
    assert [one.learner for one in hub.app.state.service.inbox.all()] == ["bob"]
    assert hub.app.state.service.grading.waiting() == []
