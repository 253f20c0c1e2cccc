"""A change to review: files before and after it, cut into numbered hunks, some of which hold a fault."""

import ast
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise

from grader.course import catalog, imports
from grader.practice import hunts
from grader.practice.hunts import Hunt
from grader.practice.rename_variables import disguised, new_names
from grader.problem import Problem

MOST_LINES = 12  # of a hunk, on either side
_CONTEXT = 2  # unchanged lines that are shown beside a hunk
Lines = tuple[int, int]  # from the first line to before the second, counted from 0


@dataclass(frozen=True)
class Hunk:
    """A block of changed lines of a file.

    Attributes:
        number: Its number in the change, from 1 on.
        before: The lines that it removes.
        after: The lines that it adds.
    """

    number: int
    before: Lines
    after: Lines


@dataclass(frozen=True)
class ChangedFile:
    """One file of a change: a program in one style that becomes the same in another style, up to the faults in it.

    Attributes:
        problem: The problem that the program solves.
        old: The style before, as `hunts` names bases.
        new: The style after.
        before: The text before.
        correct: The text after without the faults.
        after: The text after.
        hunks: The blocks of changed lines.
        faults: The faults, by number of the hunk that holds each.
    """

    problem: Problem
    old: str
    new: str
    before: str
    correct: str
    after: str
    hunks: tuple[Hunk, ...]
    faults: dict[int, Hunt]

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.problem.name}.py"

    @property
    def size(self) -> int:
        """The number of changed lines."""
        return sum(end - start for hunk in self.hunks for start, end in (hunk.before, hunk.after))

    def rows(self, hunk: Hunk) -> Iterator[tuple[str, str]]:
        """Yields the lines of a hunk with their signs, and unchanged lines beside it that no other hunk shows."""
        before, after = self.before.splitlines(), self.after.splitlines()
        place = self.hunks.index(hunk)
        start = self.hunks[place - 1].after[1] + _CONTEXT if place else 0  # it shows as many below itself
        end = self.hunks[place + 1].after[0] if place + 1 < len(self.hunks) else len(after)
        for line in after[min(max(start, hunk.after[0] - _CONTEXT), hunk.after[0]) : hunk.after[0]]:
            yield " ", line
        for sign, text, (low, high) in (("-", before, hunk.before), ("+", after, hunk.after)):
            for line in text[low:high]:
                yield sign, line
        for line in after[hunk.after[1] : min(end, hunk.after[1] + _CONTEXT)]:
            yield " ", line


@dataclass(frozen=True)
class Change:
    """A change to review.

    Attributes:
        seed: The seed of its names.
        files: Its files.
    """

    seed: str
    files: tuple[ChangedFile, ...]

    @property
    def hunks(self) -> list[tuple[ChangedFile, Hunk]]:
        """All hunks in the order of their numbers, each with its file."""
        return [(file, hunk) for file in self.files for hunk in file.hunks]

    @property
    def faults(self) -> dict[int, Hunt]:
        """The faults by number of their hunk."""
        return {number: fault for file in self.files for number, fault in file.faults.items()}

    @property
    def size(self) -> int:
        """The number of changed lines."""
        return sum(file.size for file in self.files)

    def diff(self) -> str:
        """Returns the change as a unified diff. The header of each hunk ends with its number."""
        lines = []
        for file in self.files:
            lines += [f"--- before/{file.name}", f"+++ after/{file.name}"]
            for hunk in file.hunks:
                rows = list(file.rows(hunk))
                above = next((place for place, (sign, _) in enumerate(rows) if sign != " "), 0)
                old, new = (sum(sign in signs for sign, _ in rows) for signs in (" -", " +"))
                first_old, first_new = hunk.before[0] - above + bool(old), hunk.after[0] - above + bool(new)
                lines.append(f"@@ -{first_old},{old} +{first_new},{new} @@ hunk {hunk.number}")
                lines += [f"{sign}{line}" for sign, line in rows]
        return "\n".join(lines) + "\n"


def bases(problem: Problem) -> dict[str, str]:
    """Returns the texts of the correct programs of a problem, by the names that hunts give them."""
    texts = {path.name: catalog.text_of(path) for path in catalog.styles(problem)}
    return {hunts.REFERENCE: catalog.solution_text(problem), **texts}


