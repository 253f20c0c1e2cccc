"""The reference outputs in a learner's bundle: recorded on the public cases, so that the bundle needs no solutions.

A problem's recordings are one archive: the public cases, an entry for each request, one for each misconception that
changes the outcome, and the misconceptions by name, without their edits to the reference.
"""

import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from commandline.cores import usable_cores
from grader.course import cases, catalog
from grader.course.catalog import Misconception
from grader.errors import CourseError
from grader.isolation.sandbox import Workers
from grader.judge import cache, fault
from grader.judge.reference import Answers, Reference, frame_of
from grader.judge.worker_session import Outcome, outcome_of, probe_frame
from grader.problem import Case, Check, Problem
from grader.wire.channel import ChannelError, decode_whole, encode

# Reference outputs that are computed at once where nothing else is being graded. Each has a worker, of 50 to 250 MiB.
AT_ONCE = min(4, usable_cores())
OUTPUTS = cases.RECORDED
_MISCONCEPTIONS = "misconceptions.json"


class Recorded:
    """Recorded reference outputs of one problem, plain and with each misconception. There are none on smaller cases.

    Raises CourseError if the recordings cannot be read.
    """

    can_shrink = False
    at_once = 1

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        try:
            self._archive = zipfile.ZipFile(problem.folder / OUTPUTS)
            rows = json.loads(self._archive.read(_MISCONCEPTIONS))
        except (OSError, zipfile.BadZipFile, zlib.error, KeyError, ValueError) as error:
            raise CourseError(
                f"{problem.folder / OUTPUTS} cannot be read: {error}. Unpack your teacher's bundle again."
            ) from None
        self._recorded = set(self._archive.namelist())
        # The recordings do not tell which of them raise. Asking for all takes no time here.
        self.misconceptions: Mapping[str, Misconception] = {
            variant: Misconception(name, says, "", (), fix, raises=True) for variant, name, says, fix in rows
        }

    def ask(self, check: Check, case: Case, variant: str = "") -> Future[Outcome]:
        """Returns the outcome of a check's probe on a case, as a future. It raises CourseError if the outcome was not
        recorded."""
        answer: Future[Outcome] = Future()
        plain = _entry(check, case)
        entry = _entry(check, case, variant)
        try:
            # A misconception without an entry of its own changes nothing here.
            data = self._archive.read(entry if entry in self._recorded else plain)
            answer.set_result(outcome_of(decode_whole(data)))
        except KeyError:
            answer.set_exception(
                CourseError(
                    f"This bundle has no reference outputs for these cases of problem {self.problem.label}, only for "
                    "those of the default seed."
                )
            )
        except (OSError, zipfile.BadZipFile, zlib.error, ChannelError) as error:
            answer.set_exception(
                CourseError(f"{self.problem.folder / OUTPUTS} is corrupt: {error}. Unpack your teacher's bundle again.")
            )
        return answer

    def is_known(self, check: Check, case: Case, variant: str = "") -> bool:
        """Returns True: nothing is computed."""
        return True

    def suspects(self, text: str) -> Sequence[str]:
        """Returns nothing: all outcomes are there, and their programs are not."""
        return ()

    def together(self, first: str, second: str) -> str | None:
        """Returns None, because pairs of misconceptions are not recorded."""
        return None

    def cancel(self, check: Check, case: Case) -> None:
        """Does nothing, because no outputs are being computed."""

    def start(self) -> None:
        """Does nothing, because there is no worker."""

    def forget(self, cases: Iterable[Case]) -> None:
        """Does nothing, because no outputs are kept in memory."""

    def close(self) -> None:
        """Closes the archive."""
        self._archive.close()


def reference(problem: Problem, workers: Workers) -> Answers:
    """Returns the recordings of a problem, or else its reference, for one grading at a time. Raises CourseError if it
    has neither."""
    return Recorded(problem) if is_recorded(problem) else Reference(problem, workers, at_once=AT_ONCE)


def check_gradable(problem: Problem) -> None:
    """Raises CourseError if the problem has neither recordings nor a reference."""
    if not is_recorded(problem):
        catalog.solution_path(problem)


def is_gradable(problem: Problem) -> bool:
    """Returns whether the problem has recordings or a reference."""
    return is_recorded(problem) or catalog.has_solution(problem)


def is_recorded(problem: Problem) -> bool:
    """Returns whether the problem has recordings."""
    return (problem.folder / OUTPUTS).is_file()


def record(problem: Problem, folder: Path, workers: Workers) -> tuple[int, int]:
    """Records outcomes on all public cases in a problem's folder. Returns the number of outcomes and of misconceptions.

    There are no misconceptions where each outcome is a training run of minutes.
    """
    public_cases, reference = cases.draw_all(problem, 0), Reference(problem, workers, at_once=AT_ONCE)
    ideas = {} if problem.long_runs else reference.misconceptions
    modules = {entry.name for entry in problem.entries if entry.is_module}
    requests = [(check, case) for check in problem.checks for case in public_cases[check.cases]]
    submodules = [  # the judge asks for them when a module's numbers are wrong
        (fault.check(check.options["entry"]), case)
        for check, case in requests
        if check.probe == "values" and check.options.get("entry") in modules
    ]
    try:
        plain = {_entry(*request): _recording(reference.ask(*request).result()) for request in [*requests, *submodules]}
        written = dict(plain)
        # All are asked for before the first is waited for, so that the workers divide them.
        asked = [(variant, request, reference.ask(*request, variant)) for variant in ideas for request in requests]
        for variant, request, answer in asked:
            data = _recording(answer.result())
            if data != plain[_entry(*request)]:
                written[_entry(*request, variant)] = data
    finally:
        reference.close()
    inputs = {
        cases.entry(group, number): cases.recording(case)
        for group, drawn in public_cases.items()
        for number, case in enumerate(drawn)
    }
    names = [(variant, idea.name, idea.says, idea.fix) for variant, idea in ideas.items()]
    with zipfile.ZipFile(folder / OUTPUTS, "w") as archive:
        for name, data in {_MISCONCEPTIONS: json.dumps(names).encode(), **inputs, **written}.items():
            # A ZipInfo has no date, so equal recordings are equal files.
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return len(written), len({idea.name for idea in ideas.values()})


def _recording(outcome: Outcome) -> bytes:
    """Returns an outcome as bytes. Without the lines where it failed, which are the reference's."""
    if outcome.failure:
        outcome = replace(outcome, failure=replace(outcome.failure, frames=(), caret=""))
    return encode(frame_of(outcome))


def _entry(check: Check, case: Case, variant: str = "") -> str:
    return cache.digest([check.run_key, encode(probe_frame(variant, check, case, "both"))])[:32]
