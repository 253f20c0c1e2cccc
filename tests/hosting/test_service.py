"""Handing in: who, when, how often; and that nothing is lost, received twice, or somebody else's."""

import http.client
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.batch import hand_ins, intake
from grader.batch.faults import Faults
from grader.batch.records import Person
from grader.batch.store import Store
from grader.course import catalog
from grader.course.workspace import Workspace
from grader.hand_in import NotArrivedError, Outbox
from hosting.inbox import Inbox
from tests.hosting.conftest import PREFIX, Hub, hand_in, times

pytestmark = pytest.mark.fast

LEARNERS = ("ada", "bob")
P1, P3 = "p01_token_embedding", "p03_causal_mha"
Spaces = Callable[[str], Workspace]


def files(hub: Hub) -> dict[str, str]:
    """The texts that were handed in, by learner, problem and file."""
    return {
        "/".join((path.parts[-4], path.parts[-3], path.name)): path.read_text()
        for path in sorted(hub.of.hand_ins.glob("*/*/*/*"))
    }


def ask(hub: Hub, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=20)
    text = body if isinstance(body, bytes) else json.dumps(body)
    connection.request(method, PREFIX + path, text, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def test_the_receipt_and_the_folder_that_a_batch_reads(hub: Hub, workspace: Spaces):
    hub.of.deadlines.write_text("due: {01: 2099-01-02 23:59}\ntimezone: Europe/Berlin\n")
    before = datetime.now(UTC)
    (first,) = hand_in(workspace("ada"), hub.service("ada"), "01", "first = 1\n")
    (second,) = hand_in(workspace("ada"), hub.service("ada"), "01", "second = 1\n")
    hand_in(workspace("bob"), hub.service("bob"), "01", "third = 1\n")
    said = r"Attempt %d at problem 01, received [\d-]{10} [\d:]{8}, due 2099-01-02 23:59:00 \(Europe/Berlin\)\."
    assert re.fullmatch(said % 1, first)
    assert re.fullmatch(said % 2, second)
    received = times(hub.attempts("ada", "01"))
    assert before <= received[0] < received[1] <= datetime.now(UTC)
    found = intake.read(hub.of.hand_ins, None, Faults(hub.of.folder / "log"))
    assert [(item.learner, item.submission and item.submission.sources[P1]) for item in found.items] == [
        ("ada", "first = 1\n"),
        ("ada", "second = 1\n"),
        ("bob", "third = 1\n"),
    ]
    assert [item.submitted for item in found.items[:2]] == received


def test_a_late_attempt_and_one_after_the_problem_closed(hub: Hub, workspace: Spaces):
    hub.of.deadlines.write_text("due: {01: 2020-01-01, 02: 2020-01-01}\ncloses: {02: 2020-01-02}\n")
    (late,) = hand_in(workspace("ada"), hub.service("ada"), "01", "x = 1")
    (closed,) = hand_in(workspace("ada"), hub.service("ada"), "02", "x = 1")
    assert late.endswith("(UTC). It is late.")
    assert closed.endswith("(UTC). The problem has closed.")


def test_the_dates_are_those_of_the_learners_section(hub: Hub, workspace: Spaces):
    """The roster gives bob another name, which is the name of a user of the hub, too."""
    store = Store(hub.of.results)
    store.remember_intake([Person("Ada (a1)", ("a1", "ada"), (), "A"), Person("ada", ("b1", "bob"), (), "B")], [])
    store.close()
    hub.of.deadlines.write_text("due: {01: {A: 2099-01-01, B: 2099-02-02}}\nextensions: {b1: 1 day}\n")
    due = [hand_in(workspace(user), hub.service(user), "01", "x = 1")[0].partition(", due ")[2] for user in LEARNERS]
    assert [text[:10] for text in due] == ["2099-01-01", "2099-02-03"]


def test_imported_modules_come_with_the_file(hub: Hub, workspace: Spaces):
    space = workspace("ada")
    space.file(catalog.find("01")).write_text("x = 1\n")
    hand_in(space, hub.service("ada"), "03", "from p01_token_embedding import x\n")
    assert files(hub) == {
        f"ada/{P3}/{P1}.py": "x = 1\n",
        f"ada/{P3}/{P3}.py": "from p01_token_embedding import x\n",
    }


def test_nothing_is_lost_while_the_service_is_down(hub: Hub, workspace: Spaces):
    space, to = workspace("ada"), hub.service("ada")
    hub.stop()
    for text in ("first = 1", "second = 1"):
        with pytest.raises(NotArrivedError, match=r"The service of your class does not answer\."):
            hand_in(space, to, "01", text)
    outbox = Outbox(space, to)
    space.file(catalog.find("01")).write_text("not handed in")
    assert outbox.waiting() == {P1}
    hub.start()
    assert [sent.said[:23] for sent in outbox.send()] == ["Attempt 1 at problem 01", "Attempt 2 at problem 01"]
    assert outbox.waiting() == set()
    assert [path.read_text() for path in sorted(hub.of.hand_ins.glob("ada/*/*/*"))] == ["first = 1", "second = 1"]


def test_an_attempt_whose_answer_was_lost_is_received_once(hub: Hub, workspace: Spaces):
    attempt = {"problem": P1, "files": {P1: "x = 1"}}
    one = hub.service("ada").hand_in("a" * 32, attempt)
    hub.stop()
    hub.start()
    assert hub.service("ada").hand_in("a" * 32, attempt) == one
    assert len(hub.attempts("ada", "01")) == 1
    assert hub.service("bob").hand_in("a" * 32, attempt)["attempt"] == 1, "an id of another learner is another attempt"


def test_twenty_at_the_same_second_and_each_twice(hub: Hub):
    def one(number: int) -> str:
        attempt = {"problem": P1, "files": {P1: f"x = {number}"}}
        return str(hub.service(("ada", "bob")[number % 2]).hand_in(f"{number % 20:032x}", attempt)["received"])

    with ThreadPoolExecutor(20) as pool:
        received = [*pool.map(one, range(40))]
    assert received[:20] == received[20:]
    assert len(set(received)) == 20
    assert len([*hub.of.hand_ins.glob("*/*/*")]) == 20
    own = hub.attempts("ada", "01")
    assert [attempt["attempt"] for attempt in own] == [*range(1, 11)]
    assert times(own) == sorted(times(own))


def test_as_many_attempts_a_day_as_the_teacher_allows(hub: Hub, workspace: Spaces):
    hub.of.deadlines.write_text("due: 2099-01-01\nhand_in: {attempts_a_day: 2}\n")
    space, to = workspace("ada"), hub.service("ada")
    said = [hand_in(space, to, "01", f"x = {number}")[0] for number in range(3)]
    assert said[2] == "You have handed in 2 attempts at problem 01 today; hand in again tomorrow."
    assert Outbox(space, to).waiting() == set(), "what is refused is not sent again"
    assert len(hub.attempts("ada", "01")) == 2
    hand_in(space, to, "02", "x = 1")
    hub.service("ada").hand_in(hub.attempts("ada", "01")[0]["id"], {"problem": P1, "files": {P1: ""}})


def test_a_day_is_one_of_the_class_and_time_never_goes_back(tmp_path: Path):
    clock = iter(datetime(2026, 11, 2, 12, tzinfo=UTC) - timedelta(hours=hours) for hours in range(3))
    inbox = Inbox(tmp_path, lambda: next(clock))
    received = [inbox.receive("ada", P1, f"{n:032x}", {P1: ""}, lambda *_: None).received for n in range(3)]
    assert received == sorted(set(received))
    assert Inbox(tmp_path).all() == inbox.all()


def test_half_an_attempt_is_none(tmp_path: Path):
    """What a killed service leaves is removed at the next start, and no batch reads it."""
    (tmp_path / ".new-abc").mkdir()
    (tmp_path / ".new-abc" / f"{P1}.py").write_text("x = ")
    inbox = Inbox(tmp_path)
    assert (inbox.all(), [path.name for path in tmp_path.iterdir()]) == ([], [hand_ins.MARK])


def test_deadlines_with_a_mistake_lose_nothing(hub: Hub, workspace: Spaces):
    hub.of.deadlines.write_text("due: soon\n")
    (said,) = hand_in(workspace("ada"), hub.service("ada"), "01", "x = 1")
    assert said.startswith("Attempt 1 at problem 01, received ")
    with pytest.raises(NotArrivedError, match="soon is not a time"):
        hub.attempts("ada", "01")


@pytest.mark.parametrize("token", ["", "token-of-ada", "token ", "token token-of-eve", "Basic token-of-ada"])
def test_without_a_token_of_the_hub_nothing_is_received_or_told(hub: Hub, token: str):
    attempt = {"problem": P1, "files": {P1: "x = 1"}}
    for method, path in (("PUT", f"attempts/{'a' * 32}"), ("GET", f"attempts?problem={P1}")):
        status, text = ask(hub, method, path, attempt, Authorization=token)
        assert (status, text) == (403, '{"error":"Hand in from your own server on the hub."}')
    assert files(hub) == {}


def test_a_learner_is_only_themselves(hub: Hub):
    """Whatever the request says, the token says who it is; and nobody reads another one's attempts."""
    attempt = {"problem": P1, "files": {P1: "x = 1"}, "learner": "bob", "user": "bob"}
    headers = {"Authorization": "token token-of-ada", "X-Forwarded-User": "bob", "Cookie": "user=bob"}
    assert ask(hub, "PUT", f"attempts/{'a' * 32}?user=bob&learner=bob", attempt, **headers)[0] == 200
    assert [*files(hub)] == [f"ada/{P1}/{P1}.py"]
    assert hub.attempts("bob", "01") == []
    status, text = ask(hub, "GET", f"attempts?problem={P1}&user=ada", Authorization="token token-of-bob")
    assert (status, text) == (200, "[]")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        b'{"problem": "p01_token_embedding", "files": {"p01_token_embedding": "\\ud800"}}',
        {"problem": P1, "files": {P1: 3}},
        {"problem": P1, "files": {}},
        {"problem": P1, "files": {P1: "", "../../../evil": ""}},
        {"problem": P1, "files": {P1: "", "sitecustomize": ""}},
        {"problem": "../" + P1, "files": {"../" + P1: ""}},
        {"problem": P1, "files": {P1: "x" * ((1 << 20) + 1)}},
    ],
)
def test_what_is_no_attempt_is_refused(hub: Hub, body: object):
    status, _ = ask(hub, "PUT", f"attempts/{'a' * 32}", body, Authorization="token token-of-ada")
    assert (status, files(hub)) == (400, {})


@pytest.mark.parametrize("attempt_id", ["a", "A" * 32, "..%2f" + "a" * 32, "a" * 33])
def test_an_id_is_no_path(hub: Hub, attempt_id: str):
    attempt = {"problem": P1, "files": {P1: "x = 1"}}
    status, _ = ask(hub, "PUT", f"attempts/{attempt_id}", attempt, Authorization="token token-of-ada")
    assert (status in (400, 404), files(hub)) == (True, {})


def test_a_body_without_an_end_is_refused(hub: Hub):
    status, text = ask(hub, "PUT", f"attempts/{'a' * 32}", b" " * (5 << 20), Authorization="token token-of-ada")
    assert (status, text) == (413, '{"error":"An attempt has at most 4 MiB."}')


def test_a_file_that_is_no_text_stays_at_home(hub: Hub, workspace: Spaces):
    space = workspace("ada")
    space.file(catalog.find("01")).write_bytes(b"\0")
    with pytest.raises(UsageError, match="is a binary file"):
        Outbox(space, hub.service("ada")).put(catalog.find("01"))
