"""The runs that a claim asks for: planned, trained by the harness, and read."""

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from commandline import files
from commandline.errors import CommandError, UsageError
from grader.course.attempts import Say
from grader.experiment.claim import ARMS, CLAIM, Arm, Claim
from grader.isolation import child
from grader.task import Experiment, Factor

TEST_STORIES = 300
LEARNED = 0.5  # of its first loss: a run that ends above it has hardly learned anything
DONE = "done"  # the file of a run that is trained: its last metrics come before its last checkpoint
CONFIG = "config.json"
KEPT = ("step", "loss", "gradient_norm", "learning_rate", "validation_loss")  # of a line of metrics; no times


class Planned(NamedTuple):
    """One run of an experiment: its arm, its learning rate, and the number of its seed."""

    arm: str
    rate: float
    number: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.arm}-{self.rate:g}-{self.number}"


@dataclass(frozen=True)
class Lab:
    """Where the runs of a claim are, and how they are trained.

    Attributes:
        task: The experiment.
        factor: What it varies.
        claim: What its author says.
        folder: The folder of the runs. That of another claim has another name.
        salt: What was drawn when the claim was made. The seeds depend on it, so no run can come before the claim, and
            none is that of another learner with the same claim.
    """

    task: Experiment
    factor: Factor
    claim: Claim
    folder: Path
    salt: str = ""

    def seed(self, number: int, purpose: str = "run") -> int:
        """Returns a seed of the harness: that of run `number` of both arms, or another one for each purpose."""
        digest = hashlib.sha256(f"{self.claim.digest}{self.salt} {purpose} {number}".encode()).digest()
        return int.from_bytes(digest[:4], "big") % (1 << 31)

    def settings(self, planned: Planned, seed: int) -> dict[str, str]:
        """Returns the settings of a run by name, as the harness takes them."""
        arm: Arm = self.claim.arms[planned.arm]
        given = dict(each.partition("=")[::2] for each in (*self.task.settings, *arm.settings))
        varied = dict(each.partition("=")[::2] for each in self.factor.levels[arm.value])
        parts = {name: str(int(value[:-1]) * arm.steps // 100) for name, value in varied.items() if value[-1] == "%"}
        own = {"seed": str(seed), "learning_rate": repr(planned.rate), "steps": str(arm.steps)}
        return {**given, **varied, **parts, **own}

    def train(self, planned: Planned, seed: int | None = None, folder: Path | None = None) -> list[dict[str, Any]]:
        """Trains a run, or what is left of it, and returns the lines of its metrics. Raises UsageError if the harness
        refuses the settings, and CommandError if it does not finish the run."""
        settings = self.settings(planned, self.seed(planned.number) if seed is None else seed)
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        runs = self.folder if folder is None else folder
        try:
            child.run("harness", "train", "--quiet", "--run", planned.name, "--runs", str(runs), *words)
        except UsageError as error:
            raise UsageError(
                f"The harness refuses {planned.name}: {error} Change {CLAIM}, then `grade claim {self.task.label}`."
            ) from None
        rows = metrics(runs / planned.name)
        if not rows or rows[-1]["step"] < self.claim.arms[planned.arm].steps:
            raise CommandError(f"{planned.name} was stopped before its last step. Repeat the command to resume it.")
        return rows

    def is_done(self, planned: Planned) -> bool:
        """Whether a run is trained to its end. Raises UsageError if its folder is that of another run."""
        if not (self.folder / planned.name / DONE).exists():
            return False
        self.check(planned)
        return True

    def check(self, planned: Planned) -> None:
        """Raises UsageError if the settings of a run that is done are not those of the claim, or its metrics are
        gone."""
        path, found = self.folder / planned.name / CONFIG, self.config(planned)
        for name, value in self.settings(planned, self.seed(planned.number)).items():
            if not _is_same(found.get(name), value):
                raise UsageError(
                    f"{path.parent} is no run of this claim: it has {name}={found.get(name)}, and the claim {value}. "
                    "Runs that were made before the claim do not count; remove the folder, and it is trained."
                )
        if not metrics(path.parent):
            raise UsageError(f"{path.parent} has no metrics that can be read. Remove it, and it is trained again.")

    def config(self, planned: Planned) -> dict[str, Any]:
        """Returns all settings of a run, those of the harness included. Raises UsageError if they cannot be read."""
        path = self.folder / planned.name / CONFIG
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise UsageError(f"{path} cannot be read. Remove {path.parent}, and it is trained again.") from None

    def tried(self) -> list[Planned]:
        """Returns the runs with the first seed, which choose the learning rate of each arm."""
        return [Planned(name, rate, 0) for name, arm in self.claim.arms.items() for rate in arm.rates]

    def rate(self, arm: str) -> float:
        """Returns the learning rate of the least validation loss with the first seed. The runs must be done."""
        rates = self.claim.arms[arm].rates
        return min(rates, key=lambda rate: self.validation_loss(Planned(arm, rate, 0)))

    def validation_loss(self, planned: Planned) -> float:
        """Returns the last validation loss of a run; infinite if it has none, or none that is a number."""
        rows = metrics(self.folder / planned.name)
        seen = [row["validation_loss"] for row in rows if row.get("validation_loss") is not None]
        return float(seen[-1]) if seen and math.isfinite(float(seen[-1])) else math.inf

    def final(self, arm: str) -> list[Planned]:
        """Returns the runs of an arm that its last number comes from, one for each seed."""
        rate = self.rate(arm)
        return [Planned(arm, rate, number) for number in range(self.claim.seeds)]

    def finals(self) -> list[Planned]:
        """Returns the runs of both arms that the last numbers come from."""
        return [each for arm in self.claim.arms for each in self.final(arm)]

    def planned(self) -> list[Planned]:
        """Returns all runs as far as they are known: those with the first seed choose the learning rates of the
        others."""
        tried = self.tried()
        return list(dict.fromkeys([*tried, *(self.finals() if all(map(self.is_done, tried)) else [])]))

    def run_all(self, say: Say = lambda text: None) -> None:
        """Trains every run that is not done."""
        total = len(self.tried()) + len(ARMS) * (self.claim.seeds - 1)
        while missing := [each for each in self.planned() if not self.is_done(each)]:
            for each in missing:
                say(f"run {1 + sum(map(self.is_done, self.planned()))} of {total}, {each.name}")
                self.train(each)
                files.write(self.folder / each.name / DONE, "")

    def has_learned(self) -> bool:
        """Whether all runs of one arm end at half of their first loss or below. Where neither arm does, the two cannot
        differ. The runs must be done."""

        def learned(planned: Planned) -> bool:
            first = metrics(self.folder / planned.name)[0]
            return self.validation_loss(planned) <= LEARNED * float(first.get("loss", 0))

        return any(all(map(learned, self.final(arm))) for arm in ARMS)


def metrics(run: Path) -> list[dict[str, Any]]:
    """Returns the lines of the metrics of a run, without times; none if there are none."""
    try:
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [{name: row[name] for name in KEPT if name in row} for row in map(json.loads, lines)]
    except (OSError, ValueError, TypeError):
        return []


def write_stories(path: Path, seed: int) -> None:
    """Writes stories that no run has seen to a file."""
    child.run("tasks.held_out_stories", str(seed), str(TEST_STORIES), str(path))


def loss_on(runs: Path, name: str, stories: Path) -> float:
    """Returns the loss of a run's best checkpoint on the stories of a file, in nats per token."""
    said = child.run("harness", "eval", name, "--runs", str(runs), "--data", str(stories), "--json")
    return float(json.loads(said)["loss"])


def _is_same(found: Any, typed: str) -> bool:
    if isinstance(found, bool):
        return typed == str(found).lower()
    if isinstance(found, int | float):
        try:
            return float(typed) == found
        except ValueError:
            return False
    return str(found) == typed
