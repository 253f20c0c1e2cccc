"""Probes of problem 42: word counts, merges and ids. Run in workers."""

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from time import process_time
from typing import Any

import numpy as np
import tiktoken

from grader.authoring import Arrays, BadOutputError, Reading, Subject, described, eager
from grader.problem import Case

WORDS = 80  # places of words that are compared; no text of a case has as many different words
MOST = 999  # the largest count that is compared; all others are far too large
# The reference takes half a second of the CPU for all merges beside other words, or a second on a busy machine. A
# program that counts all words again takes minutes, so the time limit of the problem ends it. This limit ends it
# earlier, with a sentence.
SECONDS = 4.0
ENDING = 3  # drawn letters in some of the other words
GROWTH = (100,)  # numbers of merges before the largest
NOT_THERE, NO_MORE = -1, -2  # a token that does not occur in the case, and a place after the last


@eager
def counting(subject: Subject, case: Case) -> Reading:
    """The words in the order of their first places, each with its count as one number, and how many words an empty text
    has."""
    kind, special, text = (Mapping, "a dictionary"), _special(case), str(case.values["text"]).encode()
    counts = subject.call("count_words", text.decode(), special, returns=kind)
    for word, count in counts.items():
        if not isinstance(word, bytes):
            raise BadOutputError(f"`count_words` returned {described(word)} as a word; a word must be bytes")
        if not isinstance(count, int | np.integer):
            raise BadOutputError(f"`count_words` returned {described(count)} as a count; it must be an int")
    numbers = sorted(_place(text, (word,), min(max(int(count), 0), MOST)) for word, count in counts.items())
    numbers = (numbers + [NO_MORE] * WORDS)[:WORDS]
    found = {f"counts.{place:02}": np.int64(number) for place, number in enumerate(numbers)}
    empty = subject.call("count_words", "", special, returns=kind)
    return Reading({**found, "counts.of_an_empty_text": np.int64(min(len(empty), MOST))})


@eager
def training(subject: Subject, case: Case) -> Reading:
    """The merges, in order, each as one number, for each number of merges that is asked for."""
    found: Arrays = {}
    for asked in map(int, np.atleast_1d(case.values["num_merges"])):
        found |= _numbers(case, _trained(subject, _word_counts(case), asked), asked)
    return Reading(found)


@eager
def training_beside_many_words(subject: Subject, case: Case) -> Reading:
    """The merges of some words that occur often, beside many others that few merges change, so the others must not cost
    time."""
    others = range(int(case.values["others"]))
    last = str(case.values["words"]).rpartition("\n")[2]
    letters = np.random.default_rng(case.seed).choice(list(ascii_lowercase), (len(others), ENDING))
    # The factor has no common divisor with 10 ** 8, so the words are all different.
    word_counts = _word_counts(case) | {
        f"{number * 7919 % 10**8:08}{'' if number % 3 else ''.join(letters[number]) + last}".encode(): 1
        for number in others
    }
    asked = int(case.values["num_merges"])
    for number in (*GROWTH, asked):
        start = process_time()
        merges = _trained(subject, word_counts, number)
        if process_time() - start > SECONDS:
            raise BadOutputError(
                f"{number:,} merges of {len(word_counts):,} words take more than {SECONDS:g} s of computing; each of "
                "them changes few of the words, and the others need not be looked at again"
            )
    return Reading(_numbers(case, merges, asked))


def _word_counts(case: Case) -> dict[bytes, int]:
    counts: Any = case.values["counts"]
    return {word: int(n) for word, n in zip(str(case.values["words"]).encode().split(b"\n"), counts, strict=True)}


def _trained(subject: Subject, word_counts: Mapping[bytes, int], asked: int) -> Sequence[Sequence[bytes]]:
    merges: Any = subject.call("train_bpe", dict(word_counts), asked, returns=(list | tuple, "a list of pairs"))
    for number, pair in enumerate(merges):
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(part, bytes) for part in pair)):
            raise BadOutputError(f"merge {number} is {pair!r:.60}; it must be a pair of bytes")
    return merges


def _numbers(case: Case, merges: Sequence[Sequence[bytes]], asked: int) -> dict[str, np.int64]:
    text, found = str(case.values["words"]).encode(), {}
    for number in range(asked):
        code = _place(text, tuple(merges[number])) if number < len(merges) else NO_MORE
        found[f"merges.of_{asked}.{number:02}"] = np.int64(code)
    found[f"merges.of_{asked}.further"] = np.int64(min(max(0, len(merges) - asked), MOST))
    return found


def _place(text: bytes, parts: tuple[bytes, ...], count: int = 0) -> int:
    """Where the joined parts first occur, the length of the first part and of all, and a count, as the digits of one
    number."""
    start = text.find(b"".join(parts))
    if start < 0:
        return NOT_THERE
    return ((start * 1000 + len(parts[0])) * 1000 + len(b"".join(parts))) * 1000 + count


@eager
def encoding(subject: Subject, case: Case) -> Reading:
    """The ids of a text, the number of ids, and whether decoding gives the text again."""
    rows = [row.split() for row in str(case.values["merges"]).split("\n") if row]
    merges = [(left.replace("_", " ").encode(), right.replace("_", " ").encode()) for left, right in rows]
    kind = tiktoken.Encoding, "a tiktoken.Encoding"
    made = subject.call("make_encoding", merges, _special(case), returns=kind)
    text = str(case.values["text"])
    ids = made.encode(text, allowed_special="all")
    return Reading({
        "encoding.ids": np.array(ids, np.int32),
        "encoding.n_vocab": np.int32(made.n_vocab),
        "encoding.round_trip": np.int32(made.decode(ids) == text),
    })  # fmt: skip


def _special(case: Case) -> list[str]:
    return [token for token in str(case.values["special_tokens"]).split("\n") if token]


PROBES = {
    "counting": counting,
    "training": training,
    "training_beside_many_words": training_beside_many_words,
    "encoding": encoding,
}
