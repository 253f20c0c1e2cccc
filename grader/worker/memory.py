"""The arrays of a traced program in memory: which of them have to exist, for how long, and what is read and written.

An array has to exist if something else than an elementwise operation needs it. It is computed in one pass over the
arrays in memory that it is computed from. Any other array is computed where it is needed. An array takes the place of
one of the same size that nothing needs any more. These are rules of our own for what compilers do, so that the figures
are the same on every machine.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(eq=False)
class Timeline:
    """The steps of the program, or of one turn of a loop or a branch: the arrays that appear, and what runs inside of a
    step."""

    now: int = 0
    arrays: list["Array"] = field(default_factory=list)
    inner: dict[int, list["Timeline"]] = field(default_factory=lambda: defaultdict(list))


@dataclass(eq=False)
class Array:
    """An array of the program, in one call.

    Attributes:
        size: Its bytes.
        home: The timeline on which it appears.
        kept: Whether it has to exist in memory.
        given: Whether it is there when the timeline begins: an input, or what a loop carries.
        sources: The arrays from which it is computed, with the bytes of each that this reads.
        replaces: The arrays whose place it can take.
        times: How often it is computed.
        written: The bytes that computing it writes, if it is kept.
        is_float: Whether it depends on a number that is not an integer. A mask of positions does not.
    """

    size: int
    home: Timeline
    kept: bool = False
    given: bool = False
    sources: list[tuple["Array", int]] = field(default_factory=list)
    replaces: list["Array"] = field(default_factory=list)
    times: Fraction = Fraction(0)
    written: int = 0
    is_float: bool = False
    first: int = 0
    last: int = 0

    def __post_init__(self) -> None:
        self.first = self.last = self.home.now
        self.home.arrays.append(self)

    def use(self) -> None:
        """Notes that the present step needs it."""
        self.last = self.home.now


def keep(arrays: Iterable[Array]) -> None:
    """Notes that these arrays have to exist."""
    for array in arrays:
        array.kept = True


def traffic(arrays: Iterable[Array]) -> Iterator[tuple[Array, Fraction, Fraction]]:
    """Yields the arrays that are kept, with the bytes that computing each of them reads and writes. `arrays` are in the
    order in which they are computed."""
    needs: dict[Array, Mapping[Array, int]] = {}
    for array in arrays:
        found: dict[Array, int] = {}
        for source, size in array.sources:
            for each, whole in {source: source.size}.items() if source.kept else needs[source].items():
                found[each] = min(each.size, max(found.get(each, 0), min(size, whole)))
        needs[array] = found
        if array.kept:
            yield array, array.times * sum(found.values()), array.times * array.written


def peak(timeline: Timeline) -> int:
    """Returns the most bytes that exist at one time, without what is given at the beginning."""
    for array in reversed(timeline.arrays):  # what is computed where it is needed needs its sources there
        for source, _ in () if array.kept else array.sources:
            if source.home is timeline:
                source.last = max(source.last, array.last)
    appear, vanish = defaultdict[int, list[Array]](list), defaultdict[int, list[Array]](list)
    for array in timeline.arrays:
        if array.kept:
            vanish[array.last].append(array)
            if not array.given:
                appear[array.first].append(array)
    weights: dict[Array, int] = {array: 0 for array in timeline.arrays if array.given}
    most = present = 0
    for step in range(timeline.now + 1):
        free = {array for array in vanish[step] if array.first < step and array in weights}
        for array in appear[step]:
            place = next((each for each in _in_memory(array.replaces) if each in free), None)
            weights[array] = array.size
            if place:
                free.remove(place)
                weights[array] = weights.pop(place)
                present -= weights[array]
            present += weights[array]
        inside = max((peak(each) for each in timeline.inner.get(step, ())), default=0)
        most = max(most, present + inside)
        present -= sum(weights.pop(array, 0) for array in vanish[step])
    return most


def _in_memory(arrays: Iterable[Array]) -> Iterator[Array]:
    """Yields the arrays that exist, and instead of each other one those whose place it could take."""
    seen, left = set[Array](), list(arrays)
    while left:
        array = left.pop()
        if array.kept:
            yield array
        elif array not in seen:
            left += array.replaces
        seen.add(array)
