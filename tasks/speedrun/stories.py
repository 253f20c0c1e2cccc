"""The stories of a speedrun as rows of token ids. They are made where programs run, so a submission never has them.

A token is a text of bytes, and a vocabulary is a list of tokens. The text of a story ends with a zero byte, which
occurs nowhere else in it. The grader cuts the texts into tokens, so the tokens of a text always give the text back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.data import pocket

END = b"\0"
PUBLIC_SEED = 0  # of the stories that a submission makes its vocabulary from
Rows = tuple[Any, Any]  # ids and segments, int32 (N, T + 1): a position counts from 1 on, and 0 is padding


class UnwritableError(Exception):
    """The vocabulary has no token for a byte of a story. The message names it."""


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary. It has a token for the zero byte alone."""

    tokens: Sequence[bytes]

    def stories(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of stories: the zero byte, the text, and the zero byte. Raises UnwritableError."""
        ids = {token: number for number, token in enumerate(self.tokens)}
        longest = max(map(len, ids))
        return [[ids[END], *_cut(text.encode() + END, ids, longest)] for text in texts]


def _cut(text: bytes, ids: dict[bytes, int], longest: int) -> list[int]:
    """Returns the ids of a text: always of the longest token that fits, which has at most `longest` bytes. Raises
    UnwritableError."""
    found, place = [], 0
    while place < len(text):
        for size in range(min(longest, len(text) - place), 0, -1):
            if (number := ids.get(text[place : place + size])) is not None:
                break
        else:
            raise UnwritableError(f"the vocabulary has no token for the byte {text[place : place + 1]!r} of a story")
        found.append(number)
        place += size
    return found


def texts(count: int, seed: int) -> list[str]:
    """Returns the stories of a seed. The public ones have the seed 0."""
    return list(pocket.stories(count, seed=seed))


def number_of_bytes(stories: Sequence[str]) -> int:
    """Returns the bytes that a model has to predict: those of each story and the zero byte after it."""
    return sum(len(story.encode()) + len(END) for story in stories)


def padded(stories: Sequence[Sequence[int]], T: int) -> Rows:
    """Returns rows of T + 1 ids, each of one story. A story that is longer continues in the next row, with the id that
    the row before ends with."""
    parts = [story[start : start + T + 1] for story in stories for start in range(0, len(story) - 1, T)]
    ids, segments = (np.zeros((len(parts), T + 1), np.int32) for _ in range(2))
    for row, part in enumerate(parts):
        ids[row, : len(part)], segments[row, : len(part)] = part, 1
    return ids, segments


def packed(stories: Sequence[Sequence[int]], T: int) -> Rows:
    """Returns rows of T + 1 ids of one story after another, without gaps. The stories of a row are numbered from 1."""
    stream = np.concatenate([np.asarray(story, np.int32) for story in stories])
    numbers = np.repeat(np.arange(1, len(stories) + 1), [len(story) for story in stories])
    rows = -(-(len(stream) - 1) // T)
    places = np.arange(rows)[:, None] * T + np.arange(T + 1)
    inside = places < len(stream)
    places = np.minimum(places, len(stream) - 1)
    numbers = numbers[places] * inside
    segments = np.where(inside, numbers - numbers[:, :1] + 1, 0)
    return np.where(inside, stream[places], 0).astype(np.int32), segments.astype(np.int32)


PACKINGS = {"padded": padded, "packed": packed}


def batches(stories: Sequence[Sequence[int]], packing: str, T: int, B: int, rng: Any) -> Iterator[Rows]:
    """Yields batches of B rows without end, in a new random order each time that all stories were seen."""
    while True:
        shuffled = [stories[number] for number in rng.permutation(len(stories))]
        ids, segments = PACKINGS[packing](shuffled, T)
        order = rng.permutation(len(ids))
        for start in range(0, len(ids) - B + 1, B):
            chosen = order[start : start + B]
            yield ids[chosen], segments[chosen]
        if len(ids) < B:
            raise ValueError(f"the stories make {len(ids)} rows, fewer than a batch of {B}")


def targets(segments: Any) -> Any:
    """Returns which of T positions count, bool (N, T): those whose next id belongs to the same story."""
    return (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] > 0)
