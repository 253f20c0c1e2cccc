"""Finds near-duplicate submissions by the sequences of tokens that they share.

Each file becomes a list of tokens without comments and layout. Every name that is not a keyword becomes the same token, and so do
numbers and strings, so renaming changes nothing. A file is then the set of its sequences of LENGTH consecutive tokens. Sequences
from the stub or the reference are removed, because most learners share them. The similarity of two files is the Jaccard index of
their sets: the size of the intersection over that of the union.
"""

import io
import itertools
import keyword
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from grader.batch.records import Record
from grader.course import catalog
from grader.problem import Problem

LENGTH = 6
FEWEST = 15  # sequences; shorter files resemble each other because there is little to write
THRESHOLD = 0.8
_MOST_TOKENS = 20_000
_LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def _types(*names: str) -> set[int]:
    """The token types of these names that this version of Python has."""
    return {getattr(tokenize, name) for name in names if hasattr(tokenize, name)}


# Python 3.12 splits f-strings into tokens, and Python 3.14 template strings.
_STRING_STARTS = _types("FSTRING_START", "TSTRING_START")
_STRING_ENDS = _types("FSTRING_END", "TSTRING_END")


@dataclass(frozen=True)
class Pair:
    """Two learners with near-duplicate files for a problem. `similarity` is between 0 and 1."""

    problem: str
    one: str
    other: str
    similarity: float


def pairs(problem: Problem, records: Iterable[Record]) -> list[Pair]:
    """The pairs of learners whose files for a problem are near duplicates, the most similar first."""
    common = sequences(catalog.stub_text(problem)) | sequences(catalog.solution_text(problem))
    candidates = [(record.learner, sequences(record.source) - common) for record in records if record.source]
    candidates = [(learner, own) for learner, own in candidates if len(own) >= FEWEST]
    similar = []
    for (one, first), (other, second) in itertools.combinations(candidates, 2):
        if min(len(first), len(second)) < THRESHOLD * max(len(first), len(second)):
            continue  # their sizes alone keep them below the threshold
        similarity = len(first & second) / len(first | second)
        if similarity >= THRESHOLD:
            similar.append(Pair(problem.name, one, other, similarity))
    return sorted(similar, key=lambda pair: (-pair.similarity, pair.one, pair.other))


def sequences(text: str) -> set[tuple[str, ...]]:
    """The sequences of LENGTH tokens of a Python text, up to its first syntax error."""
    tokens: list[str] = []
    try:
        for token in reduced(itertools.islice(tokenize.generate_tokens(io.StringIO(text).readline), _MOST_TOKENS)):
            tokens.append(token)
    except (tokenize.TokenError, SyntaxError):
        pass  # the tokens before the error count
    return {tuple(tokens[start : start + LENGTH]) for start in range(len(tokens) - LENGTH + 1)}


def reduced(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[str]:
    """The tokens without layout, with all names, all numbers and all strings alike. An f-string is one string."""
    depth = 0  # of nested f-strings
    for token in tokens:
        if token.type in _STRING_STARTS:
            if not depth:
                yield "STRING"
            depth += 1
        elif token.type in _STRING_ENDS:
            depth -= 1
        elif depth or token.type in _LAYOUT:
            continue
        elif token.type == tokenize.NAME:
            yield token.string if keyword.iskeyword(token.string) else "name"
        elif token.type in (tokenize.NUMBER, tokenize.STRING):
            yield tokenize.tok_name[token.type]
        else:
            yield token.string
