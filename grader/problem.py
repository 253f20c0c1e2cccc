"""The types that define a problem: Problem, Entry, Cases, Case, Check, Tolerance.

Imported by every `problems/*/problem.py`, by the judge and by the workers. Imports nothing heavy, so that `grade list`
is fast.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from commandline.problem_name import ProblemName

if TYPE_CHECKING:
    import numpy as np

    Value = bool | int | float | str | np.ndarray[Any, Any]
    """An input of a case."""

Compare = Literal["close", "at_most"]
"""The comparison of a leaf: it must be close to the reference's, or at most as large."""
UNCHECKED = "unchecked."
"""The prefix of leaves that no check compares: they help to tell misconceptions apart."""
PROGRAM = "program."
"""The prefix of leaves that a witness measures of a compiled program."""
INPUTS = PROGRAM + "inputs."
"""The prefix of measures that say where a program takes its inputs."""
OUTPUT = "output."
"""The prefix of the parts of an entry's output."""


@dataclass(frozen=True)
class Difference:
    """A value that differs from the reference's.

    Attributes:
        path: The dotted path of its leaf.
        index: Its index in that leaf; empty for a scalar.
        expected: The reference's value, as a report shows it.
        got: The submission's value, as a report shows it.
        expected_leaf: All values of that leaf, by the reference; None if they are not known.
        got_leaf: All values of that leaf, by the submission.
    """

    path: str
    index: tuple[int, ...]
    expected: str
    got: str
    expected_leaf: Any = None
    got_leaf: Any = None


@dataclass(frozen=True)
class Tolerance:
    """The largest difference from the reference's value that passes: `atol * max(1, rms of the leaf) + rtol *
    |expected|`.

    An `at_most` comparison passes up to `expected * (1 + rtol) + atol`.

    Attributes:
        rtol: The part of the tolerance that grows with the value.
        atol: The part that grows with the root mean square of the leaf; of an `at_most` comparison, in its unit.
        room: The safety margin that makes a tolerance sound: errors of correct programs must be that many times smaller
            than the tolerance, and errors of wrong ones that many times larger. It is 10 for rounding errors. Where it
            is less, because the numbers are rough, a comment gives the reason.
    """

    rtol: float
    atol: float
    room: float = 10.0


FLOAT32 = Tolerance(rtol=2e-5, atol=2e-5)
"""The tolerance of float32 values and gradients, and the default.

Measured: two correct float32 programs of this course's sizes (sums of at most a few hundred terms, a few layers) differ
by 2e-6 of a leaf's size. The tolerance is ten times that, and the smallest error of a misconception is 100 times the
tolerance.
"""
NUMERIC = Tolerance(rtol=1e-2, atol=1e-2)
"""The tolerance of finite differences: those of float32 outputs of order one are accurate to about 1e-3."""
EXACT = Tolerance(rtol=0.0, atol=0.0)
"""The tolerance of counts, flags and copied numbers: none."""
ADAM = Tolerance(rtol=5e-4, atol=5e-4)
"""The tolerance of parameters after steps of Adam, which divides by the root of a mean square.

Where a gradient is nearly 0, rounding decides the sign of the first step, and the step is as long as the learning rate:
0.05 in these problems. A hundredth of that is far below the error of a wrong step.
"""


@dataclass(frozen=True)
class Entry:
    """A function or class that is graded.

    Numbers of a case stay Python numbers, and arrays are traced.

    Attributes:
        name: The name of the function or class.
        arguments: The names of the case's values that it is called with, in that order. A case may lack the last ones:
            then their defaults count.
        construct: For a module, the names of the values that it is constructed from, besides `rngs=`; None for a
            function. A case may lack the last ones: then their defaults count.
        made_by: The function entry that constructs the module to grade, where the page leaves its constructor open.
        returns: The names of the parts of a returned tuple, as on the page.
        formerly: The former name of the entry. Files that use it are still graded.
    """

    name: str
    arguments: tuple[str, ...]
    construct: tuple[str, ...] | None = None
    made_by: Entry | None = None
    returns: tuple[str, ...] = ()
    formerly: str = ""

    @property
    def is_module(self) -> bool:
        """Whether the entry is a module: constructed first, then called."""
        return self.construct is not None or self.made_by is not None

    def passed(self, case: Case) -> tuple[str, ...]:
        """Returns the names of the arguments that `case` has values for."""
        return tuple(name for name in self.arguments if name in case.values)

    def signature(self) -> str:
        """Returns the signature as the page shows it: `next_token_loss(logits, token_ids, pad_id)`."""
        if self.made_by:
            return self.name
        if self.construct is None:
            return f"{self.name}({', '.join(self.arguments)})"
        return f"{self.name}({', '.join([*self.construct, 'rngs'])})"


