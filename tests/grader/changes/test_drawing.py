"""Changes that are drawn: their sizes, their hunks, and the faults in them."""

from functools import cache

import pytest

from grader.changes import drawing
from grader.changes.change import MOST_LINES, Change
from grader.changes.drawing import Plan
from grader.course import catalog, tasks
from grader.practice.hunts import Hunt
from grader.task import Review

MODEL, TRAINER = (tasks.find(name) for name in ("review_model", "review_trainer"))
SEEDS = [f"{number}" for number in range(4)]


@cache
def drawn(task: Review, seed: str, wanted: tuple[str, ...] = ()) -> tuple[Plan, Change]:
    plan = drawing.draw(drawing.problems(task), wanted, seed, lambda hunt: True)
    return plan, plan.change()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("task", [MODEL, TRAINER], ids=lambda task: task.label)
def test_a_change_has_a_size_that_one_can_review(task: Review, seed: str):
    plan, change = drawn(task, seed)
    assert drawing.LEAST <= change.size <= drawing.MOST
    assert len(change.files) <= drawing.MOST_FILES
    assert plan.change() == change
    assert [hunk.number for _, hunk in change.hunks] == list(range(1, len(change.hunks) + 1))
    for _, hunk in change.hunks:
        for start, end in (hunk.before, hunk.after):
            assert end - start <= MOST_LINES + 4  # a statement is not cut
    assert len(change.faults) <= max(drawing.NUMBERS)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_hunks_are_all_that_differs(seed: str):
    _, change = drawn(TRAINER, seed)
    for file in change.files:
        lines = file.before.splitlines()
        for hunk in reversed(file.hunks):
            lines[slice(*hunk.before)] = file.after.splitlines()[slice(*hunk.after)]
        assert lines == file.after.splitlines()
        shown = [text for hunk in file.hunks for sign, text in file.rows(hunk) if sign == "+"]
        assert [line for line in change.diff().splitlines() if line == f"+++ after/{file.name}"]
        assert all(f"+{text}" in change.diff() for text in shown)


@pytest.mark.parametrize("task", [MODEL, TRAINER], ids=lambda task: task.label)
def test_only_hunks_with_a_fault_differ_from_the_correct_text(task: Review):
    for seed in SEEDS:
        _, change = drawn(task, seed)
        for file in change.files:
            assert (file.after == file.correct) == (not file.faults)
            after, correct = file.after.splitlines(), set(file.correct.splitlines())
            faulty = [hunk for hunk in file.hunks if hunk.number in file.faults]
            for place, line in enumerate(after):
                if line not in correct:
                    assert any(hunk.after[0] <= place < hunk.after[1] for hunk in faulty), line


def test_a_fault_has_sisters_that_concern_the_same_lines():
    plan, change = next(found for seed in SEEDS if (found := drawn(MODEL, seed))[1].faults)
    for fault in change.faults.values():
        near = plan.sisters_of(fault)
        assert drawing.FEWEST_SISTERS <= len(near) <= drawing.MOST_SISTERS
        assert all(sister.problem == fault.problem and sister.id != fault.id for sister in near)


def test_what_was_overlooked_comes_first():
    problem = catalog.find("04")
    _, change = drawn(MODEL, "wanted", (problem.name, "variance divided by D-1"))
    assert change.files[0].problem == problem
    assert "variance divided by D-1" in [fault.misconception.name for fault in change.faults.values()]


def test_a_program_that_is_not_wrong_is_no_fault():
    asked: list[Hunt] = []

    def never(hunt: Hunt) -> bool:
        asked.append(hunt)
        return False

    plan = drawing.draw([catalog.find("02"), catalog.find("04")], ("p02_causal_attention",), "0", never)
    assert asked
    assert not plan.change().faults
