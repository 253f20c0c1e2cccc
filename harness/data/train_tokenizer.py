"""Trains tokenizers: byte-pair encoding (Gage 1994; Sennrich et al. 2016) with GPT-2's pattern.

Merges are counted per distinct word, not per occurrence. After each merge, only the words that contain it are counted
again.
"""

import base64
import heapq
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from operator import itemgetter
from pathlib import Path

import regex

from commandline.files import replace
from commandline.folders import cache_folder
from commandline.progress import working
from harness.config import TRAIN, DataConfig
from harness.data.formats import Part, Seen, boundary
from harness.data.prepared import key_of, open_sources
from harness.data.tokenizer import FILE_SUFFIX
from harness.data.tokenizer_json import SPLIT_PATTERN
from harness.errors import HarnessError, UsageError

VERSION = 1  # of trained tokenizers in the cache
HELD_OUT_EVERY, BLOCK = 50, 2048  # blocks, and characters of one

FEWEST, MOST = 512, 32_768  # tokens of a tokenizer that is suggested

Pair = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pair and how often it occurs. The smallest is merged first: the most frequent one, and the greatest pair among
    equals."""

    number: int
    pair: Pair

    def __lt__(self, other: "Candidate") -> bool:
        return (self.number, self.pair) > (other.number, other.pair)


def count_words(texts: Iterable[str]) -> Counter[str]:
    """The number of occurrences of each word."""
    pattern = regex.compile(SPLIT_PATTERN)
    words: Counter[str] = Counter()
    for text in texts:
        words.update(map(itemgetter(0), pattern.finditer(text)))
    return words


def merge(word: list[bytes], pair: Pair) -> list[bytes]:
    """`word` with each occurrence of `pair` merged into one token, from left to right."""
    merged: list[bytes] = []
    index = 0
    while index < len(word):
        if word[index] == pair[0] and word[index + 1 : index + 2] == [pair[1]]:
            merged.append(pair[0] + pair[1])
            index += 2
        else:
            merged.append(word[index])
            index += 1
    return merged


def train(counts: Counter[str]) -> Iterator[bytes]:
    """All tokens in order of rank: all bytes, then repeatedly the most frequent pair, until each word is one token.

    Of equally frequent pairs, the greatest is merged, as in problem 42. No two merges give the same token: the bytes
    between two ends of tokens are merged in the same way in every word.
    """
    tokens = [bytes([byte]) for byte in range(256)]
    yield from tokens
    words = [[tokens[byte] for byte in word.encode()] for word in counts]
    occurrences = list(counts.values())
    frequency: Counter[Pair] = Counter()
    places: defaultdict[Pair, set[int]] = defaultdict(set)  # the words that contain a pair, or did
    for index, word in enumerate(words):
        for pair in pairwise(word):
            frequency[pair] += occurrences[index]
            places[pair].add(index)
    # An entry is valid as long as its number is the pair's frequency.
    heap = [Candidate(number, pair) for pair, number in frequency.items()]
    heapq.heapify(heap)
    while heap:
        candidate = heapq.heappop(heap)
        best = candidate.pair
        if candidate.number != frequency[best] or not candidate.number:
            continue
        changed: set[Pair] = set()
        for index in places.pop(best):
            merged = merge(words[index], best)
            for pair in pairwise(words[index]):
                frequency[pair] -= occurrences[index]
                changed.add(pair)
            for pair in pairwise(merged):
                frequency[pair] += occurrences[index]
                places[pair].add(index)
                changed.add(pair)
            words[index] = merged
        for pair in changed:
            heapq.heappush(heap, Candidate(frequency[pair], pair))
        yield best[0] + best[1]


def fitting_size(size: int) -> int:
    """The number of tokens for a text of so many bytes: the power of two that is nearest to four times their root.

    The distinct words of a text grow about with the root of its length (Heaps 1978). With more tokens, most are too
    rare to be learned: docs/data.md has a measurement.
    """
    return min(max(1 << round(math.log2(4 * max(size, 1) ** 0.5)), FEWEST), MOST)


def held_out(parts: Iterable[Part], *, validation: bool) -> Iterator[str]:
    """The texts to train on, or those to measure on: the source's own validation split, else every 50th block of the
    text."""
    for index, (text, in_validation) in enumerate(_blocks(parts)):
        chosen = index % HELD_OUT_EVERY == HELD_OUT_EVERY // 2 if in_validation is None else in_validation
        if chosen == validation:
            yield text


def _blocks(parts: Iterable[Part]) -> Iterator[tuple[str, bool | None]]:
    for part in parts:
        start = 0
        while part.in_validation is None and len(part.text) - start > 2 * BLOCK:
            stop = boundary(part.text, start + BLOCK // 2, start + BLOCK)
            yield part.text[start:stop], None
            start = stop
        yield part.text[start:], part.in_validation


def file_of(config: DataConfig, *, quiet: bool = False) -> Path | None:
    """The file of a run's tokenizer: that which the setting names, or one trained on the data; None if it has no file.

    Raises UsageError if `train:N` is not valid, or if there is no such data.
    """
    if config.tokenizer.endswith(FILE_SUFFIX):
        return Path(config.tokenizer)
    if not config.tokenizer.startswith(TRAIN):
        return None
    number = config.tokenizer.removeprefix(TRAIN)
    if not (number.isdecimal() and int(number) > 256):
        raise UsageError(
            f"tokenizer={config.tokenizer} is not valid; write {TRAIN}N, where N, such as 4096, is at least 257: the "
            "bytes and the end of a text."
        )
    sources = open_sources(config)
    folder = cache_folder("HARNESS_CACHE", "harness") / "tokenizers"
    file = folder / f"{key_of(config, sources)}-{VERSION}-{number}{FILE_SUFFIX}"
    if not file.exists():
        with working(f"training a tokenizer on {', '.join(source.name for source in sources)}", lines=not quiet):
            parts = itertools.chain.from_iterable(source.read(Seen()) for source in sources)
            try:
                replace(file, "".join(file_lines(held_out(parts, validation=False), int(number))))
            except OSError as error:
                raise HarnessError(
                    f"The tokenizer could not be written to {folder}: {error.strerror or error}."
                ) from error
    return file


def file_lines(texts: Iterable[str], size: int) -> list[str]:
    """The lines of a .tiktoken file: each token in base 64, and its rank. Up to `size` tokens with end-of-text, the
    last id."""
    tokens = islice(train(count_words(texts)), size - 1)
    return [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)]
