"""Problem 42, reference: train a byte-level BPE tokenizer."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import regex
import tiktoken

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
Word = tuple[bytes, ...]
Pair = tuple[bytes, bytes]


def count_words(text: str, special_tokens: Sequence[str]) -> Mapping[bytes, int]:
    """How often each word occurs between special tokens."""
    parts = re.split("|".join(map(re.escape, special_tokens)), text) if special_tokens else [text]
    return Counter(word.encode() for part in parts for word in regex.findall(PATTERN, part))


def merged(word: Word, pair: Pair) -> Word:
    """A word with every occurrence of a pair as one token, from left to right."""
    tokens: list[bytes] = []
    place = 0
    while place < len(word):
        if word[place : place + 2] == pair:
            tokens.append(pair[0] + pair[1])
            place += 2
        else:
            tokens.append(word[place])
            place += 1
    return tuple(tokens)


def train_bpe(word_counts: Mapping[bytes, int], num_merges: int) -> list[Pair]:
    """Byte-pair encoding (Sennrich, Haddow and Birch 2016) of bytes (Radford et al. 2019). Merges count changed words
    again."""
    words = [tuple(bytes([byte]) for byte in word) for word in word_counts]
    counts = list(word_counts.values())
    totals = Counter[Pair]()
    places = defaultdict[Pair, set[int]](set)  # the numbers of the words in which a pair occurs, or did

    def add(number: int, count: int) -> None:
        for pair in pairwise(words[number]):
            totals[pair] += count
            places[pair].add(number)
            if not totals[pair]:
                del totals[pair]

    for number, count in enumerate(counts):
        add(number, count)
    merges: list[Pair] = []
    while len(merges) < num_merges:
        best = max(totals, key=lambda pair: (totals[pair], pair), default=None)
        if best is None or totals[best] < 2:
            break
        merges.append(best)
        for number in tuple(places[best]):
            add(number, -counts[number])
            words[number] = merged(words[number], best)
            add(number, counts[number])
    return merges


def make_encoding(merges: Sequence[Pair], special_tokens: Sequence[str]) -> tiktoken.Encoding:
    """The ids of bytes, then of merges, then of special tokens."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    ranks |= {left + right: 256 + number for number, (left, right) in enumerate(merges)}
    special = {token: 256 + len(merges) + number for number, token in enumerate(special_tokens)}
    return tiktoken.Encoding("trained", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special)
