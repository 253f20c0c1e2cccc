"""A claim: what an experiment varies and holds equal, and what its author expects, written before any run."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from commandline.text import counted
from grader.course import forms
from grader.course.attempts import DRAWN, record
from grader.course.forms import Form, is_number
from grader.course.workspace import Workspace
from grader.task import Experiment, Factor

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
        """A hash of all that is claimed."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


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
    record(space, DRAWN, task, factor=factor.name)
    return factor


def read(path: Path, task: Experiment, factor: Factor) -> Claim:
    """Returns the claim in a file. Raises UsageError, which says where it is not one."""
    form = forms.read(path, task).only(*ARMS, "seeds", "interval", "matters", "expects", "change_my_mind")
    expects = form.value("expects", 'is "lower", "higher" or "equal"', ("lower", "higher", "equal").__contains__)
    matters = form.value("matters", "is a difference above 0, in nats per token", lambda it: is_number(it) and it > 0)
    interval = form.interval("[-0.10, 0.02]")
    words = form.value(
        "change_my_mind", "is a sentence of three words or more", lambda it: isinstance(it, str) and len(it.split()) > 2
    )
    seeds = form.whole("seeds", 1, task.most_seeds)
    baseline, new = (_arm(form.part(name), task, factor) for name in ARMS)
    return Claim(baseline, new, seeds, interval, float(matters), expects, words.strip())


def _arm(form: Form, task: Experiment, factor: Factor) -> Arm:
    form.only("value", "rates", "steps", "settings")
    levels = (factor.baseline,) if form.name == "[baseline]" else factor.others
    value = form.value("value", f"is {' or '.join(map(repr, levels))}: you vary {factor.name}", levels.__contains__)
    most = task.most_rates
    rates = form.value(
        "rates", f"is a list of 1 to {most} learning rates between 0 and 1", lambda it: _are_rates(it, most)
    )
    settings = form.value("settings", 'is a list of texts such as "beta2=0.95"', _are_settings) or []
    for each in settings:
        if (key := each.partition("=")[0]) in {*_NO_SETTINGS, *factor.settings}:
            raise form.wrong("settings", f"may not hold {key}, which has its own place")
    return Arm(value, tuple(map(float, rates)), form.whole("steps", FEWEST_STEPS, task.steps), tuple(sorted(settings)))


def _are_rates(value: Any, most: int) -> bool:
    if not isinstance(value, list) or not all(is_number(rate) and 0 < rate < 1 for rate in value):
        return False
    return 1 <= len(set(value)) == len(value) <= most


def _are_settings(value: Any) -> bool:
    texts = [] if value is None else value
    return isinstance(texts, list) and all(isinstance(each, str) and "=" in each for each in texts)


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
    tried = sorted((len(arm.rates), name) for name, arm in (("baseline", baseline), ("new arm", new)))
    if tried[0][0] < tried[1][0]:
        (few, poorer), (many, richer) = tried
        rates = counted(many, "learning rate")
        yield f"The {richer} tries {rates}, and the {poorer} {few}: who searches more finds more."
