"""What the owner of a hunt's program sees: its symptom and, where other numbers are all that it has, the play."""

from collections.abc import Sequence
from dataclasses import replace

from grader.course import plays
from grader.exhibits import Exhibit, Progress
from grader.isolation.sandbox import Workers
from grader.judge.submission import Submission
from grader.judge.verdict import CheckResult
from grader.play import comparison
from grader.play.play_session import Performance
from grader.practice import run_program, symptoms
from grader.practice.hunts import Program
from grader.practice.symptoms import Symptom
from grader.problem import Problem


def symptom(program: Program, failed: Sequence[CheckResult], workers: Workers) -> Symptom:
    """Returns the symptom of a program that failed these checks.

    One that is nothing but other numbers begins with what the play of the problem shows, unless that trains, ends
    early, or looks like that of the correct program.
    """
    found, problem = symptoms.of(*failed), program.hunt.problem
    play = plays.find(problem)
    if found.kind is not symptoms.kinds()[-1] or play is None or play.trains:
        return found
    texts = (program.text, program.correct)
    own, right = (_shown(problem, run_program.source_of(problem, text), workers) for text in texts)
    seen = comparison.seen(own, right) if own and right else ""
    return replace(found, text=f"In a trained model, it differs most in {seen}. {found.text}") if seen else found


def _shown(problem: Problem, source: Submission, workers: Workers) -> list[Exhibit]:
    """Returns the exhibits of a play; none if it ends early."""
    performance = Performance(problem, source, workers, compare=False)
    shown = [item for item in performance if not isinstance(item, Progress)]
    return [] if performance.failure else shown
