"""A claim: what an experiment varies and holds equal, and what its author expects, written before any run."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from commandline.errors import UsageError
from commandline.text import counted
from grader.course.forms import is_number, require_interval, require_known, table_of, wrong
from grader.course.workspace import Workspace
from grader.task import Experiment, Factor

DRAWN = "drawn"
"""The kind of entry of the log for the factor that a learner got."""
CLAIM, REPORT = "claim.toml", "report.md"
FEWEST_SEEDS = 3
EQUAL_WORK = 0.02  # how far the tokens of two arms may be apart
ARMS = ("baseline", "new")
FEWEST_STEPS = 100  # in fewer, a warm-up of 20 and a decay leave no room, and little is learned
_NO_SETTINGS = ("seed", "steps", "learning_rate", "data", "eval_every")  # they have a place of their own, or are given


@dataclass(frozen=True)
class Arm:
    """One arm of an experiment.

    Attributes:
        value: The value of the factor.
        rates: The learning rates to try.
        steps: The updates of each run.
        settings: Other settings, as `KEY=VALUE`. A fair comparison has the same in both arms.
    """

    value: str
    rates: tuple[float, ...]
    steps: int
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """What a learner says before any run.

    Attributes:
        baseline: The arm that is compared with.
        new: The other arm.
        seeds: The number of seeds, which both arms share.
        interval: An 80% interval for the difference of the losses, new minus baseline, in nats per token.
        matters: The smallest difference that would change what one does, in nats per token.
        expects: `lower`, `higher` or `equal`: what the new arm's loss is said to be.
        change_my_mind: What would change the author's mind, in their words.
    """

    baseline: Arm
    new: Arm
    seeds: int
    interval: tuple[float, float]
    matters: float
    expects: str
    change_my_mind: str

    @property
    def arms(self) -> dict[str, Arm]:
        """Both arms by name, the baseline first."""
        return {"baseline": self.baseline, "new": self.new}

    @property
    def digest(self) -> str:
        """A hash of all that is claimed. The seeds of the runs depend on it, so no run can come before the claim."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def seed(self, number: int, purpose: str = "run") -> int:
        """Returns a seed of the harness: that of run `number` of both arms, or another one for each purpose."""
        digest = hashlib.sha256(f"{self.digest} {purpose} {number}".encode()).digest()
        return int.from_bytes(digest[:4], "big") % (1 << 31)


def folder_of(space: Workspace, task: Experiment) -> Path:
    """Returns the folder of an experiment in a workspace."""
    return space.folder / "experiments" / task.label


def factor_of(space: Workspace, task: Experiment) -> Factor:
    """Returns the factor that a workspace got, or draws one and notes it: a learner keeps it, and others get others."""
    by_name = {factor.name: factor for factor in task.factors}
    drawn = [each.text("factor") for each in space.entries() if (each.kind, each.problem) == (DRAWN, task.label)]
    if drawn and drawn[-1] in by_name:
        return by_name[drawn[-1]]
    factor = task.factors[os.urandom(1)[0] % len(task.factors)]
    space.record(DRAWN, task.label, factor=factor.name)
    return factor


def read(path: Path, task: Experiment, factor: Factor) -> Claim:
    """Returns the claim in a file. Raises UsageError, which says where it is not one."""
    return _Reader(path, task, factor).claim(table_of(path, task))


