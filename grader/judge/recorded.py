"""The reference outputs in a learner's bundle: recorded on the public cases, so that the bundle needs no solutions."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path

from grader.course import cases, catalog
from grader.course.catalog import Misconception
from grader.errors import CourseError
from grader.isolation.sandbox import ForkServer, Workers
from grader.judge import cache, fault
from grader.judge.reference import Answers, Reference, frame_of
from grader.judge.session import Outcome, outcome_of, probe_frame
from grader.paths import SOLUTIONS
from grader.problem import Case, Check, Problem
from grader.wire.channel import decode, encode

OUTPUTS = "outputs"


class Recorded:
    """Recorded reference outputs of one problem. There are no misconceptions, and no outputs on smaller cases."""

    misconceptions: Mapping[str, Misconception] = {}
    can_shrink = False

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def ask(self, check: Check, case: Case, variant: str = "") -> Future[Outcome]:
        """The outcome of a check's probe on a case, as a future. It raises CourseError if the outcome was not recorded."""
        answer: Future[Outcome] = Future()
        try:
            header, body = (_path(self.problem, check, case).with_suffix(end).read_bytes() for end in (".json", ".bin"))
            answer.set_result(outcome_of(decode(header, body)))
        except OSError:
            answer.set_exception(
                CourseError(
                    f"This bundle has no reference outputs for these cases of problem {self.problem.label}. It has those of the "
                    "default seed, as drawn by the version of hypothesis that its pyproject.toml pins."
                )
            )
        return answer

    def together(self, first: str, second: str) -> str | None:
        """None, because there are no misconceptions."""
        return None

    def cancel(self, check: Check, case: Case) -> None:
        """Does nothing, because no outputs are being computed."""

    def start(self) -> None:
        """Does nothing, because there is no worker."""

    def forget(self, cases: Iterable[Case]) -> None:
        """Does nothing, because no outputs are kept in memory."""

    def close(self) -> None:
        """Does nothing, because no worker is running."""


def reference(problem: Problem, workers: Workers) -> Answers:
    """The recordings of a problem, or else its reference. Raises CourseError if it has neither."""
    return Recorded(problem) if is_recorded(problem) else Reference(problem, workers)


def check_gradable(problem: Problem) -> None:
    """Raises CourseError if the problem has neither recordings nor a reference."""
    if not is_recorded(problem):
        catalog.solution_path(problem)


def is_gradable(problem: Problem) -> bool:
    """Whether the problem has recordings or a reference."""
    return is_recorded(problem) or (SOLUTIONS / f"{problem.name}.py").is_file()


def is_recorded(problem: Problem) -> bool:
    """Whether the problem has recordings."""
    return (problem.folder / OUTPUTS).is_dir()


def record(problem: Problem, folder: Path) -> int:
    """Records the reference outputs on all public cases in a problem's folder. Returns their number."""
    modules = {entry.name for entry in problem.entries if entry.is_module}
    requests = [(check, check.cases) for check in problem.checks]
    for check in problem.checks:  # the judge asks for submodules when a module's numbers are wrong
        entry = check.options.get("entry", "")
        requests += [(fault.check(entry), check.cases)] if check.probe == "values" and entry in modules else []
    public_cases = cases.draw_all(problem, 0)
    fork_server = ForkServer()
    reference, written = Reference(problem, fork_server), 0
    (folder / OUTPUTS).mkdir()
    try:
        for check, group in requests:
            for case in public_cases[group]:
                data = encode(frame_of(reference.ask(check, case).result()))
                size = int.from_bytes(data[:4], "big")
                path = folder / OUTPUTS / _path(problem, check, case).name
                path.with_suffix(".json").write_bytes(data[12 : 12 + size])
                path.with_suffix(".bin").write_bytes(data[12 + size :])
                written += 1
    finally:
        reference.close()
        fork_server.close()
    return written


def _path(problem: Problem, check: Check, case: Case) -> Path:
    return problem.folder / OUTPUTS / cache.digest([encode(probe_frame("", check, case, "both"))])[:32]
