"""Draws a change to review: files, styles and faults, by seed. What the learner overlooked before comes first."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import lru_cache

from commandline.errors import UsageError
from grader.changes.change import Change, ChangedFile, bases, change, changed_file
from grader.course import cases as cases_
from grader.course import catalog
from grader.isolation.sandbox import Workers
from grader.judge import bundled_outputs
from grader.judge.judge import CasesByGroup
from grader.judge.reference import Answers
from grader.judge.verdict import Verdict
from grader.practice import hunts, run_program
from grader.practice.hunts import Hunt
from grader.problem import Problem
from grader.task import Review

LEAST, MOST = 40, 80  # changed lines
MOST_FILES = 3
NUMBERS = (0, 1, 1, 2, 2, 3)  # of faults; one is drawn
FEWEST_SISTERS, MOST_SISTERS = 2, 4
# Leaves that a test cannot ask for: it has no derivatives, and an optimizer's state has no names that all styles share.
_UNSEEN = ("gradient", "optimizer", "inner", "skipped")


@dataclass(frozen=True)
class Plan:
    """What a change is made from, as the log records it: all that its text depends on.

    Attributes:
        seed: The seed of the names.
        files: For each file the name of the problem, and the styles before and after.
        faults: The ids of the hunts whose faults it holds.
        sisters: For each id of a fault, ids of hunts with a fault of the same kind.
    """

    seed: str
    files: tuple[tuple[str, str, str], ...]
    faults: tuple[str, ...] = ()
    sisters: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def dumps(self) -> str:
        """Returns it as text for the log."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> "Plan":
        """Returns what `dumps` wrote."""
        known = json.loads(text)
        sisters = {fault: tuple(kin) for fault, kin in known["sisters"].items()}
        return cls(known["seed"], tuple(map(tuple, known["files"])), tuple(known["faults"]), sisters)

    def change(self) -> Change:
        """Returns the change. Raises UsageError if the course no longer has what it is made from."""
        made = []
        for name, old, new in self.files:
            problem = catalog.find(name)
            faults = [hunt for hunt in hunts_of(problem) if hunt.id in self.faults and hunt.base == new]
            known = bases(problem)
            file = changed_file(problem, old, new, faults, self.seed) if {old, new} <= known.keys() else None
            made += [file] if file else []
        found = change(self.seed, made)
        if len(found.files) < len(self.files) or len(found.faults) < len(self.faults):
            raise UsageError("The course no longer has what this change was made from.")
        return found

    def sisters_of(self, fault: Hunt) -> list[Hunt]:
        """Returns the hunts with a fault of the same kind."""
        chosen = self.sisters.get(fault.id, ())
        return [hunt for hunt in hunts_of(fault.problem) if hunt.id in chosen]


@dataclass
class Proofs:
    """Runs programs against the checks of their problems, to prove that a fault is one and what has none passes."""

    workers: Workers
    say: Callable[[str], None] = lambda text: None
    _known: dict[str, tuple[Answers, CasesByGroup]] = field(default_factory=dict)
    _faults: dict[str, bool] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "Proofs":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def failures(self, problem: Problem, text: str) -> Iterator[run_program.Failed]:
        """Yields the checks that a program fails."""
        if problem.name not in self._known:
            reference = bundled_outputs.reference(problem, self.workers)
            self._stack.callback(reference.close)
            self._known[problem.name] = reference, cases_.draw_all(problem, 0)
        reference, cases = self._known[problem.name]
        source = run_program.source_of(problem, text)
        yield from run_program.failures(problem, source, self.workers, reference=reference, cases=cases)

    def is_fault(self, hunt: Hunt) -> bool:
        """Returns whether the program of a hunt returns wrong values, which a test can see."""
        self.say(f"looking for faults in problem {hunt.problem.label}")
        if hunt.id not in self._faults:
            self._faults[hunt.id] = self._differs(hunt)
        return self._faults[hunt.id]

    def _differs(self, hunt: Hunt) -> bool:
        return any(
            failed.result.verdict is Verdict.FAIL
            and failed.result.mismatch is not None
            and not failed.result.check.is_claim
            and failed.result.check.leaves.partition(".")[0] not in _UNSEEN
            for failed in self.failures(hunt.problem, hunt.broken)
        )

    def is_right(self, file: ChangedFile) -> bool:
        """Returns whether a file passes without its faults."""
        return next(self.failures(file.problem, file.correct), None) is None


