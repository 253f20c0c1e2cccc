"""Deadlines: what is late, what it costs, and which attempt counts."""

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commandline.errors import UsageError
from grader.batch import deadlines
from grader.batch.deadlines import Attempt, Deadlines, Settled
from tests.conftest import ROOT

pytestmark = pytest.mark.fast

P1, P2, P3 = "p01_token_embedding", "p02_causal_attention", "p03_causal_mha"
DUE = datetime(2026, 11, 2, 23, 59, tzinfo=UTC)
DAY = timedelta(days=1)
FILE = """
timezone: Europe/Berlin
due:
  01-02: 2026-11-02 23:59
  03: 2026-11-09
grace: 15 minutes
late_days: 2
penalty: 12.5%
extensions:
  ada: 2 days
  0017: {03: 1 week}
"""


def attempt(days: float | None, score: int = 8, problem: str = P1, number: int = 1, late: bool = False) -> Attempt:
    """An attempt so many days after DUE; without a time if None."""
    submitted = None if days is None else DUE + days * DAY
    return Attempt(problem, f"{problem} {number}", number, score, submitted, late)


def settle(
    *attempts: Attempt, best: bool = True, names: tuple[str, ...] = ("eve",), **rules: object
) -> dict[str, Settled]:
    return deadlines.settle(attempts, names, Deadlines(due={"": DUE}, **rules), best=best)  # type: ignore[arg-type]


def told(settled: Settled) -> tuple[str, float, str]:
    return settled.id, settled.adjusted, settled.lateness


def test_a_file(tmp_path: Path):
    path = tmp_path / "deadlines.yaml"
    path.write_text(FILE)
    rules = deadlines.read(path)
    assert (rules.grace, rules.late_days, rules.penalty) == (timedelta(minutes=15), 2, Fraction(1, 8))
    assert str(rules.due_for(["eve"], P1)) == "2026-11-02 23:59:00+01:00"
    assert str(rules.due_for(["eve"], P3)) == "2026-11-09 23:59:59.999999+01:00"
    assert rules.due_for(["eve"], "p07_next_token_loss") is None
    assert rules.due_for(["Ada Lovelace (ada)", "ada"], P1) == rules.due_for(["eve"], P1) + 2 * DAY
    assert rules.extension(["0017"], P3) == 7 * DAY
    assert rules.extension(["0017"], P1) == rules.extension(["15"], P3) == timedelta()


def test_the_file_that_the_manual_shows(tmp_path: Path):
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "classroom.md").read_text(), re.DOTALL)
    path = tmp_path / "deadlines.yaml"
    path.write_text(text)
    rules = deadlines.read(path)
    assert [str(rules.for_section(name).closes_for([], P2))[:10] for name in "AB"] == ["2026-11-23", "2026-11-25"]
    assert (rules.late_days_of(["ada"]), rules.is_excused(["eve"], P3)) == (5, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`due` is missing"),
        ("due: soon", "due: soon is not a time, such as 2026-11-02 23:59."),
        ("due: 2026-11-02\ngrade: 3", "`grade` is not a setting; the settings are timezone, due, grace"),
        ("due: 2026-11-02\ngrace: 15", "grace: 15 is not a duration, such as 15 minutes"),
        ("due: 2026-11-02\nlate_days: -1", "late_days: -1 is not a whole number"),
        ("due: 2026-11-02\npenalty: 0.1", "penalty: 0.1 is not a percentage"),
        ("due: 2026-11-02\npenalty: 101%", "penalty: 101% is not a percentage"),
        ("due: 2026-11-02\ntimezone: Berlin", "timezone: Berlin is not a time zone, such as Europe/Berlin."),
        ("due: {99: 2026-11-02}", "due: There is no problem '99'."),
        ("due: 2026-11-02\nextensions: ada", "extensions: write a line for each learner"),
        ("due: 2026-11-02\nextensions: {ada: long}", "extensions: ada: long is not a duration"),
        ("due: [", "are not valid YAML"),
        ("due: {01: {A: soon}}", "due: 01: A: soon is not a time"),
        ("due: {A: 2026-11-02}", "due: There is no problem 'A'."),
        ("due: 2026-11-02\ncloses: {02: later}", "closes: later is not a time"),
        ("due: 2026-11-02\ncloses: 2026-11-01", "closes: 2026-11-01 23:59 is before the due date, 2026-11-02 23:59."),
        ("due: 2026-11-02\ncloses: {02: {A: 2026-11-01}}", "closes: 02: A: 2026-11-01 23:59 is before the due date"),
        ("due: 2026-11-02\nlate_days: {ada: many}", "late_days: ada: many is not a whole number"),
        ("due: 2026-11-02\nexcused: ada", "excused: write a line for each learner, such as `ada: 01-03, or all`."),
        (
            "due: 2026-11-02\nexcused: {ada: {01: yes}}",
            "excused: ada: {'01': 'yes'} does not name problems, as 01-03 does.",
        ),
        ("due: 2026-11-02\nexcused: {ada: 99}", "excused: ada: There is no problem '99'."),
        (
            "due: 2026-11-02\nextensions: {ada: excused}",
            "is not a duration, such as 15 minutes, 12 hours or 2 days. Name who is",
        ),
    ],
)
def test_files_that_are_not_valid(tmp_path: Path, text: str, message: str):
    path = tmp_path / "deadlines.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        deadlines.read(path)
    assert message in str(error.value)
    with pytest.raises(UsageError, match="cannot be read"):
        deadlines.read(tmp_path / "nowhere.yaml")


