"""The core of a problem: its reference without the lines that are worth writing again, as a short form of a review."""

from commandline.errors import UsageError
from commandline.text import counted
from grader.course import catalog
from grader.errors import CourseError
from grader.problem import Problem

FEWEST, MOST = 3, 15  # lines of a core


def lines(problem: Problem) -> list[str]:
    """Returns the blocks of the reference that make up its core: each whole lines, as `core` in the file of its
    misconceptions has them. Empty if the problem has no core, or this copy of the course no reference. Raises
    CourseError if one is broken."""
    if not catalog.has_solution(problem):
        return []
    blocks = catalog.core(problem)
    source = f"\n{catalog.solution_text(problem)}"
    for block in blocks:
        if source.count(f"\n{block.rstrip()}\n") != 1:
            raise CourseError(
                f"{catalog.solution_path(problem).with_suffix('.toml')}: each text of `core` must be whole lines that "
                f"occur exactly once in the reference; {block.strip().splitlines()[0]!r} does not begin such a text."
            )
    return blocks


def is_offered(problem: Problem) -> bool:
    """Returns whether learners may see the rest of the reference, and there is a core."""
    return catalog.shows_solution(problem) and bool(lines(problem))


def require(problem: Problem) -> None:
    """Raises UsageError if learners get no core of the problem."""
    if not is_offered(problem):
        raise UsageError(
            f"Problem {problem.label} has no core. Review the whole: `grade review {problem.label} --whole`."
        )


def count(problem: Problem) -> int:
    """Returns the number of lines that are to be written."""
    return sum(map(_size, lines(problem)))


def stub(problem: Problem) -> str:
    """Returns the reference without its core. The place of each block raises NotImplementedError."""
    text = f"\n{catalog.solution_text(problem)}"
    for block in lines(problem):
        wanted = block.rstrip().splitlines()
        indent = " " * (len(wanted[0]) - len(wanted[0].lstrip()))
        note = f"{indent}# Write this part again: {counted(_size(block), 'line')} in the reference.\n"
        text = text.replace(f"\n{block.rstrip()}\n", f"\n{note}{indent}raise NotImplementedError\n", 1)
    return text[1:]


def _size(block: str) -> int:
    """Returns the lines of a block without comments."""
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in block.splitlines())