def problems(task: Review) -> list[Problem]:
    """Returns the problems that changes of a task are drawn from, as far as this copy of the course shows their
    references."""
    return [each for each in catalog.problems() if each.number in task.numbers and catalog.shows_solution(each)]


def draw(allowed: Sequence[Problem], wanted: Sequence[str], seed: str, is_fault: Callable[[Hunt], bool]) -> Plan:
    """Returns the plan of a change from some of these problems. `wanted` are names of problems and of misconceptions
    that come first. `is_fault` proves a fault."""
    chance = random.Random(seed)  # noqa: S311  for variety only
    number = max(chance.choice(NUMBERS), 1 if wanted else 0)
    in_order = sorted(chance.sample(list(allowed), len(allowed)), key=lambda each: each.name not in wanted)
    files: list[tuple[Problem, str, str]] = []
    size = 0
    for problem in in_order:
        if size >= LEAST or len(files) == MOST_FILES:
            break
        for old, new in _styles(problem, wanted, chance):
            file = changed_file(problem, old, new, (), seed)
            if file and size + file.size <= MOST:
                files.append((problem, old, new))
                size += file.size
                break
    plan = Plan(seed, tuple((problem.name, old, new) for problem, old, new in files))
    candidates = [hunt for problem, _, new in files for hunt in hunts_of(problem) if hunt.base == new]
    chance.shuffle(candidates)
    candidates.sort(key=lambda hunt: hunt.misconception.name not in wanted)
    return _with_faults(plan, candidates, number, is_fault, chance)


@lru_cache(maxsize=16)
def hunts_of(problem: Problem) -> tuple[Hunt, ...]:
    """Returns all hunts of a problem."""
    return hunts.of(problem)


def _styles(problem: Problem, wanted: Sequence[str], chance: random.Random) -> list[tuple[str, str]]:
    """Returns pairs of styles, before and after, in random order. In those that come first, a fault is possible in the
    style after: one that is wanted, if there is any. The reference, in which most faults are possible, is not always
    the style after."""
    names = list(bases(problem))
    found = hunts_of(problem)
    pairs = [(old, new) for old in names for new in names if old != new]
    possible = {hunt.base for hunt in found}
    has_wanted = {hunt.base for hunt in found if hunt.misconception.name in wanted}
    others = chance.random() < 0.5
    chance.shuffle(pairs)
    return sorted(
        pairs,
        key=lambda pair: (
            pair[1] not in possible,
            bool(has_wanted) and pair[1] not in has_wanted,
            (pair[1] == hunts.REFERENCE) == others,
        ),
    )


def _with_faults(
    plan: Plan, candidates: Sequence[Hunt], number: int, is_fault: Callable[[Hunt], bool], chance: random.Random
) -> Plan:
    """Returns the plan with so many of these faults, as far as they fit, and sisters of each."""
    for hunt in candidates:
        if len(plan.faults) == number:
            break
        new = Plan(plan.seed, plan.files, (*plan.faults, hunt.id), plan.sisters)
        near = sisters(hunt)
        if len(near) < FEWEST_SISTERS or hunt.misconception.raises or not _fits(new) or not is_fault(hunt):
            continue
        chance.shuffle(near)
        proved: list[str] = []
        for sister in near:
            if len(proved) < MOST_SISTERS and is_fault(sister):
                proved.append(sister.id)
        if len(proved) >= FEWEST_SISTERS:
            plan = Plan(new.seed, new.files, new.faults, {**plan.sisters, hunt.id: tuple(proved)})
    return plan


def _fits(plan: Plan) -> bool:
    """Returns whether the faults of a plan are in hunks of their own, and the change is not too long with them."""
    try:
        return plan.change().size <= MOST
    except UsageError:
        return False


def sisters(hunt: Hunt) -> list[Hunt]:
    """Returns the hunts with a fault of the same kind: the same misconception in other styles, and misconceptions
    whose edits of the reference touch the same lines."""
    source = catalog.solution_text(hunt.problem)
    touched = {each.name: _touched(source, each.find) for each in catalog.misconceptions(hunt.problem)}
    own = touched[hunt.misconception.name]
    return [
        other
        for other in hunts_of(hunt.problem)
        if other.id != hunt.id and not other.misconception.raises and touched[other.misconception.name] & own
    ]


def _touched(source: str, found: str) -> set[int]:
    """Returns the lines of a text that the first occurrence of another is in."""
    start = source.find(found)
    first = source.count("\n", 0, start)
    return set(range(first, first + found.rstrip("\n").count("\n") + 1))