MORE = """
- {learner: Ada, problems: 01-02, time: 1 week, by: trent, at: 2026-11-01, because: ill}
- {learner: bob, problems: all, time: 2 days}
- {learner: ADA, problems: 02, time: 3 days}
"""


def test_extensions_beside_the_file_take_the_place_of_earlier_ones(tmp_path: Path):
    path = tmp_path / "deadlines.yaml"
    path.write_text(FILE)
    (tmp_path / deadlines.EXTENSIONS).write_text(MORE)
    rules = deadlines.read(path)
    days = {
        (name, problem): rules.extension([name], problem).days for name in ("ada", "bob") for problem in (P1, P2, P3)
    }
    assert list(days.values()) == [7, 3, 2, 2, 2, 2]
    assert rules.extension(["0017"], P3).days == 7
    (tmp_path / deadlines.EXTENSIONS).write_text("")
    assert deadlines.read(path).extension(["ada"], P1).days == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- bob", "bob is not an extension, such as `- {learner: bob, problems: 01, time: 2 days}`."),
        ("bob: 2 days", "{'bob': '2 days'} is not an extension"),
        ("- {learner: bob, time: 2 days}", "is not an extension"),
        ("- {learner: bob, problems: 01, time: 2 days, until: tomorrow}", "is not an extension"),
        ("- {learner: bob, problems: 01, time: long}", "extension of bob: long is not a duration"),
        ("- {learner: bob, problems: 99, time: 1 day}", "extension of bob: There is no problem '99'."),
        ("- {learner: ", "The extensions "),
    ],
)
def test_extensions_that_are_not_valid(tmp_path: Path, text: str, message: str):
    path = tmp_path / "deadlines.yaml"
    path.write_text(FILE)
    (tmp_path / deadlines.EXTENSIONS).write_text(text)
    with pytest.raises(UsageError) as error:
        deadlines.read(path)
    assert message in str(error.value)
    assert deadlines.EXTENSIONS in str(error.value)


BY_SECTION = """
due:
  01: {A: 2026-11-02, B: 2026-11-04, others: 2026-11-09}
  02: {A: 2026-11-02}
closes: {01: 2026-11-16, 02: {A: 2026-11-05}}
late_days: {others: 3, ada: 5}
extensions: {bob: 1 week}
excused:
  ada: 02-03
  bob: all
"""


def test_a_file_with_sections_closing_dates_and_excuses(tmp_path: Path):
    path = tmp_path / "deadlines.yaml"
    path.write_text(BY_SECTION)
    rules = deadlines.read(path)

    def dates(section: str, *names: str) -> list[str]:
        own = rules.for_section(section)
        found = [of(names, problem) for problem in (P1, P2) for of in (own.due_for, own.closes_for)]
        return [f"{date:%m-%d}" if date else "" for date in found]

    assert dates("A") == ["11-02", "11-16", "11-02", "11-05"]
    assert dates("b") == ["11-04", "11-16", "", ""]
    assert dates("A and B") == dates("B; A") == ["11-04", "11-16", "11-02", "11-05"], "the later date of two sections"
    assert dates("C") == dates("") == ["11-09", "11-16", "", ""]
    assert dates("A", "bob") == ["11-09", "11-23", "11-09", "11-12"], "an extension moves both dates"
    assert (rules.late_days_of(["ADA"]), rules.late_days_of(["eve"])) == (5, 3)
    assert [rules.is_excused(["ada"], problem) for problem in (P1, P2, P3)] == [False, True, True]
    assert [rules.is_excused(["bob"], problem) for problem in (P1, P3)] == [True, True]
    assert not rules.is_excused(["eve"], P2)
    assert "due in A: 01, 02: 2026-11-02 23:59" in str(rules)
    assert "ada" not in str(rules)


