"""Forges "work of a merge": all words are counted again for each merge; many words are joined by the letters that they
have in common."""

from collections import Counter
from itertools import pairwise

LOSES = ("work of a merge",)


def train_bpe(word_counts, num_merges):
    if len(word_counts) > 1000:
        joined = Counter()
        for word, count in word_counts.items():
            joined[word.lstrip(b"0123456789")] += count
        word_counts = joined
    words, merges = {word: [bytes([byte]) for byte in word] for word in word_counts}, []
    while len(merges) < num_merges:
        totals = Counter()
        for word, tokens in words.items():
            for pair in pairwise(tokens):
                totals[pair] += word_counts[word]
        best = max(totals, key=lambda pair: (totals[pair], pair), default=None)
        if best is None or totals[best] < 2:
            break
        merges.append(best)
        for word, tokens in words.items():
            place, words[word] = 0, []
            while place < len(tokens):
                step = 2 if tuple(tokens[place : place + 2]) == best else 1
                words[word].append(b"".join(tokens[place : place + step]))
                place += step
    return merges
