"""A learner's experiment from the claim to the score: one run is repeated, and seeds that nobody knew are run."""

import json
import math
import os
import tempfile
from dataclasses import replace
from pathlib import Path

from commandline import files
from commandline.errors import UsageError
from commandline.text import counted
from grader.course import forms
from grader.course.attempts import Attempt, Say, write_missing
from grader.course.scores import Part, Score, Told, Verbatim, begun, interval_cost
from grader.course.workspace import Workspace
from grader.experiment import arms, claim
from grader.experiment.arms import Lab, Planned
from grader.experiment.claim import ARMS, CLAIM, REPORT, factor_of, flaws, folder_of
from grader.experiment.report_file import Found, check, filled, verdict_in, verdict_of
from grader.task import Experiment

OPENED = "opened"
"""The kind of entry of the log for test losses that were seen."""
FILLED = "report_filled.md"
SECRET_SEEDS = 2
FLAW = 250  # points that a flaw of the design costs


class Claimed(Attempt[Experiment]):
    """A claim that a learner has made. The log holds its digest and its salt, and the file the rest."""

    BEGINS = "claimed"

    @classmethod
    def make(cls, space: Workspace, task: Experiment) -> "Claimed":
        """Returns the claim in the file, and notes it if it is new. Raises UsageError."""
        digest = lab_of(space, task).claim.digest
        known = [each for each in cls.all(space, task) if each.begun.text("claim") == digest]
        return known[0] if known else cls.begin(space, task, claim=digest, salt=os.urandom(4).hex())

    @classmethod
    def find(cls, space: Workspace, task: Experiment) -> "Claimed":
        """Returns the claim in the file. Raises UsageError if it was not made, or has changed since."""
        path, made = folder_of(space, task) / CLAIM, cls.all(space, task)
        if not made:
            raise UsageError(f"Fill in {path}, then `grade claim {task.label}`: the claim comes first.")
        digest = lab_of(space, task).claim.digest
        if digest not in [each.begun.text("claim") for each in made]:
            raise UsageError(
                f"{path} has changed since you claimed. `grade claim {task.label}` claims what it says now; its runs "
                "begin again, with other seeds."
            )
        return cls.make(space, task)

    @property
    def lab(self) -> Lab:
        """Where its runs are."""
        return replace(lab_of(self.space, self.task), salt=self.begun.text("salt"))

    @property
    def opened(self) -> dict[str, list[float]] | None:
        """The losses on the test stories for each arm; None before they were opened."""
        known = self.entries(OPENED)
        return json.loads(known[0].text("losses")) if known else None

    def found(self) -> Found:
        """Returns what the runs gave. Opens the test stories if they are closed: their losses are then in the log, and
        stay what they are."""
        lab = self.lab
        chosen = {name: lab.final(name) for name in ARMS}
        losses = self.opened
        if losses is None:
            with tempfile.TemporaryDirectory() as scratch:
                stories = Path(scratch) / "test.txt"
                arms.write_stories(stories, lab.seed(0, "test"))
                losses = {
                    name: [arms.loss_on(lab.folder, each.name, stories) for each in chosen[name]] for name in ARMS
                }
            self.note(OPENED, losses=json.dumps(losses))
        validation = {name: [lab.validation_loss(each) for each in chosen[name]] for name in ARMS}
        return Found(losses, validation, {name: lab.rate(name) for name in ARMS})

    def judge(self, secret: int, say: Say = lambda text: None) -> Score:
        """Returns the score of an experiment whose runs are done and whose report names a verdict. Writes the report
        with its numbers. Raises UsageError."""
        lab, text = self.lab, report(self.space, self.task)
        stated = verdict_in(text)
        check(text, lab.claim, lab.factor, lab.config(lab.tried()[0]))  # before the test stories are opened
        if not lab.has_learned():
            return Score(
                refused="Neither arm ends at half of its first loss or below. Where hardly anything is learned, two "
                "arms cannot differ. Take rates with which a model learns, and claim again: "
                f"`grade claim {self.task.label}`."
            )
        say("measuring the loss on the test stories")
        found = self.found()
        files.write(folder_of(self.space, self.task) / FILLED, filled(text, found.values()))
        follows = verdict_of(lab.claim, found)
        if stated != follows:
            low, high = found.interval or (math.nan, math.nan)
            return Score(
                refused=f"Your report says {stated!r}. From your claim ({lab.claim.expects}, and at least "
                f"{lab.claim.matters:g} matters) and the interval [{low:+.4f}, {high:+.4f}] follows {follows!r}. "
                f"Write that verdict and what it means, then `grade task {self.task.label}`."
            )
        if refused := _repeat(lab, secret, say):
            return Score(refused=refused)
        truth = _truth(lab, secret, say)
        width, miss = (round(1000 * cost) for cost in interval_cost(lab.claim.interval, truth))
        told = "it holds the difference" if not miss else "the difference lies outside of it, ten times as far"
        wrong = list(flaws(lab.claim))
        parts = (
            Part(width, "the width of your interval, in thousandths of a nat"),
            Part(miss, f"{told}: {truth:+.4f} with seeds that nobody knew"),
            *(Part(FLAW, flaw) for flaw in wrong),
        )
        return Score(parts, facts={"width": width, "miss": miss, "flaws": wrong, "truth": truth})


