"""The log of progress: whatever happens to it, no entry is lost, and the logs of two machines merge as sets."""

import json
import os
import resource
import signal
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commandline.errors import UsageError
from grader.course import log
from grader.course.log import FILE, OLD, Entry, Progress
from grader.course.workspace import Workspace
from tests.forked import ROOT

NAMES = ("p01_token_embedding", "p02_causal_attention")
TIMES = st.datetimes().map(lambda time: time.strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27))
FACTS = st.one_of(
    st.tuples(
        st.just("graded"),
        st.fixed_dictionaries(
            {
                "verdict": st.sampled_from(["PASS", "FAIL", "ERROR", "NOT ATTEMPTED"]),
                "score": st.integers(0, 6),
                "digest": st.sampled_from(["", "a", "b"]),
                "mistake": st.sampled_from(["", "no mask", "no scale"]),
            }
        ),
    ),
    st.tuples(st.just("hints"), st.fixed_dictionaries({"count": st.integers(1, 5)})),
    st.tuples(st.just("gave up"), st.just({})),
)
ENTRIES = st.lists(
    st.builds(
        lambda id_, at, problem, kind: Entry(id_, at, kind[0], problem, kind[1]),
        st.uuids().map(lambda uuid: uuid.hex[:16]), TIMES, st.sampled_from(NAMES), FACTS,
    ),
    unique_by=lambda entry: entry.id,
)  # fmt: skip
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def text_of(entries: list[Entry]) -> str:
    return "".join(entry.line() for entry in entries)


@QUICK
@given(ENTRIES)
def test_what_is_written_is_read_back_in_order_of_time(tmp_path_factory, entries):
    folder = tmp_path_factory.mktemp("space")
    for entry in entries:
        log.append(folder, entry)
    assert log.read(folder) == sorted(entries, key=lambda entry: (entry.at, entry.id))


@QUICK
@given(ENTRIES, st.data())
def test_two_machines_merge_in_any_way_to_the_same(tmp_path_factory, entries, data):
    """Each machine has some of the entries, and both may have the same one."""
    mine, yours = (
        data.draw(st.lists(st.sampled_from(entries), unique_by=lambda each: each.id) if entries else st.just([]))
        for _ in "12"
    )
    union = {entry.id: entry for entry in [*mine, *yours]}
    expected = sorted(union.values(), key=lambda entry: (entry.at, entry.id))
    conflict = f"<<<<<<< HEAD\n{text_of(mine)}=======\n{text_of(yours)}>>>>>>> other\n"
    for text in (text_of(mine) + text_of(yours), text_of(yours) + text_of(mine), conflict):
        folder = tmp_path_factory.mktemp("space")
        (folder / FILE).write_text(text)
        assert log.read(folder) == expected
        assert Workspace(folder).progress() == log.by_problem(expected)
    folder = tmp_path_factory.mktemp("space")
    (folder / FILE).write_text(text_of(mine))
    (folder / ".progress (conflicted copy).jsonl").write_text(text_of(yours))
    assert log.read(folder) == expected


@QUICK
@given(ENTRIES, st.integers(0, 10_000), st.binary(max_size=30))
def test_a_write_that_was_cut_off_costs_at_most_itself(tmp_path_factory, entries, cut, garbage):
    folder = tmp_path_factory.mktemp("space")
    whole = text_of(entries).encode()
    cut = min(cut, len(whole))
    (folder / FILE).write_bytes(whole[:cut] + garbage.replace(b"{", b""))
    new = log.entry("hints", NAMES[0], count=3)
    log.append(folder, new)
    kept = log.read(folder)
    before = whole[:cut].count(b"\n")
    assert new in kept
    assert {entry.id for entry in entries[:before]} <= {entry.id for entry in kept}


@QUICK
@given(ENTRIES)
def test_progress_is_the_best_so_far_and_the_last(entries):
    ordered = sorted(entries, key=lambda entry: (entry.at, entry.id))
    for name, progress in log.by_problem(ordered).items():
        graded = [each for each in ordered if each.problem == name and each.kind == "graded"]
        assert progress.score == max([each.number("score") for each in graded], default=0)
        assert progress.last_verdict == (graded[-1].text("verdict") if graded else "")
        assert set(progress.mistakes) == {each.text("mistake") for each in graded} - {""}
        assert progress.hints == max(
            [each.number("count") for each in ordered if each.problem == name and each.kind == "hints"], default=0
        )