@dataclass(frozen=True)
class _Reader:
    path: Path
    task: Experiment
    factor: Factor

    def claim(self, table: Mapping[str, Any]) -> Claim:
        require_known(self.path, table, "the claim", *ARMS, "seeds", "interval", "matters", "expects", "change_my_mind")
        seeds, interval, matters, expects, words = (
            table.get(name) for name in ("seeds", "interval", "matters", "expects", "change_my_mind")
        )
        if expects not in ("lower", "higher", "equal"):
            raise self.wrong('`expects` is "lower", "higher" or "equal"', expects)
        if not is_number(matters) or not matters > 0:
            raise self.wrong("`matters` is a difference above 0, in nats per token", matters)
        ends = require_interval(self.path, interval, "[-0.10, 0.02]")
        if not isinstance(words, str) or len(words.split()) < 3:
            raise self.wrong("`change_my_mind` is a sentence of three words or more", words)
        if type(seeds) is not int or not 1 <= seeds <= self.task.most_seeds:
            raise self.wrong(f"`seeds` is a number from 1 to {self.task.most_seeds}", seeds)
        baseline, new = (self.arm(name, table.get(name)) for name in ARMS)
        return Claim(baseline, new, seeds, ends, float(matters), expects, words.strip())

    def arm(self, name: str, table: Any) -> Arm:
        if not isinstance(table, dict):
            raise self.wrong(f"[{name}] is an arm", table)
        require_known(self.path, table, f"[{name}]", "value", "rates", "steps", "settings")
        value = table.get("value")
        levels = (self.factor.baseline,) if name == "baseline" else self.factor.others
        if value not in levels:
            named = " or ".join(map(repr, levels))
            raise wrong(self.path, f"`value` of [{name}] is {named}: you vary {self.factor.name}", value)
        rates, steps, settings = (table.get(key) for key in ("rates", "steps", "settings"))
        most = self.task.most_rates
        are_rates = isinstance(rates, list) and all(is_number(rate) and 0 < rate < 1 for rate in rates)
        if not isinstance(rates, list) or not are_rates or not 1 <= len(set(rates)) == len(rates) <= most:
            raise wrong(
                self.path, f"`rates` of [{name}] is a list of 1 to {most} learning rates between 0 and 1", rates
            )
        if type(steps) is not int or not FEWEST_STEPS <= steps <= self.task.steps:
            raise self.wrong(f"`steps` of [{name}] is a number from {FEWEST_STEPS} to {self.task.steps}", steps)
        settings = [] if settings is None else settings
        if not isinstance(settings, list) or not all(isinstance(each, str) and "=" in each for each in settings):
            raise self.wrong(f'`settings` of [{name}] is a list of texts such as "beta2=0.95"', settings)
        for each in settings:
            if (key := each.partition("=")[0]) in {*_NO_SETTINGS, *self.factor.settings}:
                raise self.wrong(f"`settings` of [{name}] may not hold {key}, which has its own place", each)
        return Arm(value, tuple(map(float, rates)), steps, tuple(sorted(settings)))

    def wrong(self, rule: str, value: Any) -> UsageError:
        return wrong(self.path, rule, value)


def flaws(claim: Claim) -> Iterator[str]:
    """Yields a sentence for each flaw of the design. A claim with flaws is run as it stands, and each flaw costs."""
    baseline, new = claim.baseline, claim.new
    if other := sorted(set(baseline.settings) ^ set(new.settings)):
        yield f"The arms differ in more than the factor, by {', '.join(other)}: the difference may be due to that."
    work = sorted((baseline.steps, new.steps))
    if work[1] > (1 + EQUAL_WORK) * work[0]:
        yield (
            f"One arm learns from {work[1] / work[0] - 1:.0%} more tokens ({work[1]} and {work[0]} steps): longer "
            "training alone lowers the loss."
        )
    if claim.seeds < FEWEST_SEEDS:
        yield (
            f"{counted(claim.seeds, 'seed').capitalize()} cannot show how much the loss varies by chance; take "
            f"{FEWEST_SEEDS} or more."
        )
    if len(baseline.rates) < len(new.rates):
        yield (
            f"The new arm tries {counted(len(new.rates), 'learning rate')}, and the baseline {len(baseline.rates)}: "
            "who searches more finds more."
        )
    elif len(new.rates) < len(baseline.rates):
        yield (
            f"The baseline tries {counted(len(baseline.rates), 'learning rate')}, and the new arm {len(new.rates)}: "
            "who searches more finds more."
        )
