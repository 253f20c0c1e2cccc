"""Trains tokenizers: byte-pair encoding (Gage 1994; Sennrich et al. 2016) with GPT-2's pattern.

    python -m harness.data.train_tokenizer    writes pocket_2k.tiktoken again

Merges are counted per distinct word, not per occurrence. After each merge, only the words that contain it are counted again.
"""

import base64
import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from operator import itemgetter

import regex

from commandline.files import write
from harness.data.pocket import stories
from harness.data.tokenizer import POCKET_FILE
from harness.data.tokenizer_json import SPLIT_PATTERN

VOCABULARY = 2048
STORIES = 20_000
Pair = tuple[bytes, bytes]


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

    Of equally frequent pairs, the lexicographically smaller one is merged.
    """
    tokens = [bytes([byte]) for byte in range(256)]
    yield from tokens
    known = set(tokens)
    words = [[tokens[byte] for byte in word.encode()] for word in counts]
    occurrences = list(counts.values())
    frequency: Counter[Pair] = Counter()
    places: defaultdict[Pair, set[int]] = defaultdict(set)  # the words that contain a pair, or did
    for index, word in enumerate(words):
        for pair in pairwise(word):
            frequency[pair] += occurrences[index]
            places[pair].add(index)
    # An entry is valid as long as its number is the pair's frequency.
    heap = [(-number, pair) for pair, number in frequency.items()]
    heapq.heapify(heap)
    while heap:
        number, best = heapq.heappop(heap)
        if -number != frequency[best] or not number:
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
            heapq.heappush(heap, (-frequency[pair], pair))
        token = best[0] + best[1]
        if token not in known:  # `ab` + `c` is the same token as `a` + `bc`
            known.add(token)
            yield token


def file_lines(texts: Iterable[str], size: int) -> list[str]:
    """The lines of a .tiktoken file: each token in base 64, and its rank. Up to `size` tokens with end-of-text, the last id."""
    tokens = islice(train(count_words(texts)), size - 1)
    return [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)]


if __name__ == "__main__":
    write(POCKET_FILE, "".join(file_lines(stories(STORIES), VOCABULARY)))
