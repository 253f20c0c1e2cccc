"""Words as lists of ids, with a table from ids to bytes that decides ties; merging with a stack-free scan."""

import re

import regex
import tiktoken

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def count_words(text, special_tokens):
    counts = {}
    chunks = re.split("|".join(re.escape(t) for t in special_tokens), text) if len(special_tokens) else (text,)
    for chunk in chunks:
        for piece in regex.compile(PATTERN).findall(chunk):
            counts.setdefault(bytes(piece, "utf-8"), 0)
            counts[bytes(piece, "utf-8")] += 1
    return counts


def replaced(ids, first, second, new):
    out, skip = [], False
    for i, token in enumerate(ids):
        if skip:
            skip = False
        elif token == first and i + 1 < len(ids) and ids[i + 1] == second:
            out.append(new)
            skip = True
        else:
            out.append(token)
    return out


def train_bpe(word_counts, num_merges):
    table = {i: bytes([i]) for i in range(256)}
    words = [(list(word), n) for word, n in word_counts.items()]
    merges = []
    for step in range(num_merges):
        stats = {}
        for ids, n in words:
            for i in range(len(ids) - 1):
                stats[ids[i], ids[i + 1]] = stats.get((ids[i], ids[i + 1]), 0) + n
        ranked = sorted(stats, key=lambda p: (stats[p], table[p[0]], table[p[1]]))
        if not ranked or stats[ranked[-1]] == 1:
            return merges
        first, second = ranked[-1]
        table[256 + step] = table[first] + table[second]
        merges.append((table[first], table[second]))
        words = [(replaced(ids, first, second, 256 + step), n) for ids, n in words]
    return merges


def make_encoding(merges, special_tokens):
    ranks = {bytes([i]): i for i in range(256)}
    for left, right in merges:
        ranks[left + right] = len(ranks)
    special = {}
    for token in special_tokens:
        special[token] = len(ranks) + len(special)
    return tiktoken.Encoding("bpe", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special)
