"""Words as lists of ids, with a table from ids to bytes; pairs in a heap; merging with a stack-free scan."""

import functools
import heapq
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
    stats, where = {}, {}
    for i, (ids, n) in enumerate(words):
        for pair in zip(ids, ids[1:], strict=False):
            stats[pair] = stats.get(pair, 0) + n
            where.setdefault(pair, set()).add(i)
    # Entries of pairs whose total has changed since stay in the heap until they come up. The order is reversed: letter
    # by letter, and the end of a token is after all letters.
    reverse = functools.cache(lambda token: (*(-byte for byte in table[token]), 1))
    entry = lambda pair: (-stats[pair], reverse(pair[0]), reverse(pair[1]), pair)
    heap = [entry(pair) for pair in stats]
    heapq.heapify(heap)
    merges = []
    while heap and len(merges) < num_merges:
        negative, *_, pair = heapq.heappop(heap)
        if -negative != stats[pair]:
            continue
        if stats[pair] < 2:
            return merges
        first, second = pair
        new = 256 + len(merges)
        table[new] = table[first] + table[second]
        merges.append((table[first], table[second]))
        changed = set()
        for i in where.pop(pair):
            ids, n = words[i]
            words[i] = (replaced(ids, first, second, new), n)
            for sign, version in ((-n, ids), (n, words[i][0])):
                for each in zip(version, version[1:], strict=False):
                    stats[each] = stats.get(each, 0) + sign
                    where.setdefault(each, set()).add(i)
                    changed.add(each)
        for each in changed:
            heapq.heappush(heap, entry(each))
    return merges


def make_encoding(merges, special_tokens):
    ranks = {bytes([i]): i for i in range(256)}
    for left, right in merges:
        ranks[left + right] = len(ranks)
    special = {}
    for token in special_tokens:
        special[token] = len(ranks) + len(special)
    return tiktoken.Encoding("bpe", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special)