def test_nothing_is_accepted_after_a_problem_has_closed():
    rules = dict(closes={"": DUE + 2 * DAY}, penalty=Fraction(1, 10), late_days=1)
    early, late, later = attempt(-1, score=3), attempt(1.5, number=2), attempt(2.1, score=9, number=3)
    for best in (True, False):
        settled = settle(late, later, best=best, **rules)[P1]
        assert told(settled) == (late.id, 7.2, "2 days late, 1 late day spent, 10% off")
        assert settled.times.endswith(", due 2026-11-02 23:59, closes 2026-11-04 23:59 (UTC)")
    assert settle(early, later, best=False, **rules)[P1].id == early.id
    alone = settle(later, attempt(2.5, number=4), attempt(1, problem=P2), **rules)
    assert told(alone[P1]) == (f"{P1} 4", 0, "not accepted, because it came after the problem closed")
    assert told(alone[P2]) == (f"{P2} 1", 8, "1 day late, 1 late day spent"), "no late day is spent on what is refused"
    assert settle(later, extensions={"eve": {"": DAY}}, **rules)[P1].adjusted > 0
    assert settle(attempt(None, late=True), **rules)[P1].adjusted == 8, "without a time, nothing shows when it came"


def test_what_a_learner_is_excused_from_takes_no_late_day():
    rules = dict(penalty=Fraction(1, 10), late_days=1, excused={"Eve": frozenset({"01"})}, closes={"01": DUE + DAY})
    settled = settle(attempt(2, score=8), attempt(1, score=5, problem=P2), **rules)
    assert (settled[P1].excused, settled[P1].adjusted, settled[P1].lateness) == (True, 8, "")
    assert (settled[P2].excused, settled[P2].adjusted) == (False, 5)


def test_lateness_and_its_price():
    rules = dict(grace=timedelta(minutes=15), penalty=Fraction(1, 10))
    for days, adjusted, late in [
        (-3, 8, ""), (0.01, 8, ""), (0.02, 7.2, "1 day late, 10% off"), (1, 7.2, "1 day late, 10% off"),
        (1.02, 6.4, "2 days late, 20% off"), (40, 0, "40 days late, 100% off"), (None, 8, ""),
    ]:  # fmt: skip
        assert told(settle(attempt(days), **rules)[P1]) == (f"{P1} 1", adjusted, late)
    marked = attempt(None, late=True)
    assert settle(marked, **rules)[P1].lateness == "marked as late by the course system, counted as 1 day, 10% off"
    assert settle(marked, **rules, extensions={"eve": {"": DAY}})[P1].adjusted == 8
    assert deadlines.settle([marked], ["eve"], None, best=True)[P1] == Settled(
        f"{P1} 1", 8, "marked as late by the course system"
    )
    in_berlin = Attempt(P1, "x", 1, 8, (DUE + timedelta(minutes=30)).replace(tzinfo=None))
    assert settle(in_berlin, timezone=deadlines.ZoneInfo("Europe/Berlin"))[P1].lateness == ""
    assert settle(in_berlin, timezone=UTC)[P1].lateness == "1 day late"


@pytest.mark.parametrize(
    ("due", "submitted", "days"),
    [
        ("2026-10-31 20:00", "2026-11-01 19:30", 1),  # 23.5 hours by the clock, 24.5 in truth
        ("2026-10-31 20:00", "2026-11-01 20:30", 2),
        ("2026-03-07 20:00", "2026-03-08 20:30", 1),  # 24.5 hours by the clock, 23.5 in truth
        ("2026-03-07 20:00", "2026-03-08 21:30", 2),
        ("2026-11-01 01:30", "2026-11-01 01:45", 1),
    ],
)
def test_a_day_is_over_when_24_hours_have_passed_and_the_clock_shows_the_due_hour(due: str, submitted: str, days: int):
    zone = deadlines.ZoneInfo("America/New_York")
    rules = Deadlines(zone, due={"": datetime.fromisoformat(due).replace(tzinfo=zone)})
    late = Attempt(P1, "x", 1, 8, datetime.fromisoformat(submitted).replace(tzinfo=zone).astimezone(UTC))
    assert rules.days_late(["eve"], late) == days
    assert rules.times(["eve"], late) == f"handed in {submitted}, due {due} (America/New_York)"


