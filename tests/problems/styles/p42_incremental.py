"""Totals that are kept up to date: after a merge, only the words that contain the pair are counted again."""

import itertools
from collections import Counter, defaultdict

import regex
import tiktoken

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def count_words(text, special_tokens):
    pieces = [text]
    for token in special_tokens:
        pieces = [part for piece in pieces for part in piece.split(token)]
    counts = {}
    for piece in pieces:
        for match in regex.finditer(PATTERN, piece):
            word = match.group().encode("utf-8")
            counts[word] = counts.get(word, 0) + 1
    return counts


def train_bpe(word_counts, num_merges):
    words = [[word[i : i + 1] for i in range(len(word))] for word in word_counts]
    weights = list(word_counts.values())
    totals, where = Counter(), defaultdict(set)
    for number, word in enumerate(words):
        for pair in itertools.pairwise(word):
            totals[pair] += weights[number]
            where[pair].add(number)
    merges = []
    while totals and len(merges) < num_merges:
        highest = max(totals.values())
        if highest < 2:
            break
        pair = max(pair for pair, total in totals.items() if total == highest)
        merges.append(pair)
        for number in where.pop(pair):
            word = words[number]
            for old in itertools.pairwise(word):
                totals[old] -= weights[number]
            new = []
            for token in word:
                if new and (new[-1], token) == pair and new[-1] is not None:
                    new[-1:] = [pair[0] + pair[1], None]
                else:
                    new = [t for t in new if t is not None] + [token]
            words[number] = word = [t for t in new if t is not None]
            for fresh in itertools.pairwise(word):
                totals[fresh] += weights[number]
                where[fresh].add(number)
        totals = Counter({pair: total for pair, total in totals.items() if total > 0})
    return merges


def make_encoding(merges, special_tokens):
    tokens = [bytes([i]) for i in range(256)] + [b"".join(pair) for pair in merges]
    size = len(tokens)
    return tiktoken.Encoding(
        name="mine",
        pat_str=PATTERN,
        mergeable_ranks={token: i for i, token in enumerate(tokens)},
        special_tokens={token: size + i for i, token in enumerate(special_tokens)},
    )