@dataclass(frozen=True, eq=False)
class Case:
    """One set of inputs. A case equals only itself, because comparing arrays would be slow.

    Attributes:
        values: The inputs by name: numbers, texts and NumPy arrays.
        group: The name of the family in `Problem.cases` that it belongs to.
        sizes: The drawn sizes that it was made from, by name.
        seed: The seed of the generator that it was made with.
    """

    values: Mapping[str, Any]
    group: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0


@dataclass(frozen=True)
class Cases:
    """A family of cases: named sizes to draw from, and a function that makes the inputs.

    Attributes:
        make: A function of the drawn sizes and a seeded generator that returns the inputs by name.
        sizes: The possible values of each size by name, simplest first: a failing case shrinks toward the first.
        draws: The number of cases. Each new combination of sizes costs a compilation, so it is small.
        show: A function of the inputs that returns what a report shows of them by name, where they say little.
        covers: The dimensions of `grader/course/dimensions.py` that these cases take to the size that people meet.
    """

    make: Callable[[Mapping[str, int], np.random.Generator], Mapping[str, Value]]
    sizes: Mapping[str, Sequence[int]]
    draws: int = 3
    show: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    covers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Check:
    """One graded property: a probe that runs on the reference and on the submission, and the leaves of its output to
    compare.

    Checks with the same probe, options and cases share one run.

    Attributes:
        name: The name of the check in reports.
        points: The points that it is worth.
        probe: The name of a function of `grader/worker/probes.py` or of the problem's own `probes.py`.
        options: The keyword arguments that the probe is called with, as JSON values.
        leaves: The path at or below which leaves are compared. Below `program.` they are measures of the compiled
            program; such a check also needs the right values from that very program, up to `values_tolerance`.
        cases: The name of the family in `Problem.cases` that it runs on.
        compare: `close`, or `at_most` for measures that may be smaller than the reference's.
        tolerance: How far a leaf may be from the reference's.
        words: The meanings of the numbers of a coded leaf for the report, or a function that returns them for a case.
        advice: What a failure usually means, for the report.
        in_words: A function that returns a sentence on a wrong value of a case, for leaves whose names and indices say
            little.
        traced: Whether code that cannot be traced fails: only a program counts, and the worker gets no number of a
            case's arrays.
        agrees_with: The name of a check on the same cases. The leaves `output` of both probes must agree, because a
            property of one program says nothing about another.
        saved_by: The name of a probe that runs first, in another process. The check's own probe then gets nothing but
            the files that it left.
        read: Whether a process without the submission's code turns the probe's arrays and files into the leaves to
            compare, with the function of the same name in READERS of `probes.py`. It also gets the arrays of the probe
            that ran first, as `saved:NAME`.
        partner: The name of a class of PARTNERS in `probes.py`: an object in another process, which the probe asks with
            `subject.ask`, and whose arrays are added to the probe's. It knows the arrays of the case, and the
            submission's process does not.
        cpu_seconds: How much computing the submission's process may do for a case, in seconds; 0 means no limit. The
            judge measures it.
        values_tolerance: How far the values of a measured program may be from the reference's.
        calls: The entries that the probe calls, if they are not all and the options name none.
        stage: The name of its stage, if the problem has stages, which can be passed one after another.
    """

    name: str
    points: int
    probe: str
    options: Mapping[str, Any] = field(default_factory=dict)
    leaves: str = ""
    cases: str = "cases"
    compare: Compare = "close"
    tolerance: Tolerance = FLOAT32
    words: Mapping[int, str] | Callable[[Case], Mapping[int, str]] = field(default_factory=dict)
    advice: str = ""
    in_words: Callable[[Case, Difference], str] | None = None
    traced: bool = False
    agrees_with: str = ""
    saved_by: str = ""
    read: bool = False
    partner: str = ""
    cpu_seconds: float = 0.0
    values_tolerance: Tolerance = FLOAT32
    calls: tuple[str, ...] = ()
    stage: str = ""

    def words_for(self, case: Case) -> Mapping[int, str]:
        """Returns the meanings of the numbers of a coded leaf in `case`."""
        return self.words(case) if callable(self.words) else self.words

    @property
    def is_claim(self) -> bool:
        """Whether the check is about a program, a process or a file: about more than values that a witness computes."""
        return self.measures or self.read or bool(self.saved_by or self.partner or self.cpu_seconds)

    @property
    def measures(self) -> bool:
        """Whether the check is about the compiled program rather than about values."""
        return self.leaves.startswith(PROGRAM)

    @cached_property
    def run_key(self) -> str:
        """A text that is equal for checks that share one run of their probe."""
        how = [self.probe, dict(self.options), self.cases, self.saved_by, self.read, self.partner]
        return json.dumps(how, sort_keys=True)


