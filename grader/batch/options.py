"""The options of `grade batch`."""

from dataclasses import dataclass
from pathlib import Path

from grader.batch.marks import Keeping
from grader.isolation.level import Level
from grader.report.redacted import Reveal


@dataclass(frozen=True)
class BatchOptions:
    """The options of `grade batch`.

    Attributes:
        problems: A list such as `01-08,12`; None means all problems that have a submission.
        seed_file: The file with the secret seed; None means that of the results folder, which is made if there is none.
        jobs: The number of processes.
        timeout: The limit for each submission, in seconds of computing; None means the problem's.
        least: The lowest level of isolation that is accepted.
        scheduler: The address of a Dask cluster; None means this machine.
        formats: The gradebooks and reports to write in addition to the tables.
        deadlines: The file with due dates, extensions and late days.
        best: Whether the best of several attempts counts, not the last.
        roster: A gradebook of the course system, which says who is in the class.
        regrade: The submissions to grade again, as LEARNER or LEARNER:NN.
        because: The reason for grading them again.
        feedback: The folder for a page for each learner.
        show_cases: Whether these pages have the failing cases.
        groups: The file that says who hands in together.
        name: The name of the class; empty means that of its folder.
        keeping: The marks to keep that would change without a new submission.
        without: The files that an earlier batch had and this one must not use.
        regrade_checks: Pairs of a problem and one of its checks, to grade again for everybody.
        known: Folders or archives of solutions that learners can have found.
        records: Whether to write the page with the records of the class.
        reveal: How much pages and reports reveal to learners; None means as in the last batch.
        reveal_after_due: How much they reveal after the due date; None means as in the last batch.
    """

    problems: str | None = None
    seed_file: Path | None = None
    jobs: int | None = None
    timeout: float | None = None
    least: Level = Level.STRICT
    scheduler: str | None = None
    formats: tuple[str, ...] = ()
    deadlines: Path | None = None
    best: bool = True
    roster: Path | None = None
    regrade: tuple[str, ...] = ()
    because: str = ""
    feedback: Path | None = None
    show_cases: bool = False
    groups: Path | None = None
    name: str = ""
    keeping: Keeping = ""
    without: tuple[str, ...] = ()
    regrade_checks: tuple[tuple[str, str], ...] = ()
    known: tuple[Path, ...] = ()
    records: bool = False
    reveal: Reveal | None = None
    reveal_after_due: Reveal | None = None