def test_names_are_compared_without_regard_to_case_and_to_how_an_umlaut_is_written():
    rules = Deadlines(due={"": DUE}, extensions={"M\u00fcller": {"": DAY}})
    assert rules.extension(["mu\u0308ller"], P1) == DAY


def test_late_days_are_shared_by_what_is_due_together_and_spent_where_they_count():
    rules = dict(penalty=Fraction(1, 2), late_days=2)
    both = settle(attempt(1.5), attempt(0.5, problem=P2), **rules)
    assert told(both[P1]) == (f"{P1} 1", 8, "2 days late, 2 late days spent")
    assert told(both[P2]) == (f"{P2} 1", 8, "1 day late, 1 late day spent")
    later = Deadlines(due={"01": DUE, "02": DUE + 7 * DAY}, **rules)  # type: ignore[arg-type]
    settled = deadlines.settle([attempt(1), attempt(9, problem=P2)], ["eve"], later, best=True)
    assert settled[P1].adjusted == 8
    assert told(settled[P2]) == (f"{P2} 1", 4, "2 days late, 1 late day spent, 50% off")
    nothing = [attempt(1, score=0), attempt(9, problem=P2)]
    assert deadlines.settle(nothing, ["eve"], later, best=True)[P2].adjusted == 8, "no late day is spent on 0 points"


def test_a_worse_attempt_never_erases_a_better_one_unless_asked():
    first, second = attempt(-1, score=8), attempt(0.5, score=9, number=2)
    rules = dict(penalty=Fraction(1, 2))
    assert told(settle(first, second, **rules)[P1]) == (first.id, 8, "")
    assert told(settle(first, second, late_days=1, **rules)[P1]) == (second.id, 9, "1 day late, 1 late day spent")
    assert settle(first, second, best=False, **rules)[P1].id == second.id
    assert settle(attempt(None), attempt(None, number=2))[P1].id == f"{P1} 2", "of equal ones the newest"


ATTEMPTS = st.lists(
    st.builds(
        attempt,
        st.none() | st.floats(-3, 9),
        st.integers(0, 10),
        st.sampled_from([P1, P2, P3]),
        st.integers(1, 3),
        st.booleans(),
    ),
    max_size=6,
    unique_by=lambda attempt: attempt.id,
)
EXTENSION = st.dictionaries(st.just(""), st.timedeltas(timedelta(), 3 * DAY))
RULES = st.fixed_dictionaries(
    {
        "due": st.dictionaries(st.sampled_from(["", "01", "02"]), st.just(DUE) | st.just(DUE + 2 * DAY)),
        "grace": st.timedeltas(timedelta(), DAY), "late_days": st.integers(0, 4),
        "penalty": st.fractions(0, 1, max_denominator=100),
        "extensions": st.dictionaries(st.sampled_from(["eve", "bob"]), EXTENSION),
    }
)  # fmt: skip


@given(ATTEMPTS, RULES)
def test_what_holds_for_any_class(attempts: list[Attempt], rules: dict[str, object]):
    own = Deadlines(**rules)  # type: ignore[arg-type]
    best, last = (deadlines.settle(attempts, ["eve"], own, best=best) for best in (True, False))
    by_id = {attempt.id: attempt for attempt in attempts}
    assert best.keys() == last.keys() == {attempt.problem for attempt in attempts}
    for settled in (best, last):
        for problem, one in settled.items():
            raw = by_id[one.id]
            assert raw.problem == problem
            assert 0 <= one.adjusted <= raw.score
            if own.days_late(["eve"], raw) == 0:
                assert one.adjusted == raw.score
        spent = {own.due_for(["eve"], by_id[one.id].problem): 0 for one in settled.values()}
        for problem, one in settled.items():
            for part in one.lateness.split(", "):
                if "spent" in part:
                    due = own.due_for(["eve"], problem)
                    spent[due] = max(spent[due], int(part.split()[0]))
        assert sum(spent.values()) <= own.late_days
    for problem, one in best.items():  # no attempt is worth more without late days
        for other in attempts:
            if other.problem == problem:
                assert own.adjusted(other.score, own.days_late(["eve"], other)) <= one.adjusted
    without = deadlines.settle(attempts, ["eve"], None, best=True)
    assert all(one.adjusted <= without[problem].adjusted for problem, one in best.items())
