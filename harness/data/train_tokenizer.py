"""Trains tokenizers: byte-pair encoding (Gage 1994; Sennrich et al. 2016) with GPT-2's pattern.

Merges are counted per distinct word, not per occurrence. After each merge, only the words that contain it are counted again.
"""

import base64
import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from operator import itemgetter

import regex

from harness.data.tokenizer_json import SPLIT_PATTERN

Pair = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pair and how often it occurs. The smallest is merged first: the most frequent one, and the greatest pair among equals."""

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

    Of equally frequent pairs, the greatest is merged, as in problem 42. No two merges give the same token: the bytes between two
    ends of tokens are merged in the same way in every word.
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


def file_lines(texts: Iterable[str], size: int) -> list[str]:
    """The lines of a .tiktoken file: each token in base 64, and its rank. Up to `size` tokens with end-of-text, the last id."""
    tokens = islice(train(count_words(texts)), size - 1)
    return [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)]