def test_the_same_score_again_counts():
    """The first attempt may have no points, and a text that passes replaces the one that passed before."""

    def graded(minute: int, **facts: object) -> Entry:
        return Entry(f"{minute}", f"2026-03-01T10:{minute:02}:00.000000Z", "graded", NAMES[0], facts)

    nothing = graded(1, verdict="FAIL", score=0)
    first, second = (graded(minute, verdict="PASS", score=6, digest=text) for minute, text in ((2, "a"), (3, "b")))
    assert log.by_problem([nothing])[NAMES[0]].attempted
    progress = log.by_problem([nothing, first, second])[NAMES[0]]
    assert (progress.digest, progress.passed_at) == ("b", "2026-03-01T10:03+00:00")
    worse = graded(4, verdict="FAIL", score=5)
    assert log.by_problem([nothing, first, second, worse])[NAMES[0]].digest == "b"


def test_an_old_file_is_taken_over_whole(tmp_path):
    row = {"verdict": "PASS", "score": 6, "hints": 2, "given_up": True, "last_verdict": "FAIL", "last_score": 1,
           "digest": "abc", "passed_at": "2026-03-01T10:11+00:00", "versions": "jax 0.9"}  # fmt: skip
    old = {"course": "smoothing", "pages": {NAMES[0]: "123"}, "problems": {NAMES[0]: row}, "schema": 1}
    (tmp_path / OLD).write_text(json.dumps(old))
    space = Workspace(tmp_path)
    before = space.progress(), space.course
    assert before == ({NAMES[0]: Progress(**row)}, "smoothing")
    assert [path.name for path in tmp_path.iterdir()] == [OLD], "reading writes nothing"
    log.append(tmp_path, log.entry("hints", NAMES[1], count=1))
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert space.progress() == {NAMES[0]: Progress(**row), NAMES[1]: Progress(hints=1)}
    assert space.course == "smoothing"
    assert {entry.day.year for entry in space.entries() if entry.kind == "taken"} == {2026}


def test_two_machines_that_take_over_the_same_file_agree(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / OLD).write_text(json.dumps({"problems": {NAMES[0]: {"verdict": "FAIL", "score": 2}}}))
        log.append(tmp_path / name, log.entry("gave up", NAMES[0]))
    both = tmp_path / "both"
    both.mkdir()
    (both / FILE).write_text((tmp_path / "one" / FILE).read_text() + (tmp_path / "two" / FILE).read_text())
    assert sorted(entry.kind for entry in log.read(both)) == ["gave up", "gave up", "taken"]


APPEND_MANY = """import sys
from pathlib import Path
from grader.course import log
_, folder, name, number = sys.argv
for count in range(50):
    log.append(Path(folder), log.entry("hints", name, count=int(number) * 50 + count))
"""


def test_commands_at_once_lose_nothing(tmp_path):
    (tmp_path / OLD).write_text(json.dumps({"problems": {NAMES[1]: {"verdict": "FAIL", "score": 2}}}))
    command = [sys.executable, "-c", APPEND_MANY, str(tmp_path), NAMES[0]]
    started = [subprocess.Popen([*command, str(number)], cwd=ROOT) for number in range(4)]
    assert [each.wait() for each in started] == [0] * 4
    assert {entry.number("count") for entry in log.read(tmp_path) if entry.kind == "hints"} == set(range(200))
    assert Workspace(tmp_path).progress()[NAMES[1]].score == 2


def test_a_full_disk_loses_nothing(tmp_path):
    """A limit of the file's size cuts the write off, as a full disk does."""
    first = log.entry("hints", NAMES[0], count=1)
    log.append(tmp_path, first)
    size = (tmp_path / FILE).stat().st_size
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, before[1][1]))
    try:
        with pytest.raises(UsageError, match="cannot be written"):
            log.append(tmp_path, log.entry("hints", NAMES[0], count=2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before[1])
        signal.signal(signal.SIGXFSZ, before[0])
    assert (tmp_path / FILE).stat().st_size == size + 20
    last = log.entry("hints", NAMES[0], count=3)
    log.append(tmp_path, last)
    assert log.read(tmp_path) == [first, last]


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), os.mkdir])
def test_a_log_that_is_no_regular_file_is_named(tmp_path, make):
    make(tmp_path / FILE)
    assert log.read(tmp_path) == []
    with pytest.raises(UsageError, match=r"\.progress\.jsonl is a "):
        log.append(tmp_path, log.entry("gave up", NAMES[0]))


def test_what_changes_nothing_is_noted_once_a_day(tmp_path):
    from grader.course import catalog

    space, problem = Workspace(tmp_path), catalog.find("01")
    for _ in range(3):
        space.remember(problem, verdict="FAIL", score=2)
    assert len(space.entries()) == 1
    space.remember(problem, verdict="FAIL", score=2, mistake="rows counted from 1")
    assert len(space.entries()) == 2