def changed_file(problem: Problem, old: str, new: str, faults: Sequence[Hunt], seed: str) -> ChangedFile | None:
    """Returns a file of a change, with hunks that are numbered from 1 on; None if two of the faults, which are hunts of
    the style `new`, do not fit into hunks of their own."""
    texts = bases(problem)
    sources = [texts[old], texts[new], *(fault.broken for fault in faults)]
    names = new_names(sources, f"{seed}{problem.name}")
    before, correct, *broken = (disguised(source, names) for source in sources)
    merged = _merged(correct, broken)
    if merged is None:
        return None
    after, places = merged
    hunks_ = tuple(_hunks(before, after))
    held: dict[int, Hunt] = {}
    for fault, spans in zip(faults, places, strict=True):
        numbers = {hunk.number for span in spans for hunk in hunks_ if _holds(hunk.after, span)}
        everywhere = all(any(_holds(hunk.after, span) for hunk in hunks_) for span in spans)
        if len(numbers) != 1 or not everywhere or numbers & held.keys():
            return None
        held[numbers.pop()] = fault
    return ChangedFile(problem, old, new, before, correct, after, hunks_, held)


def change(seed: str, files: Iterable[ChangedFile]) -> Change:
    """Returns the change of some files, whose hunks get numbers that go through all of it."""
    numbers, renumbered = count(1), []
    for file in files:
        new = {hunk.number: next(numbers) for hunk in file.hunks}
        renumbered.append(
            replace(
                file,
                hunks=tuple(replace(hunk, number=new[hunk.number]) for hunk in file.hunks),
                faults={new[number]: fault for number, fault in file.faults.items()},
            )
        )
    return Change(seed, tuple(renumbered))


def _holds(lines: Lines, span: Lines) -> bool:
    """Returns whether lines of a span are among these. An empty span is a place where a line is missing."""
    return lines[0] <= span[0] <= lines[1] if span[0] == span[1] else span[0] < lines[1] and lines[0] < span[1]


def _edits(before: str, after: str) -> list[tuple[Lines, Lines]]:
    """Returns the edits from one text to another: the lines that are replaced, and those of the other text."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return [((a, b), (c, d)) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def _merged(correct: str, broken: Sequence[str]) -> tuple[str, list[list[Lines]]] | None:
    """Returns the correct text with the edits of all broken ones, and the lines of each one's edits; None if two of
    them touch each other."""
    edits = sorted(
        (*old, text.splitlines()[slice(*new)], which)
        for which, text in enumerate(broken)
        for old, new in _edits(correct, text)
    )
    if any(one[1] >= two[0] and one[3] != two[3] for one, two in pairwise(edits)):
        return None
    lines, done = list[str](), 0
    places: list[list[Lines]] = [[] for _ in broken]
    rows = correct.splitlines()
    for start, end, new, which in edits:
        lines += rows[done:start]
        places[which].append((len(lines), len(lines) + len(new)))
        lines += new
        done = end
    return "\n".join([*lines, *rows[done:]]) + "\n", places


def _hunks(before: str, after: str) -> Iterator[Hunk]:
    """Yields the blocks of changed lines, cut at statements so that none is long."""
    new = after.splitlines()
    regions: list[tuple[int, int, int, int]] = []
    for (a, b), (c, d) in _edits(before, after):
        if regions and not any(line.strip() for line in new[regions[-1][3] : c]):  # only blank lines between
            regions[-1] = (regions[-1][0], b, regions[-1][2], d)
        else:
            regions.append((a, b, c, d))
    one, two = _statements(before), _statements(after)
    number = 1
    for a, b, c, d in regions:
        parts = -(-max(b - a, d - c) // MOST_LINES)
        for removed, added in zip(_cut(one, a, b, parts), _cut(two, c, d, parts), strict=True):
            if removed[0] < removed[1] or added[0] < added[1]:
                yield Hunk(number, removed, added)
                number += 1


def _statements(text: str) -> dict[int, int]:
    """Returns the lines at which statements begin, decorators included, counted from 0, and how deep each is."""
    found = {}
    for node in ast.walk(imports.syntax_tree(text)):
        if isinstance(node, ast.stmt):
            decorators = (each.lineno for each in getattr(node, "decorator_list", ()))
            found[min(node.lineno, *decorators, node.lineno) - 1] = node.col_offset // 4
    return found


def _cut(statements: Mapping[int, int], start: int, end: int, parts: int) -> list[Lines]:
    """Returns lines in so many parts of about the same length. Each part but the first begins with a statement, rather
    with one that is not deep inside; some may be empty."""
    marks = [start]
    for part in range(1, parts):
        ideal = start + (end - start) * part / parts
        inner = [line for line in statements if marks[-1] <= line < end]
        marks.append(min(inner, key=lambda line: abs(line - ideal) + statements[line], default=end))
    return list(pairwise([*marks, end]))