def step(
    space: Workspace, task: Experiment, *, secret: int = 0, give_up: bool = False, say: Say = lambda text: None
) -> Told:
    """Does what comes next in an experiment: writes its files, trains the runs of its claim, or scores its report.
    Raises UsageError and CommandError."""
    if give_up:
        raise UsageError("An experiment has nothing to give up: its runs say what is true.")
    factor, folder = factor_of(space, task), folder_of(space, task)
    words = {
        "factor": factor.name,
        "baseline": factor.baseline,
        "new": factor.others[0],
        "others": " or ".join(f'"{each}"' for each in factor.others),
        "question": factor.question,
    }
    texts = {folder / name: (task.folder / name).read_text(encoding="utf-8") for name in (CLAIM, REPORT)}
    for key, value in words.items():
        texts = {path: text.replace(f"<{key}>", value) for path, text in texts.items()}
    new = write_missing(texts)
    if folder / CLAIM in new or (new and not Claimed.all(space, task)):
        what = f"Read `grade show {task.label}`, fill in {CLAIM}, then `grade claim {task.label}`."
        return begun(new, f"{factor.question} {what}")
    claimed = Claimed.find(space, task)
    claimed.lab.run_all(say)
    if not verdict_in(report(space, task)):
        return _of_runs(claimed)
    score = claimed.judge(secret, say)
    if score.value is not None:
        claimed.end(score.value, digest=claimed.begun.text("claim"))
    claims = counted(len(Claimed.all(space, task)), "claim")
    return score.told(task, f"You have made {claims} here. The report with its numbers: {folder / FILLED}")


def lab_of(space: Workspace, task: Experiment) -> Lab:
    """Returns the lab of the claim as it stands in the file. Raises UsageError."""
    folder, factor = folder_of(space, task), factor_of(space, task)
    made = claim.read(folder / CLAIM, task, factor)
    return Lab(task, factor, made, folder / "runs" / made.digest[:8])


def report(space: Workspace, task: Experiment) -> str:
    """Returns the text of the report. Raises UsageError if it cannot be read."""
    return forms.text_of(folder_of(space, task) / REPORT, task)


def _of_runs(claimed: Claimed) -> Told:
    """Returns the validation loss of each run, for the learner to look at."""
    lab, path = claimed.lab, folder_of(claimed.space, claimed.task) / REPORT
    rows = {each.name: f"{lab.validation_loss(each):.4f}" for each in lab.planned()}
    blocks = (
        "Validation loss, in nats per token:",
        Verbatim("\n".join(f"  {name:28} {loss}" for name, loss in rows.items())),
        f"All runs are done. Write {path} with a verdict, then `grade task {claimed.task.label}` opens the test "
        "stories and scores it.",
    )
    return Told(blocks, {"validation": rows})


def _repeat(lab: Lab, secret: int, say: Say) -> str:
    """Trains one of the runs again. Returns a sentence if it is not equal, bit for bit."""
    runs = lab.finals()
    chosen = runs[lab.seed(secret, "repeat") % len(runs)]
    say(f"repeating {chosen.name}")
    with tempfile.TemporaryDirectory() as scratch:
        again = lab.train(chosen, folder=Path(scratch))
    if again == arms.metrics(lab.folder / chosen.name):
        return ""
    return (
        f"{lab.folder / chosen.name} was trained again, and the numbers are others. Remove the folder, and it is "
        "trained on this machine with these versions; then grade again."
    )


def _truth(lab: Lab, secret: int, say: Say) -> float:
    """Returns the mean difference of runs with seeds that nobody knew."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        stories = Path(scratch) / "test.txt"
        arms.write_stories(stories, lab.seed(secret, "secret test"))
        for number in range(SECRET_SEEDS):
            losses = {}
            for name in ARMS:
                say(f"seed {number + 1} of {SECRET_SEEDS} that nobody knew, {name}")
                planned = Planned(name, lab.rate(name), lab.claim.seeds + number)
                runs = Path(scratch) / str(number)
                lab.train(planned, lab.seed(secret + number, "secret"), runs)
                losses[name] = arms.loss_on(runs, planned.name, stories)
            found.append(losses["new"] - losses["baseline"])
    return math.fsum(found) / len(found)
