"""The core of a problem: the lines that are worth writing again, as a short form of a review.

They are taken out of a correct program, the frame: the reference, or one in another style. Reviews take one frame after
the other, so that an idea returns and not a text.
"""

from dataclasses import dataclass
from pathlib import Path

from commandline.errors import UsageError
from commandline.text import counted
from grader.course import catalog
from grader.errors import CourseError
from grader.problem import Problem

FEWEST, MOST = 3, 15  # lines of a core
REFERENCE = ""  # the name of the reference as a frame


@dataclass(frozen=True)
class Frame:
    """A correct program of which a part is to be written again.

    Attributes:
        name: The name of its file, as the log has it; empty for the reference.
        text: The whole program.
        blocks: The blocks of whole lines that make up its core.
    """

    name: str
    text: str
    blocks: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of lines that are to be written."""
        return sum(map(_size, self.blocks))

    @property
    def stub(self) -> str:
        """The program without its core. The place of each block raises NotImplementedError."""
        text, where = f"\n{self.text}", "this program" if self.name else "the reference"
        for block in self.blocks:
            wanted = block.rstrip().splitlines()
            indent = " " * (len(wanted[0]) - len(wanted[0].lstrip()))
            note = f"{indent}# Write this part again: {counted(_size(block), 'line')} in {where}.\n"
            text = text.replace(f"\n{block.rstrip()}\n", f"\n{note}{indent}raise NotImplementedError\n", 1)
        return text[1:]


def frames(problem: Problem) -> list[Frame]:
    """Returns the frames of a problem, the reference first. None if the problem has no core, or this copy of the course
    no reference. Raises CourseError if one is broken."""
    if not catalog.has_solution(problem):
        return []
    reference = catalog.solution_path(problem)
    return [
        _frame(REFERENCE if path == reference else path.name, path, blocks, reference.with_suffix(".toml"))
        for path, blocks in catalog.cores(problem).items()
        if blocks
    ]


def _frame(name: str, path: Path, blocks: list[str], marked: Path) -> Frame:
    """Returns a frame. Raises CourseError, which names the file that marks its core, unless each block stands once in
    it."""
    text = catalog.text_of(path)
    for block in blocks:
        if f"\n{text}".count(f"\n{block.rstrip()}\n") != 1:
            raise CourseError(
                f"{marked}: each text of `core` must be whole lines that occur exactly once in {path.name}; "
                f"{block.strip().splitlines()[0]!r} does not begin such a text."
            )
    return Frame(name, text, tuple(blocks))


def is_offered(problem: Problem) -> bool:
    """Returns whether learners may see the rest of the reference, and there is a core."""
    return catalog.shows_solution(problem) and bool(frames(problem))


def after(problem: Problem, last: str | None) -> Frame:
    """Returns the frame that follows the one with the name `last`, in turn; the reference if there was none. Raises
    UsageError if learners get no core of the problem."""
    if not is_offered(problem):
        raise UsageError(f"Problem {problem.label} has no core: it is always written as a whole.")
    found = frames(problem)
    names = [frame.name for frame in found]
    return found[(names.index(last) + 1) % len(found)] if last in names else found[0]


def named(problem: Problem, name: str) -> Frame:
    """Returns the frame with a name; the reference if the course has no such frame any more. Raises UsageError if
    learners get no core of the problem."""
    first = after(problem, None)
    return next((frame for frame in frames(problem) if frame.name == name), first)


def _size(block: str) -> int:
    """Returns the lines of a block without comments."""
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in block.splitlines())
