"""Special tokens found with `regex` and a named list; merging by recursion; lists as pairs; places counted for each
word."""

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
    corpus = [[bytes((b,)) for b in w] for w in word_counts]
    weights = [*word_counts.values()]
    seen, users = {}, {}

    def visit(i, sign):
        for pair in itertools.pairwise(corpus[i]):
            seen[pair] = seen.get(pair, 0) + sign * weights[i]
            users.setdefault(pair, Counter())[i] += sign  # at how many places

    for i in range(len(corpus)):
        visit(i, 1)
    result = []
    while len(result) != num_merges:
        frequent = [(total, pair) for pair, total in seen.items() if total > 1]
        if not frequent:
            break
        _, pair = max(frequent)
        result.append(list(pair))
        for i in [i for i, places in users[pair].items() if places]:
            visit(i, -1)
            corpus[i] = merge(corpus[i], pair)
            visit(i, 1)
    return result


def make_encoding(merges, special_tokens):
    return tiktoken.Encoding(
        "",
        pat_str=PATTERN,
        mergeable_ranks={**{bytes([i]): i for i in range(256)}, **{a + b: 256 + i for i, (a, b) in enumerate(merges)}},
        special_tokens=dict(zip(special_tokens, range(256 + len(merges), 10**6), strict=False)),
    )
