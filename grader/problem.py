"""The vocabulary in which a problem is written: Problem, Entry, Cases, Case, Check, Tolerance.

Imported by every `problems/*/problem.py`, by the judge and by the workers. It imports nothing heavy, so that listing the
course is instant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np

    Value = bool | int | float | str | np.ndarray[Any, Any]

Compare = Literal["close", "at_most"]


@dataclass(frozen=True)
class Tolerance:
    """How far a value may be from the reference's: `atol * max(1, rms of the leaf) + rtol * |expected|`.

    For `at_most` comparisons: how far above `expected * (1 + rtol) + atol` it may not be. `room` is how many times smaller
    the errors of correct programs must be, and how many times larger those of wrong ones, for the tolerance to be sound: 10
    for rounding errors; less where the numbers are rough by nature, with the reason beside it.
    """

    rtol: float
    atol: float
    room: float = 10.0


# Two correct float32 programs of this course's sizes (sums of at most a few hundred terms, a few layers deep) were seen to
# differ by 2e-6 of a leaf's size; a tenfold margin above that is still a hundred times below the smallest wrong idea.
FLOAT32 = Tolerance(rtol=2e-5, atol=2e-5)
# Finite differences of float32 outputs of order one are right to about 1e-3.
NUMERIC = Tolerance(rtol=1e-2, atol=1e-2)
EXACT = Tolerance(rtol=0.0, atol=0.0)
# Adam divides by the root of a mean square: where a gradient is nearly 0, rounding decides the sign of its first step, which
# is then as long as the learning rate, 0.05 in these problems. A hundredth of that is still far below what a wrong step does.
ADAM = Tolerance(rtol=5e-4, atol=5e-4)


@dataclass(frozen=True)
class Entry:
    """A function or class that is graded.

    A function is called with the case's values named in `arguments`, in that order: numbers stay Python numbers, arrays
    are traced. A module is constructed from those named in `construct` and `rngs=`, then called with `arguments`. Where the
    page leaves a module's constructor open, `made_by` is a function entry that constructs one: that one is graded. Files that
    use the entry's former name, `formerly`, are still graded.
    """

    name: str
    arguments: tuple[str, ...]
    construct: tuple[str, ...] | None = None
    made_by: Entry | None = None
    formerly: str = ""

    @property
    def is_module(self) -> bool:
        return self.construct is not None or self.made_by is not None

    def signature(self) -> str:
        """How the page writes it: `next_token_loss(logits, token_ids, pad_id)`."""
        if self.made_by:
            return self.name
        if self.construct is None:
            return f"{self.name}({', '.join(self.arguments)})"
        return f"{self.name}({', '.join([*self.construct, 'rngs'])})"


@dataclass(frozen=True, eq=False)
class Case:
    """One set of inputs: numbers and arrays by name. `sizes` and `seed` are what it was made from.

    A case equals only itself: comparing arrays would cost more than it tells.
    """

    values: Mapping[str, Value]
    group: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0


@dataclass(frozen=True)
class Cases:
    """A family of cases: named sizes to draw from, and how to make the inputs.

    `sizes` maps each name to the values it may take, simplest first (what a failing case shrinks towards). `make` gets the
    drawn sizes and a seeded generator and returns the inputs by name. Each new combination of sizes is a new
    compilation, so `draws` is small.
    """

    make: Callable[[Mapping[str, int], np.random.Generator], Mapping[str, Value]]
    sizes: Mapping[str, Sequence[int]]
    draws: int = 3


@dataclass(frozen=True)
class Check:
    """One graded property: a probe run on the reference and on the submission, and some of the leaves it returns.

    `probe` names a function of `grader/probes.py` or of the problem's own `probes.py`, called with `options`. Of the leaves
    it returns, those at or below `leaves` are compared. Checks with the same probe and options share one run. `words`
    turns the numbers of a coded leaf back into words for the reader; `advice` says what a failure usually means.
    """

    name: str
    points: int
    probe: str
    options: Mapping[str, Any] = field(default_factory=dict)
    leaves: str = ""
    cases: str = "cases"
    compare: Compare = "close"
    tolerance: Tolerance = FLOAT32
    words: Mapping[int, str] = field(default_factory=dict)
    advice: str = ""


class ProblemName(str):
    """The name of a problem, `p07_next_token_loss`: also that of its folder, of its reference and of a learner's file."""

    PATTERN = re.compile(r"p(\d\d)_([a-z0-9_]+)")

    @classmethod
    def parse(cls, text: str) -> ProblemName | None:
        """The name that `text` is, or None if it is not one."""
        return cls(text) if cls.PATTERN.fullmatch(text) else None

    @property
    def number(self) -> int:
        return int(self.label)

    @property
    def label(self) -> str:
        """The number in two digits: `07`."""
        return self[1:3]

    @property
    def slug(self) -> str:
        """The words: `next_token_loss`."""
        return self[4:]


@dataclass(frozen=True)
class Problem:
    """What `problems/pNN_slug/problem.py` defines as `PROBLEM`. `folder` is filled in by `grader.course`.

    `builds_on` are the numbers of the problems whose entries or ideas this one uses. `long_runs` says that its probes run for so
    long that XLA should make their programs fast, rather than fast to compile.
    """

    title: str
    entries: tuple[Entry, ...]
    cases: Mapping[str, Cases]
    checks: tuple[Check, ...]
    builds_on: tuple[int, ...] = ()
    devices: int = 1
    timeout: float = 30.0
    long_runs: bool = False
    folder: Path = Path()

    @property
    def name(self) -> ProblemName:
        return ProblemName(self.folder.name)

    @property
    def number(self) -> int:
        return self.name.number

    @property
    def label(self) -> str:
        return self.name.label

    @property
    def slug(self) -> str:
        return self.name.slug

    @property
    def points(self) -> int:
        return sum(check.points for check in self.checks)

    def entry(self, name: str) -> Entry:
        return next(entry for entry in self.entries if entry.name == name)
