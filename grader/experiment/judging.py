"""The evidence for an experiment, and its score: one run is repeated, and seeds that nobody knew test the interval."""

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commandline import files
from commandline.errors import UsageError
from grader.course.log import Entry
from grader.course.workspace import Workspace
from grader.experiment import arms
from grader.experiment.arms import Lab, Planned
from grader.experiment.claim import ARMS, CLAIM, REPORT, Claim, factor_of, flaws, folder_of, read
from grader.experiment.report_file import Found, check, filled, verdict_in, verdict_of
from grader.task import Experiment, Factor

CLAIMED, OPENED = "claimed", "opened"
"""The kinds of entries of the log for a claim, and for test losses that were seen."""
FILLED = "report_filled.md"
SECRET_SEEDS = 2
FLAW = 250  # points that a flaw of the design costs
MISS = 10.0  # times the distance of the truth from an 80% interval: 2 / (1 - 0.8) (Gneiting and Raftery 2007)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Score:
    """The score of an experiment, of which less is better, and what it is made of.

    Attributes:
        width: The width of the claimed interval, in thousandths of a nat.
        miss: What it costs that the difference of the secret seeds is outside of it.
        flaws: The flaws of the design.
        truth: The mean difference of the secret seeds, in nats per token.
        refused: Why there is no score, as a sentence; empty if there is one.
    """

    width: int = 0
    miss: int = 0
    flaws: tuple[str, ...] = ()
    truth: float = 0.0
    refused: str = ""

    @property
    def value(self) -> int | None:
        """The score; None if it was refused."""
        return None if self.refused else self.width + self.miss + FLAW * len(self.flaws)


