"""The dimensions in which real runs are large, and whether the cases of a problem reach such sizes.

Small cases hide errors of real runs: layers sorted as text are in another order only from the eleventh on, and an
integer product overflows only late in a run. A family of cases names in `covers` the dimensions that it takes to such a
size.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from grader.problem import Case, Problem

if TYPE_CHECKING:
    from grader.problem import Value

LAYERS, STEPS, VOCABULARY = 12, 200_000, 50_257  # GPT-2 small; a long run; GPT-2's vocabulary
SMALL, LARGE = 1e-30, 1e30
_ASTRAL = 0x10000  # characters from here on take four bytes in UTF-8, and two units in UTF-16

_STEPS = re.compile(r"(?:^|_)steps?$")
_TEXT = re.compile(r"(?:^|_)(?:text|texts|words|document|documents)$")


@dataclass(frozen=True)
class Dimension:
    """A dimension in which real runs are large. `concerns` says whether a problem with an input of this name and value
    needs it. `reached` says whether a case has the size that `words` describes."""

    name: str
    words: str
    concerns: Callable[[str, "Value"], bool]
    reached: Callable[[Case], bool]


def _numbers(case: Case, names: Callable[[str], bool]) -> Iterator[float]:
    """Yields the numbers of a case, among its inputs and its sizes, whose names `names` accepts."""
    for name, value in [*case.values.items(), *case.sizes.items()]:
        if names(name) and isinstance(value, int | float | np.ndarray) and np.asarray(value).dtype.kind in "iuf":
            yield from (float(number) for number in np.asarray(value).ravel())


def _axes(case: Case) -> list[int]:
    return [length for value in case.values.values() if isinstance(value, np.ndarray) for length in value.shape]


def _whole(case: Case) -> list[int]:
    """Returns the case's sizes, and the whole numbers among its inputs."""
    return [value for value in [*case.sizes.values(), *case.values.values()] if type(value) is int]


def _coprime(case: Case) -> bool:
    """Returns whether the lengths of the case's axes are odd ones out: no two different ones share a factor."""
    lengths = sorted({length for length in [*_axes(case), *case.sizes.values()] if length > 1})
    return len(lengths) > 1 and all(
        math.gcd(one, other) == 1 for place, one in enumerate(lengths) for other in lengths[:place]
    )


def _magnitudes(case: Case) -> bool:
    floats = [value for value in case.values.values() if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
    sizes = np.abs(np.concatenate([array.ravel() for array in floats])) if floats else np.zeros(0)
    return bool(((sizes >= LARGE) | ((0 < sizes) & (sizes <= SMALL))).any())


def _characters(case: Case) -> bool:
    return any(ord(letter) >= _ASTRAL for value in case.values.values() if isinstance(value, str) for letter in value)


# The size that a case must have in each dimension. A dimension that concerns a problem but is not in its cases needs a
# reason in its definition. Extreme magnitudes concern only the problems whose pages promise them, which no name of an
# input shows.
DIMENSIONS = (
    Dimension(
        "layers",
        f"{LAYERS} layers or more",
        lambda name, value: name == "num_layers",
        lambda case: max(_numbers(case, lambda name: name in ("num_layers", "L")), default=0) >= LAYERS,
    ),
    Dimension(
        "steps",
        f"step {STEPS:,} or a later one",
        lambda name, value: bool(_STEPS.search(name)),
        lambda case: max(_numbers(case, lambda name: bool(_STEPS.search(name))), default=0) >= STEPS,
    ),
    Dimension(
        "vocabulary",
        f"a vocabulary of {VOCABULARY:,} tokens",
        lambda name, value: name in ("vocab_size", "logits", "embedding"),
        lambda case: (
            max([*_axes(case), *_numbers(case, lambda name: name in ("vocab_size", "V"))], default=0) >= VOCABULARY
        ),
    ),
    Dimension(
        "coprime", "sizes of which no two share a factor", lambda name, value: isinstance(value, np.ndarray), _coprime
    ),
    Dimension(
        "axes",
        "an array of three axes",
        lambda name, value: name in ("kernel", "matrix"),
        lambda case: any(isinstance(value, np.ndarray) and value.ndim > 2 for value in case.values.values()),
    ),
    Dimension(
        "text",
        "text with characters of two, three and four bytes",
        lambda name, value: isinstance(value, str) and bool(_TEXT.search(name)),
        _characters,
    ),
    Dimension(
        "magnitudes", f"numbers of {LARGE:g} or more, or of {SMALL:g} or less", lambda name, value: False, _magnitudes
    ),
    Dimension(
        "one", "one of what may be one", lambda name, value: True, lambda case: 1 in [*_axes(case), *_whole(case)]
    ),
)


def faults(problem: Problem, cases: Mapping[str, list[Case]]) -> Iterator[str]:
    """Yields the sizes that a problem's cases lack, and the declarations about their sizes that do not hold."""
    known = {dimension.name: dimension for dimension in DIMENSIONS}
    covered = {name for family in problem.cases.values() for name in family.covers}
    for name in sorted((covered | set(problem.without)) - set(known)):
        yield f"there is no dimension {name!r}; they are {', '.join(known)}"
    inputs = [pair for drawn in cases.values() for case in drawn for pair in case.values.items()]
    for dimension in DIMENSIONS:
        yield from _faults_of(dimension, problem, cases, inputs)


def _faults_of(
    dimension: Dimension, problem: Problem, cases: Mapping[str, list[Case]], inputs: Sequence[tuple[str, "Value"]]
) -> Iterator[str]:
    """Yields the missing or wrong declarations on one dimension. `inputs` are the names and values of the inputs of
    `cases`."""
    groups = [group for group, family in problem.cases.items() if dimension.name in family.covers and group in cases]
    for group in groups:
        if not any(dimension.reached(case) for case in cases[group]):
            yield f"the cases {group!r} cover {dimension.name!r}, but none has {dimension.words}"
    if groups and dimension.name in problem.without:
        yield f"`without` gives a reason for {dimension.name!r}, which the cases {groups[0]!r} cover"
    concerned = [name for name, value in inputs if dimension.concerns(name, value)]
    if concerned and not groups and not problem.without.get(dimension.name):
        yield (
            f"no cases cover {dimension.name!r}, and the problem has `{concerned[0]}`: add a case with "
            f"{dimension.words} and name {dimension.name!r} in its `covers`, or give the reason in `without`"
        )
