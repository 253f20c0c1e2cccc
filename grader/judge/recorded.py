"""The reference outputs in a learner's bundle: recorded for the public cases, without the solutions that gave them."""

from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

from grader.course import cases, catalog
from grader.course.catalog import Misconception
from grader.errors import CourseError
from grader.judge import cache, fault
from grader.judge.reference import Answers, Reference, frame_of, outcome_of
from grader.judge.session import Outcome, probe_frame
from grader.paths import SOLUTIONS
from grader.problem import Case, Check, Problem
from grader.wire.channel import decode, encode

OUTPUTS = "outputs"


class Recorded:
    """Reference outputs of one problem from its folder of recordings. It has no misconceptions."""

    ideas: Mapping[str, Misconception] = {}
    can_shrink = False

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def ask(self, check: Check, case: Case, variant: str = "") -> Future[Outcome]:
        """The outcome of a check's probe on a case. The future raises CourseError if it was not recorded."""
        answer: Future[Outcome] = Future()
        try:
            header, body = (_path(self.problem, check, case).with_suffix(end).read_bytes() for end in (".json", ".bin"))
            answer.set_result(outcome_of(decode(header, body)))
        except OSError:
            answer.set_exception(
                CourseError(
                    f"This bundle has no reference outputs for these cases of problem {self.problem.label}. It has those of the "
                    "default seed, drawn by the hypothesis version that its pyproject.toml pins."
                )
            )
        return answer

    def cancel(self, check: Check, case: Case) -> None:
        """Does nothing: nothing is being computed."""

    def close(self) -> None:
        """Does nothing: nothing is open."""


def reference(problem: Problem) -> Answers:
    """The source of reference outputs for a problem. Raises CourseError if there is none."""
    return Recorded(problem) if is_recorded(problem) else Reference(problem)


def check_gradable(problem: Problem) -> None:
    """Raises CourseError if a file cannot be compared with anything here."""
    if not is_recorded(problem):
        catalog.solution_path(problem)


def is_gradable(problem: Problem) -> bool:
    """Whether a file can be compared with a reference or with recorded outputs."""
    return is_recorded(problem) or (SOLUTIONS / f"{problem.name}.py").is_file()


def is_recorded(problem: Problem) -> bool:
    """Whether this is a bundle with recorded outputs of the problem."""
    return (problem.folder / OUTPUTS).is_dir()


def record(problem: Problem, folder: Path) -> int:
    """Records the reference outputs on all public cases in a problem's folder; returns their number."""
    modules = {entry.name for entry in problem.entries if entry.is_module}
    requests = [(check, check.cases) for check in problem.checks]
    for check in problem.checks:  # the judge asks for these when a module's numbers are wrong
        entry = check.options.get("entry", "")
        requests += [(fault.check(entry), check.cases)] if check.probe == "values" and entry in modules else []
    drawn = cases.draw_all(problem, 0)
    reference, written = Reference(problem), 0
    (folder / OUTPUTS).mkdir()
    try:
        for check, group in requests:
            for case in drawn[group]:
                data = encode(frame_of(reference.ask(check, case).result()))
                size = int.from_bytes(data[:4], "big")
                path = folder / OUTPUTS / _path(problem, check, case).name
                path.with_suffix(".json").write_bytes(data[12 : 12 + size])
                path.with_suffix(".bin").write_bytes(data[12 + size :])
                written += 1
    finally:
        reference.close()
    return written


def _path(problem: Problem, check: Check, case: Case) -> Path:
    return problem.folder / OUTPUTS / cache.digest([encode(probe_frame("", check, case))])[:32]
