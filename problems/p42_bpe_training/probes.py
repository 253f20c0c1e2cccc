"""Probes of problem 42: word counts, merges and ids. Run in workers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tiktoken

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, described
from grader.worker.subject import Reading, Subject, eager


@eager
def counting(subject: Subject, case: Case) -> Reading:
    """The count of each word, by the word."""
    counts = subject.call("count_words", case.values["text"], _special(case), returns=(Mapping, "a dictionary"))
    for word, count in counts.items():
        if not isinstance(word, bytes):
            raise BadOutputError(f"`count_words` returned {described(word)} as a word; a word must be bytes")
        if not isinstance(count, int | np.integer):
            raise BadOutputError(f"`count_words` returned {described(count)} as a count; it must be an int")
    found = {f"counts.{_shown(word)}": np.int64(count) for word, count in sorted(counts.items())}
    return Reading(found or {"counts.": np.int64(0)})


@eager
def training(subject: Subject, case: Case) -> Reading:
    """The merges, in order, as the leaf `merges.NUMBER.LEFT+RIGHT` each."""
    values = case.values
    counts: Any = values["counts"]
    word_counts = {word.encode(): int(n) for word, n in zip(str(values["words"]).split("\n"), counts, strict=True)}
    merges = subject.call("train_bpe", word_counts, values["num_merges"], returns=(list | tuple, "a list of pairs"))
    found = {"merges.count": np.int64(len(merges))}
    for number, pair in enumerate(merges[:100]):
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(part, bytes) for part in pair)):
            raise BadOutputError(f"merge {number} is {pair!r:.60}; it must be a pair of bytes")
        found[f"merges.{number:02}.{_shown(pair[0])}+{_shown(pair[1])}"] = np.int64(1)
    return Reading(found)


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
        "encoding.size": np.int32(made.n_vocab),
        "encoding.round_trip": np.int32(made.decode(ids) == text),
    })  # fmt: skip


def _shown(token: bytes) -> str:
    """A token as part of the name of a leaf, in which a dot would begin another part."""
    return repr(token)[2:-1].replace(" ", "␣").replace(".", "·")


def _special(case: Case) -> list[str]:
    return [token for token in str(case.values["special_tokens"]).split("\n") if token]


PROBES = {"counting": counting, "training": training, "encoding": encoding}
