"""The page for teachers: who gets it, how a browser signs in for it, and what it shows."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlencode

import pytest
import yaml

from commandline.problem_name import ProblemName
from grader.batch.results import Results
from grader.course.workspace import Workspace
from tests.hosting.conftest import Hub, Teacher, grade, hand_in, wait_until

pytestmark = pytest.mark.fast
Spaces = Callable[[str], Workspace]


def test_a_teacher_sees_what_was_handed_in(hub: Hub, workspace: Spaces, teacher: Teacher):
    hub.of.deadlines.write_text("due: 2099-01-01\ntimezone: Asia/Tokyo\n")
    hand_in(workspace("ada"), hub.service("ada"), "01", "x = 1")
    hand_in(workspace("bob"), hub.service("bob"), "02", "x = 1")
    status, headers, text = teacher.get("")
    assert (status, "2 attempts of 2 learners; 2 not graded yet." in text) == (200, True)
    assert "<td>ada</td><td>01</td><td>waits</td>" in text
    assert headers["Content-Security-Policy"].startswith("sandbox allow-forms allow-downloads; default-src 'none'")
    hub.of.deadlines.write_text("due: soon\n")
    assert "soon is not a time" in teacher.get("")[2]


def test_the_tables_and_no_secret(hub: Hub):
    hub.of.results.mkdir()
    for name in ("results.csv", "summary.html", "seed.txt", "results.sqlite"):
        (hub.of.results / name).write_text(name)
    (hub.of.results / "linked.csv").symlink_to(hub.of.results / "seed.txt")
    browser = Teacher(hub)
    browser.sign_in("teacher")
    assert browser.get("files/results.csv")[::2] == (200, "results.csv")
    status, headers, _ = browser.get("files/summary.html")
    assert (status, headers["Content-Security-Policy"].split(";")[0]) == (200, "sandbox allow-scripts")
    for name in ("seed.txt", "results.sqlite", "linked.csv", "..%2f..%2fdeadlines.yml", "%2e%2e/seed.txt"):
        assert browser.get(f"files/{name}")[0] == 404


def test_a_learner_does_not_see_it(hub: Hub):
    browser = Teacher(hub)
    browser.sign_in("ada")
    assert [browser.get(path)[0] for path in ("", "files/results.csv")] == [403, 403]
    assert Teacher(hub).get("files/results.csv")[0] == 403
    assert Teacher(hub).get("", Authorization="token token-of-teacher")[0] == 302, "a page is for browsers"
    forged = Teacher(hub)
    forged.cookies["hand-in-session"] = "token-of-teacher"
    assert forged.get("")[0] == 302


def test_a_sign_in_that_did_not_begin_here_is_refused(hub: Hub):
    """Somebody's link with a code of their own signs nobody in as them."""
    browser = Teacher(hub)
    assert browser.get("oauth_callback?code=code-of-teacher&state=")[0] == 403
    assert browser.get("oauth_callback?code=code-of-teacher&state=guessed")[0] == 403
    browser.get("")
    assert browser.get("oauth_callback?code=code-of-teacher&state=guessed")[0] == 403
    assert browser.get("")[0] == 302


@pytest.mark.parametrize(("scheme", "is_secure"), [("https", True), ("http", False)])
def test_the_cookies_are_secure_behind_tls(hub: Hub, scheme: str, is_secure: bool):
    _, headers, _ = Teacher(hub).get("", **{"X-Forwarded-Proto": scheme})
    cookie = headers["Set-Cookie"]
    assert ("HttpOnly" in cookie, "SameSite=lax" in cookie, "Secure" in cookie) == (True, True, is_secure)


def test_only_a_window_opens_the_page_and_no_page_can_be_read_by_a_script(teacher: Teacher):
    """Pages of learners' servers are of the same origin where `HUB_SUBDOMAINS` is not set."""
    assert teacher.get("", **{"Sec-Fetch-Mode": "navigate"})[0] == 200
    for mode in ("cors", "no-cors", "same-origin"):
        assert teacher.get("", **{"Sec-Fetch-Mode": mode})[0] == 403


def test_a_learner_reads_a_sentence_in_place_of_the_page(hub: Hub):
    learner = Teacher(hub)
    learner.sign_in("ada")
    said = "This page is for teachers, and 'ada' is not one of this hub's HUB_TEACHERS."
    assert learner.get("", Accept="text/html")[::2] == (403, f"{said}\n")


@pytest.mark.parametrize("action", ["regrade", "extend", "send", "roster"])
def test_a_form_is_only_that_of_a_teachers_page(hub: Hub, teacher: Teacher, action: str):
    cookie = "; ".join(f"{name}={value}" for name, value in teacher.cookies.items())
    values = {"learner": "ada", "problems": "01", "problem": "01", "time": "9 weeks", "because": "mine", "course": "1"}
    for secret in ({}, {"form": ""}, {"form": "guessed"}, {"form": teacher.cookies["hand-in-session"]}):
        status, _, _ = teacher.ask("POST", action, urlencode({**values, **secret}), Cookie=cookie)
        assert status == 403
    learner = Teacher(hub)
    learner.sign_in("ada")
    assert learner.get("")[0] == 403, "a learner gets no secret"
    assert {path.name for path in hub.of.folder.iterdir()} <= {"hand-ins", "grading.log", ".batch"}


