"""Checks that could not be judged: the same words everywhere, no numbers, and never a second fault."""

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from grader.course.catalog import Misconception
from grader.judge.blocked import RIGHT_VALUES, not_judged, without_consequences
from grader.judge.diagnose import Evidence, diagnose
from grader.judge.verdict import CheckResult, Verdict
from grader.judge.worker_session import Outcome
from grader.problem import Case, Check
from grader.report import terminal
from grader.wire.compare import Leaf, Mismatch
from tests.grader.report.reports import report_of

CASE = Case({})
OUTPUT, GRADIENT, OTHER = (Check(name, 1, name, leaves=name) for name in ("output", "gradient", "other"))
WORK = Check("work", 1, "work", leaves="program.work")


def outcome(**leaves: float) -> Outcome:
    return Outcome([Leaf(path.replace("program_", "program."), "float32", np.float32(x)) for path, x in leaves.items()])


class Ideas:
    """Reference outputs by check and variant. `together` gives the outcomes of a pair."""

    at_once, can_shrink = 1, True

    def __init__(self, outcomes: dict[str, dict[str, Outcome]], says: dict[str, str] | None = None) -> None:
        self.outcomes = outcomes
        names = [name for name in outcomes if name and " + " not in name]
        self.misconceptions = {name: Misconception(name, (says or {}).get(name, name), "", ()) for name in names}

    def ask(self, check: Check, case: Case, variant: str = "") -> Future[Outcome]:
        answer: Future[Outcome] = Future()
        answer.set_result(self.outcomes[variant].get(check.name) or self.outcomes[""][check.name])
        return answer

    def together(self, first: str, second: str) -> str | None:
        return f"{first} + {second}"


RIGHT = {"output": outcome(output=1), "gradient": outcome(gradient=1), "other": outcome(other=1),
         "work": outcome(program_work=9, output=1)}  # fmt: skip


def told(
    ideas: dict[str, dict[str, Outcome]], *evidence: tuple[Check, Outcome, bool, bool], **says: Any
) -> Misconception:
    found = diagnose(Ideas({"": RIGHT, **ideas}, **says), [Evidence(check, CASE, *rest) for check, *rest in evidence])
    assert found is not None
    return found.misconception


pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("of_the_idea", "judged", "named"),
    [(1, True, False), (3, True, False), (7, True, True), (1, False, True), (3, False, True)],
    ids=["no effect there", "another effect", "the same", "no effect, and not judged", "another, and not judged"],
)
def test_an_idea_must_explain_what_was_judged_and_no_more(of_the_idea, judged, named):
    idea = {"halved": {"output": outcome(output=0.5), "other": outcome(other=of_the_idea)}}
    wrong = (OUTPUT, outcome(output=0.5), True, True), (OTHER, outcome(other=7), True, judged)
    evidence = [Evidence(check, CASE, *rest) for check, *rest in wrong]
    found = diagnose(Ideas({"": RIGHT, **idea}), evidence)
    assert (found.misconception.says if found else "") == ("halved" if named else "")


def test_a_measure_of_a_program_with_wrong_values_is_no_second_fault():
    idea = {"halved": {"output": outcome(output=0.5)}}
    wrong = (WORK, outcome(program_work=99, output=0.5), True, False)
    assert told(idea, (OUTPUT, outcome(output=0.5), True, True), wrong).says == "halved"


@pytest.mark.parametrize(
    ("names", "says", "name", "expected"),
    [
        (("a", "b"), {}, "a, and b", "Two ideas together give these numbers. a b"),
        (("one mask", "a mask"), {"one mask": "Shift it.", "a mask": "Shift it."}, "one mask, and a mask", "Shift it."),
        (("blocks", "blocks in the forward pass"), {}, "blocks", "blocks"),
    ],
    ids=["two", "one idea in two places", "one idea and a part of it"],
)  # fmt: skip
def test_one_idea_is_told_once(names, says, name, expected):
    one, other = names
    ideas = {
        one: {"output": outcome(output=0.5)},
        other: {"gradient": outcome(gradient=0.5)},
        f"{one} + {other}": {"output": outcome(output=0.5), "gradient": outcome(gradient=0.5)},
    }
    wrong = [(OUTPUT, outcome(output=0.5), True, True), (GRADIENT, outcome(gradient=0.5), True, True)]
    found = told(ideas, *wrong, says=says)
    assert (found.name, found.says) == (name, expected)


def test_a_check_that_was_not_judged_shows_no_numbers_unless_it_is_the_first_failure():
    wrong = Mismatch("value", "output", "1", "0.5")
    first = CheckResult(OUTPUT, Verdict.FAIL, wrong.sentence(), wrong, CASE)
    waiting = not_judged(WORK, CASE, RIGHT_VALUES, wrong)
    assert waiting.message == "not judged yet: the program must first return the right values"
    assert without_consequences([first, waiting], first)[1].mismatch is None
    assert without_consequences([waiting], waiting)[0].mismatch == wrong


def test_a_check_that_only_asks_for_a_program_is_not_judged_on_wrong_values():
    wrong = Mismatch("value", "output", "1", "0.5")
    compiled = replace(OUTPUT, name="one compilation", traced=True)
    results = [CheckResult(check, Verdict.FAIL, wrong.sentence(), wrong, CASE) for check in (OUTPUT, compiled)]
    same, waiting = without_consequences(results, results[0])
    assert same is results[0]
    assert (waiting.message, waiting.mismatch) == (f"not judged yet: {RIGHT_VALUES}", None)


def test_advice_on_a_measure_is_not_shown_where_the_values_are_wrong():
    wrong = Mismatch("value", "output", "1", "0.5")
    work = replace(WORK, advice="The program does too much.")
    assert CheckResult(work, Verdict.FAIL, "", wrong, CASE).advice == "The program does too much."
    assert not_judged(work, CASE, RIGHT_VALUES, wrong).advice == ""


def test_a_report_says_of_each_check_that_it_was_not_judged():
    report = report_of(Verdict.FAIL)
    checks = [not_judged(check, CASE, RIGHT_VALUES) for check in report.problem.checks[1:3]]
    text = terminal.render(type(report)(report.problem, "mine.py", [*report.checks, *checks]), 200)
    assert text.count(f"not judged yet: {RIGHT_VALUES}") == 2
