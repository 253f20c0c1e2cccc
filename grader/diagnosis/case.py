"""One run that went wrong: how it is drawn and made, and what the log holds of it."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commandline import files
from commandline.errors import UsageError
from grader.course.log import Entry
from grader.course.workspace import Workspace
from grader.diagnosis.form import FORM, MEND, Filed
from grader.experiment import arms
from grader.task import Cause, Diagnosis

DRAWN, MADE, FILED, ENDED = "drawn", "made", "filed", "ended"
"""The kinds of entries of the log: a run was drawn, its folder was made, a diagnosis was filed, the run is over."""
RUN = "run"
FIGURES = ("metrics.jsonl", "norms.jsonl")
_LARGEST = 1 << 24  # bytes of a file with figures
Lines = dict[int, dict[str, Any]]  # by step


@dataclass(frozen=True)
class Case:
    """A run that a learner got. Only its seed is in the log: the cause follows from it.

    Attributes:
        space: The workspace.
        task: The task.
        number: How many runs of the task the learner has got, with this one.
        seed: The seed of the run.
        filed: The diagnoses of it, in order.
    """

    space: Workspace
    task: Diagnosis
    number: int
    seed: int
    filed: tuple[Filed, ...]

    @property
    def folder(self) -> Path:
        """The folder with the run and the diagnosis."""
        return self.space.folder / "diagnoses" / self.task.label / str(self.number)

    @property
    def run(self) -> Path:
        """The folder that the learner is handed."""
        return self.folder / RUN

    @property
    def cause(self) -> Cause:
        """Why it went wrong."""
        return cause_of(self.task, self.seed)

    @property
    def wrong(self) -> int:
        """How many wrong causes were named."""
        return len({each.cause for each in self.filed} - {self.cause.name})

    @property
    def right(self) -> Filed | None:
        """The first diagnosis that names the cause. Its prediction counts, whatever is filed later."""
        return next((each for each in self.filed if each.cause == self.cause.name), None)

    def train(self, folder: Path, *words: str) -> int:
        """Trains the run into a folder, or with `words` another one. Returns the step where the cause begins. Raises
        CommandError."""
        told = arms.harness(self.cause.name, str(self.seed), str(folder), *words, module=self.task.module)
        return int(json.loads(told)["begins"])

    def make(self) -> list[Path]:
        """Makes what is missing of the folder. Returns its new paths. Raises CommandError and UsageError."""
        new = []
        if not self.run.exists():
            with files.new_folder(self.run) as unfinished:
                self.train(unfinished)
                self.space.record(MADE, self.task.label, seed=self.seed, digest=_digest(unfinished))
            new.append(self.run)
        form = self.folder / FORM
        if not form.exists():
            files.write(form, (self.task.folder / FORM).read_text(encoding="utf-8"))
            new.append(form)
        return new

    def lines(self) -> Lines:
        """Returns the figures of the run by step. Raises UsageError if they are not those that it wrote."""
        made = [each for each in _entries(self.space, self.task, MADE) if each.number("seed") == self.seed]
        if not made or _digest(self.run) != made[-1].text("digest"):
            raise UsageError(
                f"The figures in {self.run} are not those that the run wrote. Remove the folder, and `grade task "
                f"{self.task.label}` trains it again."
            )
        return figures(self.run)

    def tested(self, filed: Filed) -> tuple[int, float]:
        """Trains the run that a diagnosis with the right cause asks for. Returns the step where the cause begins, and
        the number that was predicted."""
        changed = ["--mend"] if filed.change == MEND else ["--set", filed.change]
        with tempfile.TemporaryDirectory() as scratch:
            begins = self.train(Path(scratch), "--figures", *changed)
            return begins, float(figures(Path(scratch))[filed.at][filed.quantity])

    def file(self, filed: Filed) -> "Case":
        """Notes a diagnosis in the log, before anything is run. Returns the case with it; the same one if it is there
        already."""
        if filed in self.filed:
            return self
        self.space.record(FILED, self.task.label, seed=self.seed, diagnosis=filed.dumps())
        return Case(self.space, self.task, self.number, self.seed, (*self.filed, filed))

    def facts(self, *, missed: bool) -> dict[str, Any]:
        """Returns what the log says of its end: the cause, and whether the learner missed it."""
        return {"seed": self.seed, "cause": self.cause.name, "missed": int(missed)}


def under_way(space: Workspace, task: Diagnosis) -> Case | None:
    """Returns the run that a learner has to find the cause of; None if there is none."""
    drawn = [each.number("seed") for each in _entries(space, task, DRAWN)]
    ended = {each.number("seed") for each in _entries(space, task, ENDED)}
    if not drawn or drawn[-1] in ended:
        return None
    filed = [each for each in _entries(space, task, FILED) if each.number("seed") == drawn[-1]]
    return Case(space, task, len(drawn), drawn[-1], tuple(Filed.loads(each.text("diagnosis")) for each in filed))


def draw(space: Workspace, task: Diagnosis) -> Case:
    """Draws a run and notes it: with a cause that the learner has missed before, if there is one, else by chance."""
    last = {each.text("cause"): each.number("missed") for each in _entries(space, task, ENDED)}
    missed = [name for name in task.drawn if last.get(name)]
    return begin(space, task, _seed(task, missed or task.drawn))


def begin(space: Workspace, task: Diagnosis, seed: int) -> Case:
    """Notes that a learner has got the run of a seed."""
    number = 1 + sum(1 for _ in _entries(space, task, DRAWN))
    space.folder.mkdir(parents=True, exist_ok=True)  # without a workspace, no log would note the run
    space.record(DRAWN, task.label, seed=seed)
    case = Case(space, task, number, seed, ())
    if case.folder.exists():  # of a workspace whose log was lost
        shutil.rmtree(case.folder)
    return case


def cause_of(task: Diagnosis, seed: int) -> Cause:
    """Returns the cause that a run with this seed has. It does not show in the seed, which is in the log."""
    digest = hashlib.sha256(f"{task.label} {seed}".encode()).digest()
    name = task.drawn[int.from_bytes(digest[:4], "big") % len(task.drawn)]
    return next(each for each in task.causes if each.name == name)


def figures(run: Path) -> Lines:
    """Returns all quantities of a run by step. Raises UsageError if they cannot be read."""
    found: Lines = {}
    try:
        for name in FIGURES:
            for line in files.read_regular(run / name, _LARGEST).decode("utf-8").splitlines():
                known = json.loads(line)
                step = known.pop("step")
                found.setdefault(step, {}).update(known)
    except (OSError, ValueError, KeyError, files.NotRegularFileError) as error:
        raise UsageError(f"The figures in {run} cannot be read: {error}.") from None
    return found


def _seed(task: Diagnosis, names: Sequence[str]) -> int:
    """Returns a seed whose run has one of these causes."""
    return next(seed for seed in _random() if cause_of(task, seed).name in names)


def _random() -> Iterator[int]:
    while True:
        yield int.from_bytes(os.urandom(4), "big") >> 1


def _entries(space: Workspace, task: Diagnosis, kind: str) -> Iterator[Entry]:
    return (each for each in space.entries() if (each.kind, each.problem) == (kind, task.label))


def _digest(run: Path) -> str:
    """Returns a hash of the figures in a folder; empty if they cannot be read."""
    digest = hashlib.sha256()
    try:
        for name in FIGURES:
            digest.update(files.read_regular(run / name, _LARGEST))
    except (OSError, files.NotRegularFileError):
        return ""
    return digest.hexdigest()