@dataclass(frozen=True, eq=False)
class Problem:
    """The definition of a problem: `PROBLEM` in `problems/pNN_slug/problem.py`.

    A definition that is read again is the same problem: only the folder is compared.

    Attributes:
        title: The title of the page.
        entries: The functions and classes that are graded.
        cases: The families of cases by name.
        checks: The graded properties.
        builds_on: The numbers of the problems whose entries or ideas this one uses.
        devices: The number of devices that its programs run on.
        mesh: The numbers of devices along the axes `data` and `model` of the mesh on which placements are measured.
        places_inputs: Whether its probes place all inputs as the page says: a program is measured only if it takes them
            there.
        row_by_row: Names of arrays of the case by probe. A witness refuses the probe's program unless it takes one row
            of these arrays after another, all in one loop.
        timeout: The total time limit of a submission's own code, in seconds of computing.
        long_runs: Whether its probes train, for seconds or minutes: they report progress, and a failure is explained
            with as few more runs as possible.
        forbids: The dotted names of functions, classes and modules of libraries that the problem asks to write. The
            text of a submission must not use them, nor what is below them.
        allows: The exceptions from `forbids`.
        minutes: The time that a learner takes, as its author estimates it; 0 if unknown.
        bill: The name of the check whose program `grade cost` counts, where it is not the one with the largest case.
        without: The reason for each dimension that no case takes to the size that people meet, by its name.
        folder: The folder of the problem, whose name is the problem's. `grader.course.catalog` fills it in.
    """

    title: str
    entries: tuple[Entry, ...]
    cases: Mapping[str, Cases]
    checks: tuple[Check, ...]
    builds_on: tuple[int, ...] = ()
    devices: int = 1
    mesh: tuple[int, ...] = ()
    places_inputs: bool = False
    row_by_row: Mapping[str, Sequence[str]] = field(default_factory=dict)
    timeout: float = 30.0
    long_runs: bool = False
    forbids: tuple[str, ...] = ()
    allows: tuple[str, ...] = ()
    minutes: int = 0
    bill: str = ""
    without: Mapping[str, str] = field(default_factory=dict)
    folder: Path = Path()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self.folder == other.folder

    def __hash__(self) -> int:
        return hash(self.folder)

    @property
    def name(self) -> ProblemName:
        """The name of its folder, such as `p04_layer_norm`."""
        return ProblemName(self.folder.name)

    @property
    def home(self) -> Path:
        """The folder of the course that the problem's files belong to: another one than the selected, if it is
        included."""
        return self.folder.parent.parent

    @property
    def number(self) -> int:
        """Returns the number of the problem: 7 for `p07_next_token_loss`."""
        return self.name.number

    @property
    def label(self) -> str:
        """Returns the number as pages and reports show it: `07`."""
        return self.name.label

    @property
    def slug(self) -> str:
        """Returns the name without the number: `next_token_loss`."""
        return self.name.slug

    @property
    def points(self) -> int:
        """Returns the maximum score: the points of all checks."""
        return sum(check.points for check in self.checks)

    @property
    def stages(self) -> tuple[str, ...]:
        """Returns the names of its stages, in order; of most problems, one without a name."""
        return tuple(dict.fromkeys(check.stage for check in self.checks))

    def entry(self, name: str) -> Entry:
        """Returns the entry with this name. Raises StopIteration if there is none."""
        return next(entry for entry in self.entries if entry.name == name)
