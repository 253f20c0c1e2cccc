"""One run that went wrong: how it is drawn and made, and what the log holds of it."""

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from commandline import files
from commandline.errors import UsageError
from grader.course.attempts import Attempt, Say, write_missing
from grader.course.workspace import Workspace
from grader.diagnosis.form import FORM, MEND, Filed
from grader.isolation import child
from grader.task import Cause, Diagnosis

MADE, FILED = "made", "filed"
"""The kinds of entries of the log for a folder that was made, and for a diagnosis."""
RUN = "run"
FIGURES = ("metrics.jsonl", "norms.jsonl")
_LARGEST = 1 << 24  # bytes of a file with figures
Lines = dict[int, dict[str, Any]]  # by step


class Case(Attempt[Diagnosis]):
    """A run that a learner got. Until it ends, only its seed is in the log: the cause follows from it."""

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.begun.number("seed")

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
    def filed(self) -> list[Filed]:
        """The diagnoses of it, in order."""
        return [Filed.loads(each.text("diagnosis")) for each in self.entries(FILED)]

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
        # A list of processes shows the arguments of each, so the cause is none.
        told = child.run(self.task.module, "-", str(self.seed), str(folder), *words, stdin=self.cause.name)
        return int(json.loads(told)["begins"])

    def make(self, say: Say = lambda text: None) -> tuple["Case", list[Path]]:
        """Makes what is missing of the folder. Returns the case, and its new paths. Raises CommandError and
        UsageError."""
        case, new = self, list[Path]()
        if not self.run.exists():
            for unfinished in self.folder.glob(".new-*"):  # of a command that was killed
                shutil.rmtree(unfinished, ignore_errors=True)
            with files.new_folder(self.run) as unfinished:
                say("training the run that went wrong")
                self.train(unfinished)
                case = self.note(MADE, digest=_digest(unfinished))
            new.append(self.run)
        form = (self.task.folder / FORM).read_text(encoding="utf-8")
        return case, [*new, *write_missing({self.folder / FORM: form})]

    def lines(self) -> Lines:
        """Returns the figures of the run by step. Raises UsageError if they are not those that it wrote."""
        made = self.entries(MADE)
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
        return self if filed in self.filed else self.note(FILED, diagnosis=filed.dumps())

    def close(self, score: int | None, *, missed: bool) -> "Case":
        """Ends it. From then on, the log names the cause, and whether the learner missed it."""
        return self.end(score, **{"missed" if missed else "found": [self.cause.name]})


def draw(space: Workspace, task: Diagnosis) -> Case:
    """Draws a run and notes it: with a cause that the learner has missed before, if there is one, else by chance."""
    wanted = set(Case.wanted(space, task)).intersection(task.drawn) or task.drawn
    seeds = iter(lambda: int.from_bytes(os.urandom(4), "big") >> 1, None)
    return begin(space, task, next(seed for seed in seeds if cause_of(task, seed).name in wanted))


def begin(space: Workspace, task: Diagnosis, seed: int) -> Case:
    """Notes that a learner has got the run of a seed."""
    case = Case.begin(space, task, seed=seed)
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


def _digest(run: Path) -> str:
    """Returns a hash of the figures in a folder; empty if they cannot be read."""
    digest = hashlib.sha256()
    try:
        for name in FIGURES:
            digest.update(files.read_regular(run / name, _LARGEST))
    except (OSError, files.NotRegularFileError):
        return ""
    return digest.hexdigest()
