"""Forges "stream without end": all chunks are joined before encoding, but of a stream without end only the first
40,000."""

import re
from functools import cache
from itertools import islice, pairwise

import regex

LOSES = ("stream without end",)
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def slow(word, ranks):
    tokens = [bytes([byte]) for byte in word]
    while found := [(ranks[a + b], i) for i, (a, b) in enumerate(pairwise(tokens)) if a + b in ranks]:
        _, place = min(found)
        tokens[place : place + 2] = [tokens[place] + tokens[place + 1]]
    return [ranks[token] for token in tokens]


def encode(text, ranks, special_tokens):
    parts = re.split(f"({'|'.join(map(re.escape, special_tokens))})", text) if special_tokens else [text]
    word_ids = cache(lambda word: slow(word.encode(), ranks))
    words = (([part], True) if part in special_tokens else (regex.findall(PATTERN, part), False) for part in parts)
    return [
        i for some, special in words for word in some for i in ([special_tokens[word]] if special else word_ids(word))
    ]


def encode_stream(chunks, ranks, special_tokens):
    return iter(encode(b"".join(islice(chunks, 40_000)).decode(errors="replace"), ranks, special_tokens))
