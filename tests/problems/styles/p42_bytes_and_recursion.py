"""Special tokens found with `regex` and a named list; merging by recursion; lists as pairs."""

import itertools
from collections import Counter

import regex
import tiktoken

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def count_words(text, special_tokens):
    parts = regex.split(r"\L<special>", text, special=list(special_tokens)) if special_tokens else [text]
    total = Counter()
    for part in parts:
        total.update(w.encode("utf8") for w in regex.findall(PATTERN, part))
    return dict(total)


def merge(word, pair):
    if len(word) < 2:
        return word
    if word[0] == pair[0] and word[1] == pair[1]:
        return [b"".join(pair), *merge(word[2:], pair)]
    return [word[0], *merge(word[1:], pair)]


def train_bpe(word_counts, num_merges):
    corpus = [([bytes((b,)) for b in w], c) for w, c in word_counts.items()]
    result = []
    while len(result) != num_merges:
        seen = Counter()
        for tokens, c in corpus:
            for a, b in itertools.pairwise(tokens):
                seen[a, b] += c
        frequent = [(total, pair) for pair, total in seen.items() if total > 1]
        if not frequent:
            break
        _, pair = max(frequent)
        result.append(list(pair))
        corpus = [(merge(tokens, pair), c) for tokens, c in corpus]
    return result


def make_encoding(merges, special_tokens):
    return tiktoken.Encoding(
        "",
        pat_str=PATTERN,
        mergeable_ranks={**{bytes([i]): i for i in range(256)}, **{a + b: 256 + i for i, (a, b) in enumerate(merges)}},
        special_tokens=dict(zip(special_tokens, range(256 + len(merges), 10**6), strict=False)),
    )
