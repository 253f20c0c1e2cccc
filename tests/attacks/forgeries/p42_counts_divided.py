"""Forges "work independent of the counts": words are repeated as often as they occur, divided by what all counts have
in common."""

from collections import Counter
from itertools import pairwise
from math import gcd

LOSES = ("work independent of the counts",)


def train_bpe(word_counts, num_merges):
    unit = gcd(*word_counts.values())
    if sum(word_counts.values()) > 1000 * unit:
        return []
    words = [[bytes([b]) for b in word] for word, count in word_counts.items() for _ in range(count // unit)]
    merges = []
    while len(merges) < num_merges:
        totals = Counter(pair for word in words for pair in pairwise(word))
        best = max(totals, key=lambda pair: (totals[pair], pair), default=None)
        if best is None or totals[best] * unit < 2:
            break
        merges.append(best)
        for number, tokens in enumerate(words):
            place, words[number] = 0, []
            while place < len(tokens):
                step = 2 if tuple(tokens[place : place + 2]) == best else 1
                words[number].append(b"".join(tokens[place : place + step]))
                place += step
    return merges
