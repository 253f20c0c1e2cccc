"""The hunts of a problem: plausible programs with one fault each, made from the misconceptions of the course.

A hunt is a correct program, the reference or one of the other styles, with the edit of a misconception. `grade verify
--hunts` proves each of them.
"""

import ast
import difflib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from grader.course import catalog, imports
from grader.course.catalog import Misconception
from grader.practice.rename_variables import by_seed, disguised, new_names
from grader.practice.transplant import Edit, Target
from grader.problem import Problem

REFERENCE = "reference"
IDEAS = 4  # to choose from
MOST_LINES, MOST_PLACES = 8, 2  # of a fault; more is no hunt for one


@dataclass(frozen=True)
class Hunt:
    """A misconception in a correct program of a problem.

    Attributes:
        problem: The problem.
        base: The reference, or the name of the file of another style.
        misconception: The misconception.
        correct: The correct program.
        broken: The program with the misconception.
    """

    problem: Problem
    base: str
    misconception: Misconception
    correct: str
    broken: str

    @property
    def id(self) -> str:
        """The hunt's id, which reveals nothing about its fault."""
        text = f"{self.problem.slug}\0{self.base}\0{self.misconception.name}"
        return hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Program:
    """A hunt as a learner sees it: with names drawn by seed, and without comments.

    Attributes:
        hunt: The hunt.
        text: The faulty program.
        correct: The correct program with the same names.
        fault: The numbers of the lines that are wrong.
        ideas: The ideas to choose from.
    """

    hunt: Hunt
    text: str
    correct: str
    fault: frozenset[int]
    ideas: tuple[str, ...]

    @property
    def answer(self) -> int:
        """The place of the right idea among `ideas`."""
        return self.ideas.index(self.hunt.misconception.name)


def of(problem: Problem, *, styles: bool = True) -> tuple[Hunt, ...]:
    """Returns all hunts of a problem: those of the reference first, then those of other styles. None if each takes a
    long run."""
    if problem.long_runs or not catalog.has_solution(problem):
        return ()
    found = (*_of_reference(problem), *(_of_styles(problem) if styles else ()))
    return tuple(hunt for hunt in found if _is_one_fault(hunt))


def _of_reference(problem: Problem) -> Iterator[Hunt]:
    source = catalog.solution_text(problem)
    for misconception in catalog.misconceptions(problem):
        broken = next(iter(misconception.variants(source).values()))
        yield Hunt(problem, REFERENCE, misconception, source, broken)


def _of_styles(problem: Problem) -> Iterator[Hunt]:
    source = catalog.solution_text(problem)
    edits = [
        (each, Edit(source, next(iter(each.variants(source).values())))) for each in catalog.misconceptions(problem)
    ]
    for path in catalog.styles(problem):
        target = Target(catalog.text_of(path))
        for misconception, edit in edits:
            if path.name not in misconception.not_in and (broken := target.with_edit(edit)):
                yield Hunt(problem, path.name, misconception, target.text, broken)


def _is_one_fault(hunt: Hunt) -> bool:
    """Returns whether the edit is in one or two places of few lines, and the result is Python that is another
    program."""
    changes = _changes(hunt.correct, hunt.broken)
    size = sum(max(last - first, end - start) for first, last, start, end in changes)
    if not 0 < len(changes) <= MOST_PLACES or size > MOST_LINES:
        return False
    before, after = imports.parse(hunt.correct), imports.parse(hunt.broken)
    return before is not None and after is not None and ast.dump(before) != ast.dump(after)


def program(hunt: Hunt, seed: str) -> Program:
    """Returns the hunt with the names of a seed."""
    names = new_names([hunt.correct, hunt.broken], f"{seed}{hunt.id}")
    text, correct = disguised(hunt.broken, names), disguised(hunt.correct, names)
    wrong: set[int] = set()
    for _, _, start, end in _changes(correct, text):
        wrong |= set(range(start + 1, end + 1)) if end > start else {start, start + 1}
    ideas = _ideas(hunt, f"{seed}{hunt.id}")
    return Program(hunt, text, correct, frozenset(_whole(text, wrong)), ideas)


def _changes(before: str, after: str) -> list[tuple[int, int, int, int]]:
    """Returns the places where two texts differ: first and last line before, first and last line after."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return [each[1:] for each in matcher.get_opcodes() if each[0] != "equal"]


def _whole(text: str, lines: set[int]) -> set[int]:
    """Returns the lines, with all lines of the statements that they belong to. Of a compound statement, only its
    head."""
    found = set(lines)
    for node in ast.walk(imports.syntax_tree(text)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            span = set(range(node.lineno, max(end, node.lineno) + 1))
            found |= span if span & lines else set()
    rows = [*text.splitlines(), "the end, where a line may be missing"]
    return {line for line in found if 1 <= line <= len(rows) and rows[line - 1].strip()}


def _ideas(hunt: Hunt, seed: str) -> tuple[str, ...]:
    """Returns the right idea and other ideas of the problem, in an order drawn from `seed`. About half of the others
    edit the same place, if there are as many, because these are the most plausible."""
    own = hunt.misconception
    others = [other for other in catalog.misconceptions(hunt.problem) if not _is_like(other.name, own.name)]
    near = [other.name for other in others if other.find in own.find or own.find in other.find]
    far = [other.name for other in others if other.name not in near]
    wrong = [*by_seed(near, seed)[: IDEAS // 2], *by_seed(far, seed), *by_seed(near, seed)[IDEAS // 2 :]][: IDEAS - 1]
    return tuple(by_seed([own.name, *wrong], f"{seed} order"))


def _is_like(name: str, other: str) -> bool:
    """Returns whether two ideas share half of their words or more: one may be a case of the other."""
    one, two = set(name.split()), set(other.split())
    return len(one & two) >= len(one | two) / 2 or one <= two or two <= one


def changed_lines(before: str, after: str) -> int:
    """Returns the number of statements of a program that a mend changes. Blank lines, comments and layout do not
    count."""
    one, two = (_statements(text) for text in (before, after))
    matcher = difflib.SequenceMatcher(None, one, two, autojunk=False)
    return sum(max(b - a, d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")


def _statements(text: str) -> list[str]:
    """Returns a program as a line for each simple statement and each head of a compound one; its own lines if it is not
    Python."""
    tree = imports.parse(text)
    if tree is None:
        return [line.strip() for line in text.splitlines() if line.strip()]
    lines = ast.unparse(tree).splitlines()
    return [line.strip() for line in lines if line.strip()]
