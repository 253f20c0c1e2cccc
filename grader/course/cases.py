"""Draws the cases of a problem: the sizes of each, and a seed, from which NumPy makes the arrays."""

import hashlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np

from grader.course import catalog
from grader.errors import CourseError
from grader.problem import Case, Problem
from grader.wire.channel import ChannelError, Frame, decode_whole, encode
from grader.wire.compare import Leaf

RECORDED = "outputs.zip"  # in a bundle, the public cases of a problem and the reference's outputs on them


def draw(problem: Problem, group: str, seed: int) -> list[Case]:
    """Returns the cases of one family, simplest first. The same seed gives the same cases.

    Every value that the family lists for a size is in a case, if there are as many cases as values. An only case is the
    simplest with seed 0. With another seed its sizes are drawn, so that they are as secret as the seed. Where the
    public cases are recorded, these are returned: NumPy may draw and round otherwise on another machine. Raises
    CourseError if the problem's own code fails, or the recordings cannot be read.
    """
    if seed == 0 and (problem.folder / RECORDED).is_file():
        return [*_recorded(problem, group)]
    family = problem.cases[group]
    rng = np.random.default_rng([zlib.crc32(f"{problem.name}:{group}:sizes".encode()), seed])
    columns = {name: _column(list(options), family.draws, rng) for name, options in family.sizes.items()}
    if seed and family.draws == 1:
        columns = {name: [list(options)[rng.integers(len(options))]] for name, options in family.sizes.items()}
    try:
        return [
            make(problem, group, {name: column[i] for name, column in columns.items()}, seed, int(rng.integers(2**16)))
            for i in range(family.draws)
        ]
    except Exception as error:
        path = problem.folder / "problem.py"
        raise CourseError(f"{path} cannot draw its {group!r}: {type(error).__name__}: {error}") from error


def _column(options: list[int], draws: int, rng: np.random.Generator) -> list[int]:
    """Returns the values of one size in all cases: the simplest first, the others in a random order, then further
    shuffled rounds of all of them."""
    column = [options[0], *rng.permutation(options[1:]).tolist()]
    while len(column) < draws:
        column += rng.permutation(options).tolist()
    return column[:draws]


def draw_all(problem: Problem, seed: int) -> dict[str, list[Case]]:
    """Returns the cases of every family that a check uses."""
    return {group: draw(problem, group, seed) for group in sorted({check.cases for check in problem.checks})}


@cache
def drawn_once(name: str, seed: int) -> dict[str, list[Case]]:
    """Returns the cases of the problem of that name, as the same objects at every call: a reference is asked once about
    each."""
    return draw_all(catalog.load(name), seed)


def recording(case: Case) -> bytes:
    """Returns a case as bytes."""
    arrays = {name: value for name, value in case.values.items() if isinstance(value, np.ndarray)}
    others = {name: value for name, value in case.values.items() if name not in arrays}
    fields = {"scalars": others, "order": list(case.values), "sizes": dict(case.sizes), "seed": case.seed}
    return encode(Frame("case", fields, [Leaf(name, str(array.dtype), array) for name, array in arrays.items()]))


def entry(group: str, number: int) -> str:
    """Returns the name of a case in the archive of the recordings."""
    return f"cases/{group}/{number}"


def _recorded(problem: Problem, group: str) -> Iterator[Case]:
    path = problem.folder / RECORDED
    try:
        with zipfile.ZipFile(path) as archive:
            for number in range(problem.cases[group].draws):
                frame = decode_whole(archive.read(entry(group, number)))
                values = {**frame.fields["scalars"], **{leaf.path: leaf.values for leaf in frame.leaves}}
                ordered = {name: values[name] for name in frame.fields["order"]}
                yield Case(ordered, group, frame.fields["sizes"], frame.fields["seed"])
    except (OSError, zipfile.BadZipFile, zlib.error, KeyError, ChannelError) as error:
        raise CourseError(f"{path} cannot be read: {error}. Unpack your teacher's bundle again.") from None


def make(problem: Problem, group: str, sizes: Mapping[str, int], seed: int, case_seed: int) -> Case:
    """Returns the case with these sizes. Its arrays are drawn from both seeds."""
    rng = np.random.default_rng([zlib.crc32(f"{problem.name}:{group}".encode()), seed, case_seed])
    values = problem.cases[group].make(sizes, rng)
    return Case(values, group, dict(sizes), _secret(group, sizes, seed, case_seed) if seed else case_seed)


def _secret(group: str, sizes: Mapping[str, int], seed: int, case_seed: int) -> int:
    """Returns the seed from which probes draw the parameters of a case.

    Code that cannot be traced gets this seed. It must not reveal the parameters of any other case, for which code is
    traced.
    """
    digest = hashlib.sha256(f"{seed}:{group}:{sorted(sizes.items())}:{case_seed}".encode()).digest()
    return int.from_bytes(digest[:4], "big")