def test_more_time_moves_the_due_date_and_leaves_the_teachers_file_alone(hub: Hub, workspace: Spaces, teacher: Teacher):
    text = "# mine\ndue: {01: 2099-01-02 23:59, 02: 2099-01-02}\nextensions: {Ada: {01: 1 day, 02: 3 days}}\n"
    hub.of.deadlines.write_text(text)
    status, page = teacher.send("extend", learner="ada", problems="01", time="1 week", because="ill: see \u2028mail")
    assert (status, "ada has 1 week more for problem 01. Nobody called ada has handed in so far" in page) == (303, True)
    assert "<td>Ada</td><td>01</td><td>7 days</td><td>2099-01-09 23:59:00</td>" in page
    (said,) = hand_in(workspace("ada"), hub.service("ada"), "01", "x = 1")
    assert "due 2099-01-09 23:59:00" in said
    (said,) = hand_in(workspace("ada"), hub.service("ada"), "02", "x = 1")
    assert "due 2099-01-05 23:59:59" in said, "what the teacher wrote for another problem still holds"
    teacher.send("extend", learner="ada", problems="all", time="0 days", because="a mistake")
    teacher.send("extend", learner="ada", problems="01", time="2 days", because="less")
    assert hub.of.rules().due_for(["ada"], "p01_token_embedding").day == 4
    assert hub.of.deadlines.read_text() == text
    (first, *_) = yaml.safe_load(hub.of.extensions.read_text())
    assert (first["by"], first["because"]) == ("teacher", "ill: see \\u2028mail")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"learner": " "}, "Name the learner who gets more time."),
        ({"time": "long"}, "long is not a duration, such as 15 minutes"),
        ({"problems": "999"}, "extension of ada: "),
        ({"because": ""}, "Say why, for the record."),
    ],
)
def test_more_time_that_cannot_be_given(hub: Hub, teacher: Teacher, values: dict[str, str], sentence: str):
    hub.of.deadlines.write_text("due: 2099-01-01\n")
    good = {"learner": "ada", "problems": "01", "time": "1 day", "because": "ill"}
    assert sentence in teacher.send("extend", **{**good, **values})[1]
    assert not hub.of.extensions.exists()


def test_four_assistants_at_once_lose_nothing(hub: Hub, workspace: Spaces):
    hub.of.deadlines.write_text("due: 2099-01-01\n")
    work = [(learner, label) for learner in ("ada", "bob") for label in ("01", "02", "03", "04")]
    for learner, label in work:
        hand_in(workspace(learner), hub.service(learner), label, "x = 1")
    for label in ("01", "02", "03", "04"):
        grade(hub, label, ada=1, bob=1)
    assistants = [Teacher(hub) for _ in range(4)]
    for one in assistants:
        one.sign_in("teacher")
    secrets = [one.secret() for one in assistants]

    def decide(number: int) -> int:
        learner, label = work[number]
        fields = {"form": secrets[number % 4], "learner": learner, "because": f"reason {number}"}
        extension, regrade = {"problems": label, "time": f"{number} days"}, {"problem": label}
        return sum(
            assistants[number % 4].ask("POST", action, urlencode({**fields, **values}))[0]
            for action, values in (("extend", extension), ("regrade", regrade))
        )

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(decide, range(len(work)))] == [606] * len(work)
    given = {
        (learner, label): time.days for learner, own in hub.of.rules().extensions.items() for label, time in own.items()
    }
    assert given == {one: number for number, one in enumerate(work)}
    wait_until(lambda: not list(hub.of.regrades.iterdir()))
    with closing(Results(hub.of.results)) as results:
        asked = {(one.learner, ProblemName(one.problem).label): one.because for one in results.regrades()}
    assert asked == {one: f"reason {number} (teacher)" for number, one in enumerate(work)}


def test_what_a_teacher_asks_to_grade_again_is_in_the_results_before_the_next_batch(
    hub: Hub, workspace: Spaces, teacher: Teacher
):
    for learner in ("ada", "bob"):
        hand_in(workspace(learner), hub.service(learner), "01", "x = 1")
    grade(hub, "01", ada=3, bob=4)
    page = teacher.send("regrade", problem="02", because="why not")[1]
    assert "Everybody has handed in nothing for problem 02" in page
    assert "<td>ada</td><td>01</td><td>FAIL, 3 of 6</td>" in page
    hub.stop()  # a request outlives the service
    hub.start()
    teacher.sign_in("teacher")
    teacher.send("regrade", problem="01", because="a wrong check")
    teacher.send("regrade", learner="ada", problem="01", because="asked in person")
    hub.stop()
    hub.start()
    wait_until(lambda: not list(hub.of.regrades.iterdir()))
    with closing(Results(hub.of.results)) as results:
        assert [(one.learner, one.because, one.verdict_after) for one in results.regrades()] == [
            ("ada", "a wrong check (teacher)", None),
            ("bob", "a wrong check (teacher)", None),
        ], "a second request changes nothing until the first is done"
        assert len(results.to_regrade()) == 2


def test_a_request_without_results_is_done(hub: Hub, workspace: Spaces, teacher: Teacher):
    hand_in(workspace("ada"), hub.service("ada"), "01", "x = 1")
    teacher.send("regrade", learner="ada", problem="01", because="early")
    wait_until(lambda: not list(hub.of.regrades.iterdir()))
