"""The bill of a program: its figures, and the work of each line. Counted by a process that never ran the program's
Python."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from math import prod
from typing import Any

from grader.course import cases
from grader.isolation.sandbox import Workers
from grader.judge import submission as submission_
from grader.judge.submission import Submission
from grader.judge.worker_session import Failure, Outcome, Session, probe_frame, without_arrays
from grader.problem import PROGRAM, Case, Check, Problem
from grader.wire.program import request

MEASURE = "bill"
OTHER_PROBES = ("compiled", "dependence", "parameters", "submodules")  # these run an entry for something else
KINDS = {
    "products": "matrix products",
    "elementwise": "elementwise",
    "moved": "moved at computed places",
}


@dataclass(frozen=True)
class Line:
    """The scalar operations of one line of a file, by kind, and the bytes that it reads and writes. Without a file, of
    the grader's own code.

    `callers` are the lines that call its function. `masked` is the shape of a matrix product of it of which a mask
    hides a part.
    """

    file: str
    line: int
    products: int
    elementwise: int
    moved: int
    traffic: int = 0
    callers: tuple[tuple[str, int], ...] = ()
    masked: tuple[int, ...] = ()

    @property
    def work(self) -> int:
        """The scalar operations of all kinds."""
        return self.products + self.elementwise + self.moved


@dataclass(frozen=True)
class Bill:
    """What one execution of a program costs.

    Attributes:
        figures: The figures by name; see `docs/cost.md`.
        lines: The work of each line of the source.
        counted_with: The version of JAX, because another one may trace another program.
    """

    figures: Mapping[str, int]
    lines: Sequence[Line] = ()
    counted_with: str = ""

    def encode(self) -> dict[str, Any]:
        """Returns the bill as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Uncounted:
    """Why there is no bill: the failure of the code, or the notes of a probe that cannot be traced."""

    failure: Failure | None = None
    notes: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Returns the reason as one sentence."""
        return self.failure.sentence() if self.failure else "; ".join(self.notes)


def run_of(problem: Problem, seed: int = 0) -> tuple[Check, Case] | None:
    """Returns the run of a problem that a bill is about: the one that its definition names, or the one with the largest
    case, with gradients if there are any. None if the problem has no program. `seed` draws the cases."""
    runs = [
        (check, max(cases.draw(problem, check.cases, seed), key=_size))
        for check in problem.checks
        if not (check.read or check.saved_by or check.partner or check.cpu_seconds or check.probe in OTHER_PROBES)
    ]
    named = [run for run in runs if run[0].name == problem.bill]
    return max(named or runs, key=lambda run: (_size(run[1]), "wrt" in run[0].options), default=None)


@cache
def described(problem: Problem) -> str:
    """Returns in words the run that a bill is about. Empty if the problem has no program."""
    run = run_of(problem)
    if run is None:
        return ""
    check, case = run
    sizes = [f"{name} = {size}" for name, size in case.sizes.items()]
    with_gradients = ["with gradients"] if "wrt" in check.options else []
    return f"the program of “{check.name}”" + (": " * bool(sizes)) + ", ".join([*sizes, *with_gradients])


@cache
def repeated(problem: Problem) -> str:
    """Returns in a sentence how often the run calls the code, if the grader's own loop calls it row by row."""
    run = run_of(problem)
    names = problem.row_by_row.get(run[0].probe, ()) if run else ()
    return f"All {len(run[1].values[names[0]])} steps of the loop count, not one." if run and names else ""


def _size(case: Case) -> int:
    return prod(case.sizes.values())


def count(problem: Problem, submission: Submission, workers: Workers, seed: int = 0) -> Bill | Uncounted:
    """Returns the bill of a submission, which a worker traces and a witness counts. Raises WorkerStartError."""
    run = run_of(problem, seed)
    if run is None:
        return Uncounted()
    submission = named(problem, submission)
    worker, witness = (
        Session(problem, workers.worker(submission_.job(problem)), problem.timeout) for _ in ("traces", "counts")
    )
    try:
        return _counted(worker, witness, submission, *run)
    finally:
        worker.worker.close()
        witness.worker.close()


def named(problem: Problem, submission: Submission) -> Submission:
    """Returns the submission under a file name by which its lines can be known."""
    plain = re.fullmatch(r"[\w. -]+", submission.filename)
    return submission if plain else replace(submission, filename=f"{problem.name}.py")


def texts(problem: Problem, submission: Submission) -> dict[str, str]:
    """Returns the texts of a submission by the file that the lines of its bill name."""
    others = {f"{name}.py": text for name, text in submission.sources.items()}
    return {**others, named(problem, submission).filename: submission.sources[problem.name]}


def _counted(worker: Session, witness: Session, submission: Submission, check: Check, case: Case) -> Bill | Uncounted:
    if failure := worker.load("", submission):
        return Uncounted(failure)
    frame = probe_frame("", check, without_arrays(case), "trace")
    program = worker.ask(replace(frame, fields={**frame.fields, "places": True}), "program", "untraceable")
    if isinstance(program, Failure):
        return Uncounted(program)
    if program.kind == "untraceable":
        notes = program.fields.get("notes")
        return Uncounted(notes=tuple(map(str, notes)) if isinstance(notes, list) else ())
    witness.begin()
    outcome = witness.run(request(program, dict(case.values), case.seed, [MEASURE]))
    return Uncounted(outcome.failure) if outcome.failure else _decoded(outcome, submission)


def _decoded(outcome: Outcome, submission: Submission) -> Bill:
    text = next(leaf.values.tobytes() for leaf in outcome.leaves if leaf.path == PROGRAM + MEASURE)
    fields = json.loads(text)
    known = {f"{name}.py" for name in submission.sources} | {submission.filename, ""}
    lines = [
        Line(**{**row, "callers": tuple(map(tuple, row["callers"])), "masked": tuple(row["masked"])})
        for row in fields["lines"]
        if row["file"] in known
    ]
    return Bill(fields["figures"], lines, f"JAX {version('jax')}")
