"""The types that define an open task: Task, Review, Standard. An open task has no PASS but a score, and classes in
place of points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from grader.problem import Cases, Check, Entry, Problem


@dataclass(frozen=True)
class Standard:
    """A class of an open task.

    Attributes:
        name: Its name, such as `gold`.
        most: The highest score that is in it.
    """

    name: str
    most: float


@dataclass(frozen=True, eq=False)
class Task(Problem):
    """The definition of an open task: `TASK` in `tasks/NAME/task.py`. It has an entry, a page and a stub as a problem
    has, but no checks.

    Functions beside it make the score. `offer(subject)` of `offer.py` runs where the submission is loaded, without any
    data, and returns what can be judged without it: programs and settings. `weigh(offer, seed, witness)` of
    `evidence.py` runs in a process that never saw the submission. It is called with several seeds, and the worst score
    counts. If a submission may learn from public data, `learn(subject, settings)` of `evidence.py` runs in a second
    process with the submission, after its programs were traced, and returns JSON. If a submission makes a file,
    `save(subject)` of `evidence.py` runs first and returns its bytes, and `offer(subject, file)` opens it in another
    process.

    Attributes:
        cases: None: a task has no cases.
        checks: None: a task has no checks.
        unit: The unit of the score, of which less is better.
        standards: The classes, the easiest first.
        learns: Whether `evidence.py` has a function `learn`.
        saves: Whether `evidence.py` has a function `save`.
        text_bytes: The most bytes that the texts of a submission may have when they are compressed; 0 means no limit.
        seeds: The number of seeds of a full grading.
        run_seconds: The time limit of the witness for one seed, in seconds of computing.
    """

    cases: Mapping[str, Cases] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    unit: str = ""
    standards: tuple[Standard, ...] = ()
    learns: bool = False
    saves: bool = False
    text_bytes: int = 0
    seeds: int = 3
    run_seconds: float = 600.0

    @property
    def label(self) -> str:
        """Returns the name: a task has no number."""
        return str(self.name)

    @property
    def slug(self) -> str:
        """Returns the name."""
        return str(self.name)

    def standard(self, score: float) -> str:
        """Returns the name of the best class that a score is in; empty if it is in none."""
        return next((each.name for each in reversed(self.standards) if score <= each.most), "")


@dataclass(frozen=True)
class Factor:
    """What an experiment varies: one or more settings of the harness, which change together.

    Attributes:
        name: Its name.
        levels: The settings of each level by its name, as `KEY=VALUE`, the baseline first. A learner compares one of
            the others with it. A value such as `75%` is that part of the steps.
        question: What the experiment asks, in a sentence.
    """

    name: str
    levels: Mapping[str, tuple[str, ...]]
    question: str

    @property
    def baseline(self) -> str:
        """The level that is compared with."""
        return next(iter(self.levels))

    @property
    def others(self) -> tuple[str, ...]:
        """The levels that may be compared with it."""
        return tuple(self.levels)[1:]

    @property
    def settings(self) -> set[str]:
        """The names of the settings that it changes."""
        return {each.partition("=")[0] for level in self.levels.values() for each in level}


@dataclass(frozen=True, eq=False)
class Experiment(Task):
    """The definition of an open task in which a learner designs an experiment, runs it and reports it. It has no entry
    and no evidence of its own: all runs are those of the harness.

    Attributes:
        entries: None: nothing is programmed.
        factors: What may be varied. A workspace gets one of them, and some have no effect.
        settings: The settings of all runs, as `KEY=VALUE`.
        steps: The most updates of a run.
        most_rates: The most learning rates that an arm may try.
        most_seeds: The most seeds.
    """

    entries: tuple[Entry, ...] = ()
    factors: tuple[Factor, ...] = ()
    settings: tuple[str, ...] = ()
    steps: int = 0
    most_rates: int = 3
    most_seeds: int = 6


@dataclass(frozen=True, eq=False)
class Review(Task):
    """The definition of an open task in which a learner reviews changes. It has no entry, stub or evidence of its own:
    the changes are drawn from correct programs and misconceptions of problems.

    Attributes:
        entries: None: a change has the entries of its problems.
        numbers: The numbers of the problems.
    """

    entries: tuple[Entry, ...] = ()
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Cause:
    """Why a run can go wrong.

    Attributes:
        name: Its name, as a diagnosis writes it.
        what: What it is, in a few words.
        sign: How one sees it in the folder of a run, in a sentence or two.
    """

    name: str
    what: str
    sign: str


@dataclass(frozen=True, eq=False)
class Diagnosis(Task):
    """The definition of an open task in which a learner finds out why a run went wrong. It has no entry and no evidence
    of its own: a module that the grader runs as a process trains the runs.

    Attributes:
        entries: None: nothing is programmed.
        module: The module that trains: `python -m MODULE CAUSE SEED FOLDER`.
        drawn: The names of the causes that a run of this task may have.
        causes: All causes that a diagnosis may name.
        changes: The settings that a prediction may change.
        steps: The updates of a run.
    """

    entries: tuple[Entry, ...] = ()
    module: str = ""
    drawn: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    changes: tuple[str, ...] = ()
    steps: int = 0
