"""Marks from batch to batch: what changes without a new submission is listed with its reason, or kept."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grader.batch import deadlines, marks
from grader.batch.marks import Causes, Keeping
from grader.batch.records import Change, Person, StoredAttempt
from grader.batch.store import Store
from tests.conftest import Grade
from tests.grader.batch.conftest import NAME, rows, table

pytestmark = pytest.mark.fast
CHANGED = Causes({f"semantics:{NAME}"})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Results of two learners, as a batch ended with them."""
    store = Store(tmp_path / "results")
    put(store, attempt("ada", "1", 6), attempt("bob", "1", 4))
    store.remember_intake([Person("ada"), Person("bob")], [])
    store.publish()
    yield store
    store.close()


def attempt(learner: str, name: str, score: int) -> StoredAttempt:
    return StoredAttempt(learner, NAME, name, "key", f"{name}.py", "PASS" if score == 6 else "FAIL", score, 6)


def put(store: Store, *attempts: StoredAttempt, best: bool = True) -> None:
    store.put(lambda learner, stored: deadlines.settle(stored, (learner,), None, best=best), *attempts)


def ended(store: Store, causes: Causes = CHANGED, keeping: Keeping = "") -> list[Change]:
    return marks.publish(store, causes, [], keeping, best=True)


def shown(store: Store) -> dict[str, float]:
    return {record.learner: record.mark for record in store.records()}


def test_a_new_submission_changes_a_mark_without_a_word(store: Store):
    put(store, attempt("bob", "2", 6), attempt("cleo", "1", 3))
    assert ended(store) == []
    assert shown(store) == {"ada": 6, "bob": 6, "cleo": 3}


def test_every_other_change_is_listed_with_its_reason(store: Store):
    put(store, attempt("ada", "1", 5), attempt("bob", "1", 4))
    (change,) = ended(store)
    assert marks.said(change) == "ada, problem 07: 6 -> 5 (the problem, the grader or a package changed)"
    assert ended(store) == [], "it is listed once"
    store.write_tables()
    (row,) = table(store.folder / "changes.csv")
    assert (row["learner"], row["mark_before"], row["mark_after"], row["verdict_after"]) == ("ada", "6", "5", "FAIL")
    assert store.changes() == [change]


def test_a_new_submission_does_not_hide_that_an_old_one_lost_points(store: Store):
    """Of several attempts the best one counts, so a new one alone never lowers a mark."""
    put(store, attempt("ada", "1", 1), attempt("ada", "2", 5))
    assert [change.mark_after for change in ended(store)] == [5]


@pytest.mark.parametrize(("keeping", "ada", "bob"), [("lower", 6, 5), ("all", 6, 4)])
def test_marks_are_kept(store: Store, keeping: Keeping, ada: float, bob: float):
    put(store, attempt("ada", "1", 5), attempt("bob", "1", 5))
    kept = {change.learner: change for change in ended(store, keeping=keeping)}
    assert shown(store) == {"ada": ada, "bob": bob}
    assert kept["ada"].because == "the problem, the grader or a package changed; kept, grading gives 5"
    assert ended(store) == [], "what is kept stays, also without the option"
    put(store, attempt("bob", "2", 6))
    assert ended(store) == []
    assert shown(store) == {"ada": ada, "bob": 6}, "a better submission still counts"


def test_the_reason_of_a_regrade_is_the_teachers(store: Store):
    store.request_regrade("ada", NAME, "the machine was busy")
    put(store, attempt("ada", "1", 5))
    (change,) = marks.publish(store, Causes(set()), store.regrades(), "", best=True)
    assert change.because == "the machine was busy"


def test_a_mark_by_hand_stays_until_it_is_taken_back(store: Store, grade: Grade):
    folder = store.folder
    store.close()
    run = grade("results", folder, "--set", "ada", "07", "2.5", "--because", "copied")
    assert run.code == 0, run.err
    assert "ada, problem 07: 6 -> 2.5 (by hand: copied). results.csv and changes.csv have it" in run.out
    assert (rows(folder)["ada"]["adjusted"], rows(folder)["ada"]["decided"]) == ("2.5", "by hand: copied")
    assert "2.5 of 6 (raw 6)" in grade("results", folder, "--learner", "ada").out
    again = Store(folder)
    put(again, attempt("ada", "2", 6))
    assert ended(again) == []
    assert shown(again)["ada"] == 2.5
    again.close()
    assert grade("results", folder, "--set", "ada", "07", "graded", "--because", "it was not").code == 0
    assert [row["mark_after"] for row in table(folder / "changes.csv")] == ["2.5", "6"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ada", "07", "7"), "problem 07 has 6 points, so 7 is no mark for it"),
        (("ada", "07", "nan"), "so nan is no mark"),
        (("ada", "07", "full"), "'full' is neither a number of points nor the word graded"),
        (("nobody", "07", "1"), "has no learner 'nobody'"),
        (("ada", "08", "1"), "has no result of 'ada' for problem 08"),
    ],
)
def test_a_wrong_decision_is_a_sentence(store: Store, grade: Grade, words: tuple[str, ...], said: str):
    store.close()
    run = grade("results", store.folder, "--set", *words, "--because", "x")
    assert (run.code, said in run.err) == (2, True), run.err
    assert grade("results", store.folder, "--set", "ada", "07", "1").code == 2


def test_decisions_and_marks_follow_a_learner_who_is_renamed(store: Store):
    store.decide("ada", NAME, "hand", 1, "by hand: x")
    store.publish()
    store.rename("ada", "Ada Lovelace")
    assert shown(store) == {"Ada Lovelace": 1, "bob": 4}
    assert ended(store) == []


def test_of_many_changes_the_first_are_shown(store: Store):
    change = Change("now", "ada", NAME, "PASS", 6, "FAIL", 5, "x")
    lines = list(marks.lines([replace(change, learner=str(number)) for number in range(25)]))
    assert len(lines) == marks.MOST_SHOWN + 1
    assert lines[-1] == "Mark: 5 more changed; changes.csv has all."


def test_a_decision_on_one_mark_publishes_no_other(store: Store, grade: Grade):
    """After an interrupted batch, marks have changed that no batch has listed yet."""
    put(store, attempt("ada", "1", 5), attempt("bob", "1", 2))
    folder = store.folder
    store.close()
    assert grade("results", folder, "--set", "ada", "07", "3", "--because", "x").code == 0
    again = Store(folder)
    assert [(change.learner, change.mark_before) for change in ended(again)] == [("bob", 4)]
    assert again.changes()[0].mark_before == 6
    again.close()


@pytest.mark.parametrize("words", [("--set", "ada", "07", "3", "--because", "x"), ("--forget", "ada")])
def test_a_command_creates_no_results(grade: Grade, tmp_path: Path, words: tuple[str, ...]):
    run = grade("results", tmp_path / "nowhere", *words)
    assert (run.code, "contains no results" in run.err) == (2, True), run.err
    assert not (tmp_path / "nowhere").exists()


def test_a_decision_is_told_only_where_it_holds(store: Store):
    store.decide("ada", NAME, "kept", 4, "kept: x", "1")
    put(store, attempt("ada", "2", 6))
    put(store, attempt("ada", "1", 5))
    (ada,) = [record for record in store.records() if record.learner == "ada"]
    assert (ada.mark, ada.decided) == (6, "")
