"""Makes pocket_2k.tiktoken: byte-pair encoding (Gage 1994; Sennrich et al. 2016) trained on the embedded stories.

    python -m harness.data.train_tokenizer

Counting words first makes it quick: the stories have some hundred distinct ones, however many stories there are.
"""

import base64
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import regex

from harness.data.pocket import stories
from harness.data.tokenizer import POCKET_FILE, SPLIT_PATTERN

VOCABULARY = 2048
STORIES = 20_000
Word = tuple[bytes, ...]


def count_words(texts: Iterable[str]) -> Counter[Word]:
    """How often each word occurs, as its single bytes."""
    words: Counter[str] = Counter()
    for text in texts:
        words.update(regex.findall(SPLIT_PATTERN, text))
    return Counter({tuple(bytes([byte]) for byte in word.encode()): count for word, count in words.items()})


def merge(word: Word, pair: tuple[bytes, bytes]) -> Word:
    """`word` with each occurrence of `pair`, from the left, made one token."""
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
    """The tokens in order of rank, at most `size`: all bytes, then the commonest pair, again and again; ties go to the
    lesser pair."""
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
    """The lines of the .tiktoken file: each token in base 64, and its rank. The last id is left for end-of-text."""
    for rank, token in enumerate(train(count_words(stories(STORIES)), VOCABULARY - 1)):
        yield f"{base64.b64encode(token).decode()} {rank}\n"


if __name__ == "__main__":
    POCKET_FILE.write_text("".join(encoding_lines()), "ascii")
