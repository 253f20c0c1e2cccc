"""Which submissions are nearly the same: how many runs of tokens two files share, whatever they call things.

A file becomes the sequence of its tokens, with every name that is no keyword as one and the same, numbers and texts too, and no
comments or layout. Its runs of RUN tokens are a set; runs that the stub has, or the reference, are taken away: everybody has
those. The similarity of two files is the part of all their runs that both have (Jaccard).
"""

import io
import itertools
import keyword
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.batch.store import Record
from grader.course import catalog
from grader.problem import Problem

RUN = 6
FEWEST_RUNS = 15  # below, two files are alike because there is little to write
ALIKE = 0.8
_MOST_TOKENS = 20_000
_LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Two learners whose files for a problem are alike; `similarity` is between 0 and 1."""

    problem: str
    one: str
    other: str
    similarity: float


def pairs(problem: Problem, records: Iterable[Record]) -> list[Pair]:
    """The pairs of learners whose submissions for a problem are nearly the same, the most alike first."""
    common = runs(catalog.stub_text(problem)) | runs(catalog.solution_path(problem).read_text(encoding="utf-8"))
    found = [(record.learner, runs(record.source) - common) for record in records if record.source]
    found = [(learner, own) for learner, own in found if len(own) >= FEWEST_RUNS]
    alike = []
    for (one, first), (other, second) in itertools.combinations(found, 2):
        if min(len(first), len(second)) < ALIKE * max(len(first), len(second)):
            continue  # they cannot be
        similarity = len(first & second) / len(first | second)
        if similarity >= ALIKE:
            alike.append(Pair(problem.name, one, other, similarity))
    return sorted(alike, key=lambda pair: (-pair.similarity, pair.one, pair.other))


def runs(text: str) -> set[tuple[str, ...]]:
    """The runs of tokens of a Python text, as far as it can be read."""
    tokens = _tokens(text)
    return {tuple(tokens[start : start + RUN]) for start in range(len(tokens) - RUN + 1)}


def _tokens(text: str) -> Sequence[str]:
    found: list[str] = []
    try:
        for token in itertools.islice(tokenize.generate_tokens(io.StringIO(text).readline), _MOST_TOKENS):
            if token.type == tokenize.NAME:
                found.append(token.string if keyword.iskeyword(token.string) else "name")
            elif token.type in (tokenize.NUMBER, tokenize.STRING):
                found.append(tokenize.tok_name[token.type])
            elif token.type not in _LAYOUT:
                found.append(token.string)
    except (tokenize.TokenError, SyntaxError):
        pass  # what was read until then counts
    return found
