"""Trains pocket_2k.tiktoken: byte-pair encoding (Gage 1994; Sennrich et al. 2016) of the embedded stories.

    python -m harness.data.train_tokenizer

Merges are counted per distinct word, not per occurrence, because the stories have only a few hundred distinct words.
"""

import base64
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import regex

from commandline.files import write
from harness.data.pocket import stories
from harness.data.tokenizer import POCKET_FILE
from harness.data.tokenizer_json import SPLIT_PATTERN

VOCABULARY = 2048
STORIES = 20_000
Word = tuple[bytes, ...]


def count_words(texts: Iterable[str]) -> Counter[Word]:
    """The number of occurrences of each word, keyed by its bytes."""
    words: Counter[str] = Counter()
    for text in texts:
        words.update(regex.findall(SPLIT_PATTERN, text))
    return Counter({tuple(bytes([byte]) for byte in word.encode()): count for word, count in words.items()})


def merge(word: Word, pair: tuple[bytes, bytes]) -> Word:
    """`word` with each occurrence of `pair` merged into one token, from left to right."""
    merged: list[bytes] = []
    index = 0
    while index < len(word):
        if word[index : index + 2] == pair:
            merged.append(pair[0] + pair[1])
            index += 2
        else:
            merged.append(word[index])
            index += 1
    return tuple(merged)


def train(words: Counter[Word], size: int) -> Iterator[bytes]:
    """At most `size` tokens in order of rank: all bytes, then repeatedly the most frequent pair.

    Of equally frequent pairs, the lexicographically smaller one is merged.
    """
    yield from (bytes([byte]) for byte in range(256))
    for _ in range(size - 256):
        pairs: Counter[tuple[bytes, bytes]] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs:
            return
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        words = Counter({merge(word, best): count for word, count in words.items()})
        yield best[0] + best[1]


def encoding_lines() -> Iterator[str]:
    """The lines of the .tiktoken file: each token in base 64, and its rank. The last id is reserved for end-of-text."""
    for rank, token in enumerate(train(count_words(stories(STORIES)), VOCABULARY - 1)):
        yield f"{base64.b64encode(token).decode()} {rank}\n"


if __name__ == "__main__":
    write(POCKET_FILE, "".join(encoding_lines()))
