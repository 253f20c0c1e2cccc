"""A simulated learner: whatever happens in a year, on two machines, dates are those of FSRS and nothing is lost."""

import time
from datetime import UTC, date, datetime, timedelta

import pytest
from fsrs import Card, Rating, Scheduler
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.course import log
from grader.course.log import Entry
from grader.practice import reminders, schedule
from grader.practice.schedule import AGAIN, EASY, GOOD, HARD, RATINGS

NAMES = ("p01_token_embedding", "p02_causal_attention", "p07_next_token_loss")
START = datetime(2026, 1, 1, tzinfo=UTC)
IDEAS = ("", "", "no mask", "no scale", "wrong axis", "no shift")
# What a learner does, as in life: minutes since the last thing, the problem, and what happens.
ACTIONS = st.lists(
    st.tuples(
        st.integers(1, 60 * 24 * 40),
        st.sampled_from(NAMES),
        st.one_of(
            st.tuples(
                st.just("graded"), st.sampled_from(["PASS", "FAIL", "ERROR", "NOT ATTEMPTED"]), st.sampled_from(IDEAS)
            ),
            st.tuples(st.just("hints"), st.integers(1, 5), st.just("")),
            st.tuples(st.just("gave up"), st.just(0), st.just("")),
            st.tuples(st.just("reviewed"), st.sampled_from(list(RATINGS)), st.just("")),
            st.tuples(st.just("rated"), st.sampled_from(list(RATINGS)), st.just("")),
        ),
        st.booleans(),
    ),
    max_size=60,
)


def year(actions) -> tuple[list[Entry], list[Entry]]:
    """The logs of two machines after these actions."""
    at, logs, last = START, ([], []), {}
    for number, (minutes, name, (kind, value, idea), machine) in enumerate(actions):
        at += timedelta(minutes=minutes)
        facts = {
            "graded": {"verdict": value, "score": 6 if value == "PASS" else 2, "mistake": idea},
            "hints": {"count": value},
            "gave up": {},
            "reviewed": {"rating": value, "review_duration": 60_000},
            "rated": {"rating": value, "review": last.get(name, "")},
        }[kind]
        if kind == "reviewed" and name not in last:
            continue
        entry = Entry(f"{number:016x}", at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), kind, name, facts)
        if kind == "reviewed" or (kind == "graded" and value == "PASS" and name not in last):
            last[name] = entry.id
        logs[machine].append(entry)
    return logs


@settings(max_examples=60, deadline=None)
@given(ACTIONS)
def test_a_year(tmp_path_factory, actions):
    first, second = year(actions)
    both = tmp_path_factory.mktemp("space")
    (both / log.FILE).write_text("".join(entry.line() for entry in (*second, *first)))
    entries = log.read(both)
    assert {entry.id for entry in entries} == {entry.id for entry in (*first, *second)}, "nothing is lost"
    swapped = tmp_path_factory.mktemp("space")
    (swapped / log.FILE).write_text("".join(entry.line() for entry in (*first, *second)))
    found = schedule.memories(entries)
    assert found == schedule.memories(log.read(swapped)), "the order of the logs does not matter"
    passed = {entry.problem for entry in entries if entry.facts.get("verdict") == "PASS"}
    assert {name for name in found if found[name].reviews[0].first} <= passed
    assert passed <= set(found)
    fsrs = Scheduler(learning_steps=(), relearning_steps=(), enable_fuzzing=False)
    corrections = {entry.text("review"): entry.number("rating") for entry in entries if entry.kind == "rated"}
    for name, memory in found.items():
        card = Card(card_id=1)
        for review in memory.reviews:
            if review.id in corrections:
                assert review.rating == corrections[review.id]
            card, _ = fsrs.review_card(card, Rating(review.rating), review.at)
        assert memory.due == card.due.astimezone().date(), name
        assert memory.reviews == sorted(memory.reviews, key=lambda review: review.at)
    assert schedule.due(found.values(), date(2200, 1, 1)) == sorted(found.values(), key=lambda memory: memory.due)
    worked = sum(entry.kind in ("graded", "reviewed") for entry in entries)
    assert sum(reminders.days(entries).values()) == worked


def graded(number: int, verdict: str, mistake: str = "") -> Entry:
    facts = {"verdict": verdict, "score": 6 if verdict == "PASS" else 0, "mistake": mistake}
    return Entry(f"{number}", f"2026-03-01T10:{number:02}:00.000000Z", "graded", NAMES[0], facts)


def hints(number: int, count: int) -> Entry:
    return Entry(f"{number}", f"2026-03-01T10:{number:02}:00.000000Z", "hints", NAMES[0], {"count": count})


def first_rating(*entries: Entry) -> int:
    (review,) = schedule.reviews(entries)[NAMES[0]]
    return review.rating


def test_the_rating_follows_from_the_work():
    passes = graded(9, "PASS")
    assert first_rating(passes) == EASY
    assert first_rating(graded(1, "NOT ATTEMPTED"), passes) == EASY, "looking at the stub is no attempt"
    assert first_rating(graded(1, "FAIL"), passes) == GOOD
    assert first_rating(hints(1, 1), passes) == GOOD
    assert first_rating(graded(1, "FAIL", "no mask"), hints(2, 2), passes) == HARD
    gave_up = Entry("1", "2026-03-01T10:01:00.000000Z", "gave up", NAMES[0])
    assert first_rating(gave_up, passes) == AGAIN
    later = schedule.reviews([passes, graded(10, "FAIL", "no mask"), hints(11, 3)])[NAMES[0]]
    assert [review.rating for review in later] == [EASY], "what happens after the pass is no part of it"


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="this system has no time zones for a process")
def test_a_review_is_due_on_the_date_of_this_machine(monkeypatch: pytest.MonkeyPatch):
    """At 20:00 in Greenwich it is the next day in Auckland."""
    evening = Entry("1", "2026-03-01T20:00:00.000000Z", "graded", NAMES[0], {"verdict": "PASS", "score": 6})
    due = {}
    try:
        for zone in ("UTC", "Pacific/Auckland"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            due[zone] = schedule.memories([evening])[NAMES[0]].due
    finally:
        monkeypatch.undo()
        time.tzset()
    assert due["Pacific/Auckland"] - due["UTC"] == timedelta(days=1)


def test_a_memory_is_young_until_it_held():
    (memory,) = schedule.memories([graded(1, "FAIL"), graded(9, "PASS")]).values()
    assert (memory.form, memory.due) == ("core", date(2026, 3, 3))
    (memory,) = schedule.memories([graded(9, "PASS")]).values()
    assert memory.form == "whole"


def test_the_calendar_names_each_month_that_has_room(monkeypatch):
    """December begins in its second column, so November has no name there."""
    monkeypatch.setattr(log, "now", lambda: datetime(2026, 11, 29, 12, tzinfo=UTC))
    months = reminders.calendar_text([], 80)[0].split()
    assert months == "Dec Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov".split()


def test_the_calendar_ends_today():
    weeks = reminders.calendar([graded(1, "PASS")], date(2026, 3, 4))
    assert (len(weeks), weeks[-1][-1][0], weeks[0][0][0].weekday()) == (53, date(2026, 3, 4), 0)
    assert weeks[-2][-1] == (date(2026, 3, 1), 1)
    assert sum(count for week in weeks for _, count in week) == 1
