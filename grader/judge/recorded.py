"""The reference in a learner's bundle: its answers to the public cases, recorded, and nothing of how it came to them."""

from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

from grader import cache, cases, course, parts
from grader.channel import decode, encode
from grader.course import Misconception
from grader.errors import CourseError
from grader.problem import Case, Check, Problem
from grader.reference import Answers, Reference, frame_of, outcome_of
from grader.session import Outcome, probe_frame

OUTPUTS = "outputs"


class Recorded:
    """Answers for one problem as `Reference` does, from its folder of outputs. It knows no misconception."""

    ideas: Mapping[str, Misconception] = {}
    can_shrink = False

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def ask(self, check: Check, case: Case, variant: str = "") -> Future[Outcome]:
        """The outcome of a check's probe on a case. The future raises CourseError if it was not recorded."""
        found: Future[Outcome] = Future()
        try:
            header, body = (_path(self.problem, check, case).with_suffix(end).read_bytes() for end in (".json", ".bin"))
            found.set_result(outcome_of(decode(header, body)))
        except OSError:
            found.set_exception(
                CourseError(
                    f"This bundle has no answers for these cases of problem {self.problem.label}. It knows those of the "
                    "public seed only, as hypothesis draws them in the version that its pyproject.toml names."
                )
            )
        return found

    def drop(self, check: Check, case: Case) -> None:
        """Nothing is being worked out."""

    def close(self) -> None:
        """Nothing is open."""


def reference(problem: Problem) -> Answers:
    """What answers for a problem here. Raises CourseError if nothing can."""
    return Recorded(problem) if there_is(problem) else Reference(problem)


def check_gradable(problem: Problem) -> None:
    """Raises CourseError if there is nothing here that a file could be compared with."""
    if not there_is(problem):
        course.solution_path(problem)


def is_gradable(problem: Problem) -> bool:
    """Whether there is something here that a file can be compared with."""
    return there_is(problem) or (course.SOLUTIONS / f"{problem.name}.py").is_file()


def there_is(problem: Problem) -> bool:
    """Whether this is a bundle that has the problem's answers."""
    return (problem.folder / OUTPUTS).is_dir()


def record(problem: Problem, folder: Path) -> int:
    """Writes the answers of the reference to all public cases below a problem's folder; returns how many."""
    modules = {entry.name for entry in problem.entries if entry.is_module}
    questions = [(check, check.cases) for check in problem.checks]
    for check in problem.checks:  # what the judge asks where a module's numbers are wrong
        entry = check.options.get("entry", "")
        questions += [(parts.check(entry), check.cases)] if check.probe == "values" and entry in modules else []
    drawn = cases.draw_all(problem, 0)
    reference, written = Reference(problem), 0
    (folder / OUTPUTS).mkdir()
    try:
        for check, group in questions:
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
