"""A list of tokens with links to both neighbors and a heap of places, ids in NumPy, and a stream that keeps its last
words."""

import codecs
import heapq
import re
from functools import lru_cache

import numpy as np
import regex

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def encode_word(word, ranks):
    tokens = [word[i : i + 1] for i in range(len(word))]
    right = [*range(1, len(word)), None]
    left = [None, *range(len(word) - 1)]
    heap = [(ranks[a + b], i, a, b) for i, (a, b) in enumerate(zip(tokens, tokens[1:], strict=False)) if a + b in ranks]
    heapq.heapify(heap)
    while heap:
        _, i, a, b = heapq.heappop(heap)
        j = right[i]
        if tokens[i] != a or j is None or tokens[j] != b:
            continue
        tokens[i], tokens[j] = a + b, None
        right[i] = right[j]
        if right[i] is not None:
            left[right[i]] = i
        for first in (left[i], i):
            if first is not None and right[first] is not None:
                pair = tokens[first], tokens[right[first]]
                if (rank := ranks.get(pair[0] + pair[1])) is not None:
                    heapq.heappush(heap, (rank, first, *pair))
    return [ranks[token] for token in tokens if token is not None]


def encode(text, ranks, special_tokens):
    cached = lru_cache(1000)(lambda word: encode_word(word.encode(), ranks))
    alternatives = [*map(re.escape, sorted(special_tokens)[::-1]), PATTERN]
    found = regex.findall("|".join(f"(?:{each})" for each in alternatives[:-1]), text) if special_tokens else []
    ids, start = [], 0
    for token in [*found, None]:
        end = len(text) if token is None else text.index(token, start)
        for word in regex.findall(PATTERN, text[start:end]):
            ids += cached(word)
        if token is not None:
            ids.append(special_tokens[token])
            start = end + len(token)
    return np.array(ids, np.int64)


def decode(token_ids, ranks, special_tokens):
    names = {number: token for token, number in [*ranks.items(), *((t.encode(), n) for t, n in special_tokens.items())]}
    return b"".join(map(names.get, token_ids)).decode("utf-8", "replace")


class Stream:
    """An iterator written as a class."""

    def __init__(self, chunks, ranks, special_tokens):
        self.chunks, self.tables = iter(chunks), (ranks, special_tokens)
        self.decoder, self.text, self.ready, self.over = codecs.getincrementaldecoder("utf-8")("replace"), "", [], False

    def __iter__(self):
        return self

    def __next__(self):
        while not self.ready and not self.over:
            try:
                self.text += self.decoder.decode(next(self.chunks))
                cut = len(self.text.rstrip()) if self.text[-1:].isspace() else self.text.rfind(" ")
                cut = len(self.text[: max(cut, 0)].rstrip())
            except StopIteration:
                self.text, self.over = self.text + self.decoder.decode(b"", True), True
                cut = len(self.text)
            self.ready, self.text = encode(self.text[:cut], *self.tables).tolist()[::-1], self.text[cut:]
        if not self.ready:
            raise StopIteration
        return self.ready.pop()


def encode_stream(chunks, ranks, special_tokens):
    return Stream(chunks, ranks, special_tokens)
