"""The arrays of the first failure, expected and returned, for the reports that show them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from grader.problem import Case, Check, Tolerance
from grader.wire.compare import SAME, Index, Leaf, Mismatch, Values, errors, mismatches, on_page, select, values

MOST_LEAVES = 200
MOST_VALUES = 1 << 14  # of one leaf; a larger one is cut to a window around its first wrong value
WIDEST = 32  # values along each axis of such a window
_NOTHING = Leaf("", "", np.zeros(()))


@dataclass(frozen=True, eq=False)
class ComparedLeaf:
    """One leaf of a check. A side is None where the leaf does not exist.

    Attributes:
        path: Its name on the page.
        expected: The expected array.
        got: The submission's array.
        idea: The array of the named misconception.
        mismatch: The difference; None if the leaf is right.
        wrong: Marks the values outside of the tolerance; None if the arrays cannot be compared value by value.
        start: The index of the first value that is kept.
        shape: The shape of the whole leaf.
    """

    path: str
    expected: Leaf | None
    got: Leaf | None
    idea: Leaf | None
    mismatch: Mismatch | None
    wrong: Values | None
    start: Index
    shape: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether no value was left out."""
        return self.wrong is None or self.wrong.shape == self.shape

    @property
    def first_wrong(self) -> Index | None:
        """The index, in the arrays kept here, of the first wrong value."""
        if self.wrong is None or not self.wrong.any():
            return None
        return tuple(int(i) for i in np.argwhere(self.wrong)[0])

    @property
    def idea_agrees(self) -> int:
        """The number of the submission's values that equal the misconception's, up to rounding."""
        if self.got is None or self.idea is None or self.idea.shape != self.got.shape:
            return 0
        return int(np.count_nonzero(errors(self.idea, self.got, SAME) <= 1))

    def index(self, at: Index) -> Index:
        """Returns the index in the whole leaf of the value at `at`."""
        return tuple(start + i for start, i in zip(self.start, at, strict=True))

    def window(self, widths: Sequence[int]) -> "ComparedLeaf":
        """Returns this leaf cut to at most this many values along each axis, around the first wrong one."""
        if self.wrong is None:
            return self
        center = self.first_wrong or (0,) * self.wrong.ndim
        parts = []
        for size, width, middle in zip(self.wrong.shape, widths, center, strict=True):
            begin = max(0, min(middle - width // 2, size - width))
            parts.append(slice(begin, begin + width))

        def cut(leaf: Leaf | None) -> Leaf | None:
            return leaf and replace(leaf, values=leaf.values[tuple(parts)])

        start = tuple(at + part.start for at, part in zip(self.start, parts, strict=True))
        idea = self.idea if self.idea is not None and self.idea.shape == self.wrong.shape else None
        return replace(
            self,
            expected=cut(self.expected),
            got=cut(self.got),
            idea=cut(idea),
            wrong=self.wrong[tuple(parts)],
            start=start,
        )


PartState = Literal["right", "faulty", "wrong", "wrong input", "never called", "not recorded"]


@dataclass(frozen=True)
class Part:
    """A submodule of the graded module. The first faulty one is `faulty`; `wrong` is one that contains it or comes
    later."""

    path: str
    state: PartState


@dataclass(frozen=True, eq=False)
class Counterexample:
    """The first failure in numbers.

    Attributes:
        case: The failing case.
        leaves: The leaves of the check, in its order.
        tolerance: The tolerance of the check.
        tree: The submodules of the graded module, if the first faulty one was looked for.
        left_out: The number of further leaves.
    """

    case: Case
    leaves: Sequence[ComparedLeaf] = ()
    tolerance: Tolerance | None = None
    tree: Sequence[Part] = ()
    left_out: int = 0


def compared(
    check: Check, mismatch: Mismatch | None, sides: Sequence[Sequence[Leaf]], tolerance: Tolerance
) -> list[ComparedLeaf]:
    """Returns the leaves of a check. `sides` are those of the reference, the submission and the misconception."""
    selected = [_selected(check, mismatch, side) for side in sides]
    expected, got, idea = ({leaf.path: leaf for leaf in leaves} for leaves in selected)
    differences = {item.path: item for item in mismatches(selected[0], selected[1], tolerance, check.compare)}
    leaves = []
    for path in {**expected, **got}:
        want, have, difference = expected.get(path), got.get(path), differences.get(path)
        shape, wrong = (want or have or _NOTHING).shape, None
        if want is not None and have is not None and (difference is None or difference.kind == "value"):
            wrong = np.asarray(errors(want, have, tolerance, check.compare) > 1)
        leaf = ComparedLeaf(on_page(path), want, have, idea.get(path), difference, wrong, (0,) * len(shape), shape)
        leaves.append(leaf.window([WIDEST] * len(shape)) if np.prod(shape) > MOST_VALUES else leaf)
    return leaves


def _selected(check: Check, mismatch: Mismatch | None, leaves: Sequence[Leaf]) -> list[Leaf]:
    """Returns the leaves that the check compared. Measures are compared only where the values are right, and codes
    only where no value that they are read off is NaN."""
    selected = select(leaves, check.leaves)
    elsewhere = mismatch and mismatch.path not in {leaf.path for leaf in selected}
    if mismatch and elsewhere and (check.measures or mismatch.kind == "value"):
        return values(leaves)
    return selected