@dataclass(frozen=True)
class Bench:
    """One experiment of a learner.

    Attributes:
        space: The workspace.
        task: The experiment.
    """

    space: Workspace
    task: Experiment

    @property
    def folder(self) -> Path:
        """The folder of the experiment."""
        return folder_of(self.space, self.task)

    @property
    def factor(self) -> Factor:
        """What is varied."""
        return factor_of(self.space, self.task)

    def read(self) -> Claim:
        """Returns the claim as it stands in the file. Raises UsageError."""
        return read(self.folder / CLAIM, self.task, self.factor)

    def entries(self, kind: str) -> Iterator[Entry]:
        """Yields the entries of the log about this experiment."""
        return (each for each in self.space.entries() if (each.kind, each.problem) == (kind, self.task.label))

    def claim(self) -> Claim:
        """Notes the claim in the file, and returns it. Raises UsageError."""
        claim = self.read()
        if claim.digest not in {each.text("claim") for each in self.entries(CLAIMED)}:
            self.space.record(CLAIMED, self.task.label, claim=claim.digest)
        return claim

    def claimed(self) -> Claim | None:
        """Returns the claim in the file if it is the one that was made last; None if none was made. Raises UsageError
        if it has changed since."""
        made = [each.text("claim") for each in self.entries(CLAIMED)]
        if not made:
            return None
        claim = self.read()
        if claim.digest not in made:
            raise UsageError(
                f"{self.folder / CLAIM} has changed since you claimed. `grade claim {self.task.label}` claims what it "
                "says now; its runs begin again, because their seeds follow from the claim."
            )
        return claim

    def report(self) -> str:
        """Returns the text of the report. Raises UsageError if it cannot be read."""
        path = self.folder / REPORT
        try:
            return files.read_regular(path, 1 << 20).decode("utf-8")
        except (OSError, files.NotRegularFileError) as error:
            raise UsageError(f"{path} {files.why_unreadable(error)}.") from None
        except UnicodeDecodeError as error:
            raise UsageError(f"{path} {files.why_no_text(error)}.") from None

    def found(self, lab: Lab) -> Found:
        """Returns what the runs gave. Opens the test stories if they are closed: their losses are then in the log, and
        stay what they are."""
        claim = lab.claim
        chosen = {name: lab.final(name) for name in ARMS}
        known = [each for each in self.entries(OPENED) if each.text("claim") == claim.digest]
        if not known:
            with tempfile.TemporaryDirectory() as scratch:
                stories = Path(scratch) / "test.txt"
                arms.write_stories(stories, claim.seed(0, "test"))
                losses = {
                    name: [arms.loss_on(lab.folder, each.name, stories) for each in chosen[name]] for name in ARMS
                }
            self.space.record(OPENED, self.task.label, claim=claim.digest, losses=json.dumps(losses))
        else:
            losses = json.loads(known[0].text("losses"))
        validation = {
            name: [arms.validation_loss(arms.metrics(lab.folder / each.name)) for each in chosen[name]] for name in ARMS
        }
        return Found(losses, validation, {name: lab.rate(name) for name in ARMS})

    def judge(self, lab: Lab, secret: int, say: Say = lambda text: None) -> Score:
        """Returns the score of an experiment whose runs are done and whose report names a verdict. Writes the report
        with its numbers. Raises UsageError."""
        text = self.report()
        stated = verdict_in(text)
        check(text, lab.claim, self.factor.question)  # before the test stories are opened
        if not lab.has_learned():
            return Score(
                refused="Neither arm ends at half of its first loss or below. Where hardly anything is learned, two "
                "arms cannot differ. Take rates with which a model learns, and claim again: "
                f"`grade claim {self.task.label}`."
            )
        say("measuring the loss on the test stories")
        found = self.found(lab)
        files.write(self.folder / FILLED, filled(text, found.values()))
        follows = verdict_of(lab.claim, found)
        if stated != follows:
            low, high = found.interval or (math.nan, math.nan)
            return Score(
                refused=f"Your report says {stated!r}. From your claim ({lab.claim.expects}, and at least "
                f"{lab.claim.matters:g} matters) and the interval [{low:+.4f}, {high:+.4f}] follows {follows!r}. "
                f"Write that verdict and what it means, then `grade task {self.task.label}`."
            )
        if refused := self._repeat(lab, secret, say):
            return Score(refused=refused)
        truth = self._truth(lab, secret, say)
        low, high = lab.claim.interval
        outside = max(low - truth, truth - high, 0.0)
        return Score(round(1000 * (high - low)), round(1000 * MISS * outside), tuple(flaws(lab.claim)), truth)

    def _repeat(self, lab: Lab, secret: int, say: Say) -> str:
        """Trains one of the runs again. Returns a sentence if it is not equal, bit for bit."""
        runs = lab.finals()
        chosen = runs[lab.claim.seed(secret, "repeat") % len(runs)]
        say(f"repeating {chosen.name}")
        with tempfile.TemporaryDirectory() as scratch:
            again = lab.train(chosen, folder=Path(scratch))
        if again == arms.metrics(lab.folder / chosen.name):
            return ""
        return (
            f"{lab.folder / chosen.name} was trained again, and the numbers are others. Remove the folder, and it is "
            "trained on this machine with these versions; then grade again."
        )

    def _truth(self, lab: Lab, secret: int, say: Say) -> float:
        """Returns the mean difference of runs with seeds that nobody knew."""
        found = []
        with tempfile.TemporaryDirectory() as scratch:
            stories = Path(scratch) / "test.txt"
            arms.write_stories(stories, lab.claim.seed(secret, "secret test"))
            for number in range(SECRET_SEEDS):
                losses = {}
                for name in ARMS:
                    say(f"seed {number + 1} of {SECRET_SEEDS} that nobody knew, {name}")
                    planned = Planned(name, lab.rate(name), lab.claim.seeds + number)
                    runs = Path(scratch) / str(number)
                    lab.train(planned, lab.claim.seed(secret + number, "secret"), runs)
                    losses[name] = arms.loss_on(runs, planned.name, stories)
                found.append(losses["new"] - losses["baseline"])
        return math.fsum(found) / len(found)


def table(lab: Lab) -> Sequence[tuple[str, str]]:
    """Returns the validation loss of each run that is done, by its name, for the learner to look at."""
    planned = lab.tried()
    if lab.is_whole():
        planned += [each for each in lab.finals() if each not in planned]
    rows: list[tuple[str, Any]] = [(each.name, arms.metrics(lab.folder / each.name)) for each in planned]
    return [(name, f"{arms.validation_loss(found):.4f}") for name, found in rows if found]
