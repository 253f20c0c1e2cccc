"""Marks on their way to Canvas and Moodle, in good and in bad conditions."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from grader.batch.gradebook import Assignment
from grader.course import catalog
from hosting.lti import claims as names
from hosting.lti import outbox
from hosting.lti.launch import accepted
from hosting.lti.outbox import Mark
from hosting.lti.tool import Tool
from tests.conftest import ROOT
from tests.hosting.lti.conftest import ONE_PLATFORM, folder_for, offline, run, served
from tests.hosting.lti.platform import COURSE, OTHER_COURSE, Entry, LearningPlatform, System, running

pytestmark = pytest.mark.fast

P01, P07 = (catalog.find(label).name for label in ("01", "07"))
MAXIMUM = catalog.find("01").points
RECEIVED = datetime(2026, 11, 28, 12, 30, tzinfo=UTC)


def enroll(tool: Tool, platform: LearningPlatform, **users: str) -> None:
    """Lets learners open a link in the course."""
    for learner, user in users.items():
        tool.enrollments.remember(accepted(platform.claims(user, "n"), tool.platforms), learner)


@pytest.fixture
def tool(tmp_path: Path, platform: LearningPlatform) -> Iterator[Tool]:
    """A tool whose learners are three users of the platform."""
    tool = offline(folder_for(tmp_path / "lti", platform))
    enroll(tool, platform, ada="17", bob="18", grace="19")
    yield tool
    tool.close()


def send(tool: Tool, times: int = 1) -> None:
    run(tool, *[tool.outbox.send] * times)


def states(tool: Tool) -> dict[tuple[str, str], str]:
    return {(mark.learner, mark.problem): mark.state for mark in tool.outbox.marks()}


def mark_of(tool: Tool, learner: str = "ada") -> Mark:
    (mark,) = [mark for mark in tool.outbox.marks() if mark.learner == learner]
    return mark


def in_the_gradebook(platform: LearningPlatform, problem: str = P01) -> dict[str, float]:
    return {user: entry.mark for user, entry in platform.column(problem).marks.items()}


def test_each_mark_goes_to_its_own_user_and_column(tool: Tool, platform: LearningPlatform):
    for learner, points in (("ada", 3), ("bob", 2.5), ("grace", 0)):
        assert tool.outbox.put(learner, P01, points, RECEIVED) == 1
    tool.outbox.put("ada", P07, 1, RECEIVED)
    send(tool)
    assert set(states(tool).values()) == {"sent"}
    assert in_the_gradebook(platform) == {"17": 3, "18": 2.5, "19": 0}
    assert in_the_gradebook(platform, P07) == {"17": 1}
    column = platform.column(P01)
    assert column.values == {
        "label": Assignment.of(catalog.find("01")).title, "scoreMaximum": MAXIMUM, "resourceId": P01, "tag": "gpt-kata",
    }  # fmt: skip
    score = platform.sent[0][1]
    assert score["submission"] == {"submittedAt": "2026-11-28T12:30:00.000+00:00"}
    assert abs(datetime.fromisoformat(score["timestamp"]) - datetime.now(UTC)) < timedelta(minutes=1)
    assert (score["scoreGiven"], score["scoreMaximum"], score["gradingProgress"]) == (3, MAXIMUM, "FullyGraded")


@ONE_PLATFORM
def test_one_token_and_one_search_serve_many_marks(tool: Tool, platform: LearningPlatform):
    for learner in ("ada", "bob", "grace"):
        tool.outbox.put(learner, P01, 1, RECEIVED)
    send(tool, 2)
    posted = [path for path in platform.asked if path.startswith("POST") and path.endswith("/scores")]
    assert len(posted) == 3
    assert len(platform.asked) == len(posted) + 3  # a token, the search for the column, its creation


@ONE_PLATFORM
def test_the_same_mark_is_sent_once(tool: Tool, platform: LearningPlatform):
    for _ in range(2):
        tool.outbox.put("ada", P01, 3, RECEIVED)
        send(tool)
    assert tool.outbox.put("ada", P01, 3, RECEIVED.astimezone()) == 0
    assert len(platform.sent) == 1


def test_the_last_of_several_marks_of_one_second_counts(tool: Tool, platform: LearningPlatform):
    """Moodle refuses a second score of the same second."""
    for points in (1, 2, 3, 2):
        tool.outbox.put("ada", P01, points, RECEIVED)
        send(tool)
    assert in_the_gradebook(platform) == {"17": 2}
    assert states(tool) == {("ada", P01): "sent"}
    assert len(platform.sent) == 4


@ONE_PLATFORM
def test_a_mark_that_was_not_sent_yet_is_replaced(tool: Tool, platform: LearningPlatform):
    for points in (1, 2, 3):
        tool.outbox.put("ada", P01, points, RECEIVED)
    send(tool)
    assert [score["scoreGiven"] for _, score in platform.sent] == [3]


@ONE_PLATFORM
def test_held_marks_wait_for_the_button(tool: Tool, platform: LearningPlatform):
    for learner in ("ada", "bob"):
        for problem in (P01, P07):
            tool.outbox.put(learner, problem, 3, RECEIVED, hold=True)
    send(tool)
    assert platform.asked == []
    assert tool.outbox.release(problem=P01) == 2
    send(tool)
    assert in_the_gradebook(platform) == {"17": 3, "18": 3}
    (course,) = tool.enrollments.courses()
    assert tool.outbox.release(course.id + 1) == 0
    assert tool.outbox.release(course.id) == 2
    send(tool)
    assert in_the_gradebook(platform, P07) == {"17": 3, "18": 3}


@ONE_PLATFORM
def test_somebody_who_opened_no_link_has_no_mark_to_send(tool: Tool):
    assert tool.outbox.put("nobody", P01, 3, RECEIVED) == 0
    assert tool.outbox.marks() == []


def test_a_learner_of_two_courses_has_the_mark_in_both(tool: Tool, platform: LearningPlatform):
    platform.users["17"].courses = (COURSE, OTHER_COURSE)
    other = platform.claims("17", "n") | {
        names.CONTEXT: {"id": OTHER_COURSE, "title": "Again"},
        names.ENDPOINT: {"scope": [*names.GRADE_SCOPES], "lineitems": platform.line_items(OTHER_COURSE)},
    }
    tool.enrollments.remember(accepted(other, tool.platforms), "ada")
    assert tool.outbox.put("ada", P01, 3, RECEIVED) == 2
    send(tool)
    assert [platform.column(P01, course).marks["17"].mark for course in (COURSE, OTHER_COURSE)] == [3, 3]


def test_the_platform_scales_to_its_own_maximum(tool: Tool, platform: LearningPlatform):
    platform.add_column(COURSE, resourceId=P01, label="of a teacher", scoreMaximum=100)
    tool.outbox.put("ada", P01, MAXIMUM / 2, RECEIVED)
    send(tool)
    assert in_the_gradebook(platform) == {"17": 50}


@ONE_PLATFORM
def test_an_assignment_comes_before_a_bare_column(tool: Tool, platform: LearningPlatform):
    for number in range(5):
        platform.add_column(COURSE, resourceId=f"{P01}x{number}", label="another", scoreMaximum=1)
    bare = platform.add_column(COURSE, resourceId=P01, label="bare", scoreMaximum=1)
    assignment = platform.add_column(COURSE, resourceId=P01, label="linked", scoreMaximum=1, resourceLinkId="31")
    tool.outbox.put("ada", P01, MAXIMUM, RECEIVED)
    send(tool)
    assert (len(assignment.marks), len(bare.marks)) == (1, 0)


def test_a_link_that_a_teacher_made_by_hand_has_its_own_column(tmp_path: Path, platform: LearningPlatform):
    tool = offline(folder_for(tmp_path / "lti", platform))
    column = platform.add_column(COURSE, label="by hand", scoreMaximum=MAXIMUM)
    claims = platform.claims("17", "n")
    claims[names.ENDPOINT]["lineitem"] = platform.address(column)
    tool.enrollments.remember(accepted(claims, tool.platforms), "ada")
    tool.outbox.put("ada", P01, 3, RECEIVED)
    send(tool)
    assert {user: entry.mark for user, entry in column.marks.items()} == {"17": 3}
    assert platform.columns == [column]
    tool.close()


@ONE_PLATFORM
def test_nothing_is_left_of_a_learner_who_is_forgotten(tool: Tool, platform: LearningPlatform):
    for learner in ("ada", "bob"):
        tool.outbox.put(learner, P01, 3, RECEIVED)
    tool.enrollments.forget("ada")
    send(tool)
    assert in_the_gradebook(platform) == {"18": 3}
    assert tool.enrollments.learners(platform.system) == {"18": "bob", "19": "grace"}
    assert tool.outbox.put("ada", P01, 3, RECEIVED) == 0
    enroll(tool, platform, again="17")


# Bad conditions


@ONE_PLATFORM
def test_a_token_that_fails_at_first(tool: Tool, platform: LearningPlatform):
    platform.failures = 1
    for learner in ("ada", "bob"):
        tool.outbox.put(learner, P01, 3, RECEIVED)
    send(tool)
    assert platform.asked == ["POST /token"]  # the other mark does not even try
    for mark in tool.outbox.marks():
        assert mark.state == "waiting"
        assert mark.due > time.time() + 10
        assert mark.reason.startswith(f"{platform.system} gives no access token: 127.0.0.1 answers 500")
    send(tool)
    assert len(platform.asked) == 1  # not before its time
    tool.outbox.release()
    send(tool)
    assert in_the_gradebook(platform) == {"17": 3, "18": 3}


def test_a_busy_platform_is_left_alone_as_long_as_it_asks(tool: Tool, platform: LearningPlatform):
    platform.busy = 1
    for learner in ("ada", "bob"):
        tool.outbox.put(learner, P01, 3, RECEIVED)
    send(tool, 3)
    assert len(platform.asked) == 2
    assert all(118 < mark.due - time.time() <= 120 for mark in tool.outbox.marks())
    assert "429" in mark_of(tool).reason
    tool.outbox.release()
    send(tool)
    assert in_the_gradebook(platform) == {"17": 3, "18": 3}


def test_a_lost_answer_to_a_score(tool: Tool, platform: LearningPlatform):
    """The platform took the score; it is sent again as it was, and changes nothing."""
    platform.loses = "/scores"
    tool.outbox.put("ada", P01, 3, RECEIVED)
    send(tool)
    assert mark_of(tool).state == "waiting"
    assert "127.0.0.1 does not answer" in mark_of(tool).reason
    tool.outbox.release()
    send(tool)
    assert mark_of(tool).state == "sent"
    assert mark_of(tool).tries == 2
    (_, first), (_, second) = platform.sent
    assert first == second
    assert in_the_gradebook(platform) == {"17": 3}


def test_a_lost_answer_to_a_new_column(tool: Tool, platform: LearningPlatform):
    platform.loses = "line_items$" if platform.system == "canvas" else "lineitems?"
    tool.outbox.put("ada", P01, 3, RECEIVED)
    send(tool)
    assert mark_of(tool).state == "waiting"
    tool.outbox.release()
    send(tool)
    assert in_the_gradebook(platform) == {"17": 3}
    assert len(platform.columns) == 1


def test_a_newer_mark_after_a_lost_answer(tool: Tool, platform: LearningPlatform):
    platform.loses = "/scores"
    tool.outbox.put("ada", P01, 3, RECEIVED)
    send(tool)
    tool.outbox.put("ada", P01, 1, RECEIVED)
    send(tool)
    assert in_the_gradebook(platform) == {"17": 1}
    assert mark_of(tool).state == "sent"


@ONE_PLATFORM
def test_a_platform_that_is_off(tool: Tool, platform: LearningPlatform):
    platform.server_close()
    platform.shutdown()
    tool.outbox.put("ada", P01, 3, RECEIVED)
    send(tool)
    assert mark_of(tool).state == "waiting"
    assert mark_of(tool).reason == "127.0.0.1 does not answer (ConnectError)"


@ONE_PLATFORM
def test_the_next_try_comes_later_each_time(tool: Tool, platform: LearningPlatform):
    platform.failures = 20
    tool.outbox.put("ada", P01, 3, RECEIVED)
    waits = []
    for _ in range(12):
        tool.outbox.release()
        send(tool)
        waits.append(round(mark_of(tool).due - time.time()))
    assert waits[:4] == [15, 30, 60, 120]
    assert waits == sorted(waits)
    assert waits[-1] == 3600


@ONE_PLATFORM
def test_an_access_token_that_the_platform_forgot(tool: Tool, platform: LearningPlatform):
    tool.outbox.put("ada", P01, 3, RECEIVED)
    send(tool)
    platform.tokens.clear()
    tool.outbox.put("bob", P01, 3, RECEIVED)
    send(tool)
    assert in_the_gradebook(platform) == {"17": 3, "18": 3}


def test_one_user_whom_the_platform_refuses_stops_nobody_else(tool: Tool, platform: LearningPlatform):
    platform.users["17"].status = "Inactive"
    for learner in ("ada", "bob"):
        tool.outbox.put(learner, P01, 3, RECEIVED)
    send(tool, 2)
    assert states(tool) == {("ada", P01): "failed", ("bob", P01): "sent"}
    why = "User not found in course" if platform.system == "canvas" else "Incorrect score received"
    assert why in mark_of(tool).reason
    assert len(platform.sent) == 2  # it is not tried again
    platform.users["17"].status = "Active"
    assert tool.outbox.release() == 1
    send(tool)
    assert in_the_gradebook(platform) == {"17": 3, "18": 3}


def test_a_deleted_column_is_listed_and_made_again_by_the_button(tool: Tool, platform: LearningPlatform):
    tool.outbox.put("ada", P01, 1, RECEIVED)
    send(tool)
    platform.columns.clear()
    tool.outbox.put("ada", P01, 3, RECEIVED)
    send(tool)
    assert mark_of(tool).state == "failed"
    assert "404" in mark_of(tool).reason
    tool.outbox.release()
    send(tool)
    assert in_the_gradebook(platform) == {"17": 3}


def test_a_mark_that_a_teacher_entered_stays(tool: Tool, platform: LearningPlatform):
    tool.outbox.put("ada", P01, 1, RECEIVED)
    send(tool)
    later = datetime.now(UTC) + timedelta(seconds=30)
    tool.outbox.put("ada", P01, 2, RECEIVED)
    platform.column(P01).marks["17"] = Entry(3, MAXIMUM, later, by_hand=True)
    send(tool)
    assert in_the_gradebook(platform) == {"17": 3}
    assert mark_of(tool).state == "failed"
    assert mark_of(tool).reason.startswith(f"the gradebook has 3 of {MAXIMUM} and takes no earlier mark")


def test_canvas_keeps_what_a_teacher_entered_also_where_the_time_is_right(tmp_path: Path, canvas: LearningPlatform):
    tool = offline(folder_for(tmp_path / "lti", canvas))
    enroll(tool, canvas, ada="17")
    canvas.add_column(COURSE, resourceId=P01, label="01", scoreMaximum=MAXIMUM)
    canvas.column(P01).marks["17"] = Entry(3, MAXIMUM, RECEIVED, by_hand=True)
    tool.outbox.put("ada", P01, 1, RECEIVED)
    send(tool)
    assert in_the_gradebook(canvas) == {"17": 3}
    tool.close()


def test_a_tool_that_may_not_read_results_says_what_the_platform_said(tmp_path: Path, moodle: LearningPlatform):
    tool = offline(folder_for(tmp_path / "lti", moodle))
    claims = moodle.claims("17", "n")
    claims[names.ENDPOINT]["scope"] = [names.LINE_ITEM, names.SCORE]
    tool.enrollments.remember(accepted(claims, tool.platforms), "ada")
    moodle.loses = "/scores"
    tool.outbox.put("ada", P01, 1, RECEIVED)
    for _ in range(2):
        send(tool)
        tool.outbox.release()
    assert "409 Refusing score with an earlier timestamp" in mark_of(tool).reason
    tool.close()


@pytest.mark.parametrize(
    ("scopes", "reason"),
    [
        ([names.LINE_ITEM_READ, names.SCORE], f"'Language models' has no column for {P01}, and"),
        ([], "gives this tool no access to the gradebook of 'Language models'"),
    ],
)
def test_a_tool_that_may_not_create_columns(scopes: list[str], reason: str, tmp_path: Path, platform: LearningPlatform):
    tool = offline(folder_for(tmp_path / "lti", platform))
    claims = platform.claims("17", "n")
    claims[names.ENDPOINT]["scope"] = scopes
    tool.enrollments.remember(accepted(claims, tool.platforms), "ada")
    tool.outbox.put("ada", P01, 1, RECEIVED)
    send(tool)
    assert reason in mark_of(tool).reason
    if scopes:
        platform.add_column(COURSE, resourceId=P01, label="of a teacher", scoreMaximum=MAXIMUM)
        tool.outbox.release()
        send(tool)
        assert in_the_gradebook(platform) == {"17": 1}
    tool.close()


# Attacks


def test_a_column_of_another_course_gets_no_mark(tool: Tool, platform: LearningPlatform):
    platform.users["17"].courses = (COURSE, OTHER_COURSE)
    other = platform.add_column(OTHER_COURSE, resourceId=P01, label="01", scoreMaximum=MAXIMUM)
    platform.column_of = OTHER_COURSE
    tool.outbox.put("ada", P01, 3, RECEIVED)
    send(tool)
    assert mark_of(tool).state == "failed"
    assert "which is not one of 'Language models'" in mark_of(tool).reason
    assert other.marks == {}
    assert platform.sent == []


def test_a_link_with_a_column_of_another_course_gets_no_mark(tmp_path: Path, platform: LearningPlatform):
    tool = offline(folder_for(tmp_path / "lti", platform))
    platform.users["17"].courses = (COURSE, OTHER_COURSE)
    other = platform.add_column(OTHER_COURSE, resourceId=P01, label="01", scoreMaximum=MAXIMUM)
    claims = platform.claims("17", "n")
    claims[names.ENDPOINT]["lineitem"] = platform.address(other)
    tool.enrollments.remember(accepted(claims, tool.platforms), "ada")
    tool.outbox.put("ada", P01, 3, RECEIVED)
    send(tool)
    assert "which is not one of 'Language models'" in mark_of(tool).reason
    assert platform.asked == []
    tool.close()


@ONE_PLATFORM
def test_a_list_that_continues_elsewhere_gets_no_token(
    tool: Tool, platform: LearningPlatform, moodle: LearningPlatform
):
    platform.next_page = moodle.url.replace("127.0.0.1", "localhost")
    tool.outbox.put("ada", P01, 3, RECEIVED)
    send(tool)
    assert "continues a list on another server, localhost" in mark_of(tool).reason
    assert moodle.asked == []


def test_services_at_an_unsafe_address_get_no_token(tmp_path: Path, canvas: LearningPlatform):
    tool = offline(folder_for(tmp_path / "lti", canvas))
    claims = canvas.claims("17", "n")
    claims[names.ENDPOINT]["lineitems"] = "http://lms.example.com/api/lti/courses/5/line_items"
    tool.enrollments.remember(accepted(claims, tool.platforms), "ada")
    tool.outbox.put("ada", P01, 3, RECEIVED)
    send(tool)
    assert "which is not an address with https://" in mark_of(tool).reason
    assert canvas.asked == []
    tool.close()


# Killed and restarted

SENDS = """
import asyncio, sys
from pathlib import Path
from tests.hosting.lti.conftest import offline
tool = offline(Path(sys.argv[1]))
asyncio.run(tool.outbox.send())
"""


@pytest.mark.parametrize(("system", "moment"), [("canvas", "line_items$"), ("moodle", "/scores")])
def test_killed_before_the_answer_none_is_lost_and_none_changes(system: System, moment: str, tmp_path: Path):
    with running(system) as platform:
        folder = folder_for(tmp_path / "lti", platform)
        tool = offline(folder)
        enroll(tool, platform, ada="17", bob="18")
        for learner, points in (("ada", 3), ("bob", 2)):
            tool.outbox.put(learner, P01, points, RECEIVED)
        tool.close()
        platform.loses, platform.holds = moment, True
        with subprocess.Popen([sys.executable, "-c", SENDS, folder], cwd=ROOT) as process:
            assert platform.held.wait(60)
            process.send_signal(signal.SIGKILL)
        tool = offline(folder)
        send(tool)
        assert states(tool) == {("ada", P01): "sent", ("bob", P01): "sent"}
        assert in_the_gradebook(platform) == {"17": 3, "18": 2}
        values = {(score["userId"], score["timestamp"], score["scoreGiven"]) for _, score in platform.sent}
        assert len(values) == 2  # whatever was sent twice was the same
        tool.close()


@ONE_PLATFORM
def test_marks_go_as_they_come_and_after_a_failure_without_anybody(
    tmp_path: Path, platform: LearningPlatform, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outbox, "_SOONEST", 0.02)
    with served(folder_for(tmp_path / "lti", platform), platform) as site:
        enroll(site.tool, platform, ada="17")
        platform.failures, platform.loses = 2, "/scores"
        for points in (1, 2, 3):
            site.tool.outbox.put("ada", P01, points, RECEIVED)
            deadline = time.monotonic() + 20
            while mark_of(site.tool).state != "sent" and time.monotonic() < deadline:
                time.sleep(0.01)
            assert in_the_gradebook(platform) == {"17": points}
    assert platform.failures == 0


def test_an_internal_error_is_logged_and_the_sender_lives(
    tmp_path: Path, canvas: LearningPlatform, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(outbox, "_SOONEST", 0.02)
    with served(folder_for(tmp_path / "lti", canvas), canvas) as site:
        enroll(site.tool, canvas, ada="17")
        works, failed = site.tool.services.send, []

        async def fails_once(*args: object) -> None:
            if not failed:
                failed.append(args)
                raise OSError("no space left on device")
            await works(*args)

        monkeypatch.setattr(site.tool.services, "send", fails_once)
        site.tool.outbox.put("ada", P01, 3, RECEIVED)
        deadline = time.monotonic() + 20
        while mark_of(site.tool).state != "sent" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert in_the_gradebook(canvas) == {"17": 3}
    assert "Marks could not be sent." in caplog.text
