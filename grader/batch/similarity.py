"""Finds near-duplicate submissions by the sequences of tokens that they share.

Each file becomes a list of tokens without comments and layout. Every name that is not a keyword becomes the same token,
and so do numbers and strings, so renaming changes nothing. A file is then the set of its sequences of LENGTH
consecutive tokens. The similarity of two files is the Jaccard index of their sets: the size of the intersection over
that of the union.

Sequences of the stub or the page do not count, because every learner has them. The rest is compared with the known
solutions, which include the reference. Two learners are compared by the sequences that they share beyond the reference
and beyond the known solutions that either of them resembles.
"""

import hashlib
import io
import itertools
import keyword
import re
import textwrap
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from grader.batch.records import Known, Likeness, Record, Sequences
from grader.course import catalog
from grader.problem import Problem

LENGTH = 6
FEWEST = 15  # sequences; shorter files resemble each other because there is little to write
THRESHOLD = 0.8
REFERENCE = "the reference"
_MOST_TOKENS = 20_000
_BLOCK = re.compile(r"^ *```[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)  # of a page
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.ENCODING,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def _types(*names: str) -> set[int]:
    """Returns the token types of these names that this version of Python has."""
    return {getattr(tokenize, name) for name in names if hasattr(tokenize, name)}


# Python 3.12 splits f-strings into tokens, and Python 3.14 template strings.
_STRING_STARTS = _types("FSTRING_START", "TSTRING_START")
_STRING_ENDS = _types("FSTRING_END", "TSTRING_END")


Place = tuple[int, int]  # line from 1, column from 0


@dataclass(frozen=True)
class Tokens:
    """The tokens of a Python text: `code` is a digest of the text without comments on lines of their own, and
    `sequences` are its sequences of tokens."""

    code: str
    sequences: Sequences


@dataclass(frozen=True)
class Pair:
    """Two learners with near-duplicate files for a problem. `similarity` is between 0 and 1.

    `given` are the sequences that do not count between them.
    """

    problem: str
    one: str
    other: str
    similarity: float
    given: Sequences = frozenset()


@dataclass(frozen=True)
class Piece:
    """A part of a file, and whether its sequences of tokens are in the other file, too."""

    text: str
    shared: bool


def read(texts: Mapping[str, str]) -> dict[str, tuple[str, list[int]]]:
    """Returns the tokens of texts by key, as JSON values. For a process that may take too long, or fail."""
    return {key: (digest(without_comments(text)), sorted(sequences(text))) for key, text in texts.items()}


def digest(text: str) -> str:
    """Returns a digest that identifies a text."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def without_comments(text: str) -> str:
    """Returns the text of a Python file with empty comments on the lines that hold nothing else.

    Files that are equal then get equal reports: no report shows such a line, and the numbers of all other lines stay.
    """
    lines = text.split("\n")
    if "\r" in text.replace("\r\n", "") or "\0" in text:  # some versions of `tokenize` fail on these
        return text
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            row, column = token.start
            if token.type == tokenize.COMMENT and not token.line[:column].strip(" \t\f"):
                lines[row - 1] = "#"  # nothing at all would change what a backslash before it means
    except (tokenize.TokenError, SyntaxError):
        return text
    return "\n".join(lines)


def known(problem: Problem, found: Iterable[Known] = ()) -> list[Known]:
    """Returns the solutions of a problem that learners can have found: the reference, those in other styles beside it,
    and `found`.

    Leaves out solutions that are too short to be informative, and repetitions of the same one.
    """
    own = [Known(problem.name, REFERENCE, sequences(catalog.solution_text(problem)))]
    own += [
        Known(problem.name, f"the course's {path.name}", sequences(catalog.text_of(path)))
        for path in catalog.styles(problem)
    ]
    given, different = _given(problem), dict[Sequences, Known]()
    for one in (*own, *(each for each in found if each.problem == problem.name)):
        beyond = one.sequences - given
        if len(beyond) >= FEWEST:
            different.setdefault(beyond, Known(one.problem, one.name, beyond))
    return [*different.values()]


def compare(
    problem: Problem, records: Iterable[Record], tokens: Mapping[str, Tokens], solutions: Sequence[Known]
) -> tuple[list[Likeness], list[Pair]]:
    """Returns the learners whose files for a problem are like a known solution, and the pairs of near duplicates; the
    most similar first.

    `tokens` are those of files by digest; a file that is not in it is not compared. `solutions` are those of `known`.
    The members of a group hand in one file, so they are not compared with each other.
    """
    given = _given(problem)
    read_ = [(record, tokens.get(digest(record.source))) for record in records if record.source]
    candidates = [(record, found.sequences - given) for record, found in read_ if found]
    likenesses, resembled = list[Likeness](), dict[str, Sequences]()
    for record, own in candidates:
        close = [(value, each) for each in solutions if (value := _similarity(own, each.sequences)) >= THRESHOLD]
        if close:
            value, closest = max(close, key=lambda item: item[0])  # of equal ones the first, which is the reference
            likenesses.append(Likeness(problem.name, record.learner, closest.name, value))
            resembled[record.learner] = frozenset[int]().union(*(each.sequences for _, each in close))
    similar, reference = list[Pair](), sequences(catalog.solution_text(problem))
    beyond = [(record, own - reference) for record, own in candidates]
    for (one, first), (other, second) in itertools.combinations(beyond, 2):
        if one.members and one.members == other.members:
            continue
        known_ = resembled.get(one.learner, frozenset()) | resembled.get(other.learner, frozenset())
        value = _similarity(first - known_, second - known_)
        if value >= THRESHOLD:
            similar.append(Pair(problem.name, one.learner, other.learner, value, given | reference | known_))
    return (
        sorted(likenesses, key=lambda each: (-each.similarity, each.learner)),
        sorted(similar, key=lambda pair: (-pair.similarity, pair.one, pair.other)),
    )


def _similarity(one: Sequences, other: Sequences) -> float:
    """Returns the Jaccard index. 0 if the sizes alone keep it below the threshold, or if a file is too short to be
    informative."""
    if min(len(one), len(other)) < max(FEWEST, THRESHOLD * max(len(one), len(other))):
        return 0.0
    return len(one & other) / len(one | other)


def compared(pair: Pair, one: str, other: str) -> tuple[list[Piece], list[Piece]]:
    """Returns the two files of a pair in pieces that mark the sequences that they share. Sequences that do not count
    are not marked."""
    shared = (sequences(one) & sequences(other)) - pair.given
    return _pieces(one, shared), _pieces(other, shared)


def sequences(text: str) -> Sequences:
    """Returns the sequences of LENGTH tokens of a Python text, up to its first syntax error."""
    return frozenset(_sequences([kind for kind, _, _ in _tokens(text)]))


def reduced(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[tuple[str, Place, Place]]:
    """Yields the tokens without layout, with all names, all numbers and all strings alike, and where each starts and
    ends.

    An f-string is one string.
    """
    depth, start = 0, (0, 0)  # of nested f-strings
    for token in tokens:
        if token.type in _STRING_STARTS:
            start = start if depth else token.start
            depth += 1
        elif token.type in _STRING_ENDS:
            depth -= 1
            if not depth:
                yield "STRING", start, token.end
        elif depth or token.type in _LAYOUT:
            continue
        elif token.type == tokenize.NAME:
            yield token.string if keyword.iskeyword(token.string) else "name", token.start, token.end
        elif token.type in (tokenize.NUMBER, tokenize.STRING):
            yield tokenize.tok_name[token.type], token.start, token.end
        else:
            yield token.string, token.start, token.end


def _given(problem: Problem) -> Sequences:
    """Returns the sequences that learners share because the stub and the code on the page have them."""
    blocks = [textwrap.dedent(block) for block in _BLOCK.findall(catalog.page_text(problem))]
    return frozenset[int]().union(*map(sequences, (catalog.stub_text(problem), *blocks)))


def _tokens(text: str) -> list[tuple[str, Place, Place]]:
    tokens: list[tuple[str, Place, Place]] = []
    try:
        lines = io.StringIO(_readable(text))
        for token in reduced(itertools.islice(tokenize.generate_tokens(lines.readline), _MOST_TOKENS)):
            tokens.append(token)
    except (tokenize.TokenError, SyntaxError):
        pass  # the tokens before the error count
    return tokens


def _readable(text: str) -> str:
    """Returns a text of the same length without the characters on which Python 3.12's `tokenize` fails: null, and
    carriage returns that end a line."""
    return re.sub(r"\r(?!\n)", "\n", text).replace("\0", " ")


def _sequences(kinds: list[str]) -> list[int]:
    """Returns the sequence that begins at each token, as far as there are LENGTH tokens, as a hash that is the same in
    each process."""
    parts = [" ".join(kinds[start : start + LENGTH]).encode() for start in range(len(kinds) - LENGTH + 1)]
    return [int.from_bytes(hashlib.blake2b(part, digest_size=8).digest(), "big") for part in parts]


def _pieces(text: str, shared: Sequences) -> list[Piece]:
    tokens = _tokens(text)
    found = [start for start, one in enumerate(_sequences([kind for kind, _, _ in tokens])) if one in shared]
    marked = sorted({place for start in found for place in range(start, start + LENGTH)})
    line_starts = [0, *itertools.accumulate(len(line) + 1 for line in _readable(text).split("\n"))]
    pieces, end = list[Piece](), 0
    for _, run in itertools.groupby(enumerate(marked), lambda item: item[1] - item[0]):
        places = [place for _, place in run]
        first, last = (
            min(len(text), line_starts[line - 1] + column)
            for line, column in (tokens[places[0]][1], tokens[places[-1]][2])
        )
        pieces += [Piece(text[end:first], shared=False), Piece(text[first:last], shared=True)]
        end = max(end, last)
    return [piece for piece in [*pieces, Piece(text[end:], shared=False)] if piece.text]
