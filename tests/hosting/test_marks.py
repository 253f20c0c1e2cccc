"""From a result to the gradebook of a course: whose mark it is, when it is sent, and what a teacher sees otherwise."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from grader.batch import marks as batch_marks
from grader.course.workspace import Workspace
from hosting.lti import claims as names
from hosting.lti import outbox
from tests.hosting.conftest import Hub, Teacher, class_of_a_course, grade, gradebook, hand_in, wait_until
from tests.hosting.lti.platform import LearningPlatform

pytestmark = pytest.mark.fast
Spaces = Callable[[str], Workspace]


@pytest.fixture
def hub(tmp_path: Path, platform: LearningPlatform, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A class whose gradings are what `grade` stores, and to which ada and bob came from their course."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr(outbox, "_SOONEST", 0.05)
    with class_of_a_course(tmp_path / "class", platform) as hub:
        yield hub


@pytest.fixture
def handed_in(hub: Hub, workspace: Spaces) -> None:
    """Both have handed in 01, and have a result."""
    for user in ("ada", "bob"):
        hand_in(workspace(user), hub.service(user), "01", f"x = '{user}'")
    grade(hub, "01", ada=3, bob=6)


def look(hub: Hub) -> None:
    """The service looks what there is to do, as it does each minute."""
    service = hub.app.state.service
    hub.loop.call_soon_threadsafe(service.grading.wake)


@pytest.mark.usefixtures("handed_in")
def test_marks_arrive_after_a_grading_and_follow_a_regrade(
    hub: Hub, platform: LearningPlatform, workspace: Spaces, teacher: Teacher
):
    look(hub)
    wait_until(lambda: gradebook(platform) == {"ada": 3, "bob": 6})
    wait_until(lambda: "2 sent to the course, 0 not." in teacher.get("")[2])
    grade(hub, "01", ada=6)
    look(hub)
    wait_until(lambda: gradebook(platform) == {"ada": 6, "bob": 6})
    assert len(platform.sent) == 3
    hub.stop()
    hub.start()
    hand_in(workspace("ada"), hub.service("ada"), "01", "x = 'worse'")
    grade(hub, "01", ada=1)
    hub.of.deadlines.write_text("due: {01: 2020-01-01}\npenalty: 10%\nexcused: {bob: 01}\n")
    grade(hub, "01", ada=2)
    look(hub)
    wait_until(lambda: gradebook(platform) == {"ada": 0, "bob": 6})
    assert len(platform.sent) == 4, "a restart sends nothing again, and an excuse sends nothing"


@pytest.mark.usefixtures("handed_in")
def test_a_mark_that_a_teacher_decided_is_sent(hub: Hub, platform: LearningPlatform):
    batch_marks.decide(hub.of.results, "ada", "01", "5", "shown in person")
    look(hub)
    wait_until(lambda: gradebook(platform) == {"ada": 5, "bob": 6})


def test_marks_wait_for_a_teacher_who_wants_to_send_them(
    hub: Hub, platform: LearningPlatform, workspace: Spaces, teacher: Teacher
):
    hub.of.deadlines.write_text("due: 2099-01-01\nhand_in: {before_due: nothing}\n")
    hand_in(workspace("ada"), hub.service("ada"), "01", "x = 1")
    grade(hub, "01", ada=3)
    look(hub)
    row = "<td>ada</td><td>01</td><td>3 of 6</td><td>held</td><td></td>"
    wait_until(lambda: row in teacher.get("")[2])
    assert platform.sent == []
    assert "1 mark to send." in teacher.send("send")[1]
    wait_until(lambda: gradebook(platform) == {"ada": 3})
    grade(hub, "01", ada=4)
    look(hub)
    wait_until(lambda: "4 of 6" in teacher.get("")[2])
    assert gradebook(platform) == {"ada": 3}
    hub.of.deadlines.write_text("due: 2099-01-01\nhand_in: {send_marks: after_grading}\n")
    look(hub)
    wait_until(lambda: gradebook(platform) == {"ada": 4})


@pytest.mark.usefixtures("handed_in")
def test_a_mark_that_was_refused_is_listed_with_what_to_do(hub: Hub, platform: LearningPlatform, teacher: Teacher):
    platform.users["ada"].status = "Inactive"
    look(hub)
    wait_until(lambda: "<td>failed</td>" in teacher.get("")[2])
    page = teacher.get("")[2]
    assert "User not found in course or is not a student" in page
    assert "<td>The learner has left the course. Enroll them again, or do nothing.</td>" in page
    platform.users["ada"].status = "Active"
    teacher.send("send")
    wait_until(lambda: gradebook(platform) == {"ada": 3, "bob": 6})


def other(hub: Hub, **changes: Any) -> dict[str, Any]:
    assert hub.platform
    return hub.platform.claims("ada", "n") | changes


WRONG = (
    ({"sub": "bob"}, "The hub does not name this user by the platform&#39;s id, &#39;bob&#39;."),
    ({"sub": "someone", "email": "ada"}, "Set the hub&#39;s `username_key` to &#34;sub&#34;."),
    ({"iss": "https://lms.example.com"}, "The launch is for another tool."),
    ({names.DEPLOYMENT: "of another school"}, "The deployment &#39;of another school&#39; is not known here."),
)


def test_nobody_gets_the_mark_of_another(hub: Hub, platform: LearningPlatform, workspace: Spaces, teacher: Teacher):
    """Whatever the hub was configured to call somebody, a mark goes to the user of that id, or nowhere."""
    for number, (changes, why) in enumerate(WRONG):
        hub.claims["ada"] = other(hub, **changes)
        hand_in(workspace("ada"), hub.service("ada"), "01", f"x = {number}")
        wait_until(lambda why=why: why in teacher.get("")[2])
    hub.claims["ada"] = other(hub, **{names.ROLES: ["Instructor"]})
    for user in ("ada", "bob"):
        hand_in(workspace(user), hub.service(user), "01", f"x = '{user}'")
    grade(hub, "01", ada=3, bob=6)
    look(hub)
    wait_until(lambda: gradebook(platform) == {"bob": 6})
    hub.claims["ada"] = other(hub)
    hub.stop()
    hub.start()
    wait_until(lambda: gradebook(platform) == {"ada": 3, "bob": 6})


def test_a_hub_that_does_not_say_who_somebody_is_is_asked_again(
    hub: Hub, platform: LearningPlatform, workspace: Spaces, teacher: Teacher
):
    hub.claims["ada"] = HTTPException(503, "The Hub does not answer, so some marks wait.")
    hub.claims["bob"] = None
    for user in ("ada", "bob"):
        hand_in(workspace(user), hub.service(user), "01", f"x = '{user}'")
    grade(hub, "01", ada=3, bob=6)
    wait_until(lambda: "The Hub does not answer, so some marks wait." in teacher.get("")[2])
    hub.claims["ada"] = other(hub)
    page = teacher.send("send")[1]
    assert "bob: This user did not sign in from a course." in page
    wait_until(lambda: gradebook(platform) == {"ada": 3})


def test_the_class_list_comes_from_the_course(hub: Hub, workspace: Spaces, teacher: Teacher):
    hand_in(workspace("ada"), hub.service("ada"), "01", "x = 1")
    wait_until(lambda: "Replace roster.csv by the members of Language models" in teacher.get("")[2])
    (course,) = hub.app.state.service.marks.tool.enrollments.courses()
    assert "roster.csv has 3 learners of Language models." in teacher.send("roster", course=str(course.id))[1]
    assert '"ada","Ada Lovelace"' in hub.of.roster.read_text(encoding="utf-8-sig")
    assert teacher.send("roster", course="99")[0] == 404


def test_the_tool_is_below_the_service(hub: Hub, teacher: Teacher):
    status, _, text = teacher.get("lti/keys")
    assert (status, '"kid"' in text) == (200, True)
