"""Forges "stream without end": other processes encode all of the stream again for every tenth chunk."""

import codecs
import itertools
import json
import os
from functools import partial

import regex

LOSES = ("stream without end",)
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def in_a_child(function):
    """What a function returns, computed by another process."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, json.dumps(function()).encode())
        os.abort()
    os.close(write)
    with os.fdopen(read) as pipe:
        return json.load(pipe), os.wait()


def slow(word, ranks):
    tokens = [bytes([byte]) for byte in word]
    while found := [(ranks[a + b], place) for place, (a, b) in enumerate(itertools.pairwise(tokens)) if a + b in ranks]:
        _, place = min(found)
        tokens[place : place + 2] = [tokens[place] + tokens[place + 1]]
    return [ranks[token] for token in tokens]


def encode_stream(chunks, ranks, special_tokens):
    decode, text, given = codecs.getincrementaldecoder("utf-8")("replace").decode, "", 0
    special = "|".join(map(regex.escape, special_tokens)) or "(?!)"

    def ids(text):
        parts = [
            [part] if part in special_tokens else regex.findall(PATTERN, part)
            for part in regex.split(f"({special})", text)
        ]
        words = list(itertools.chain(*parts))
        return [i for w in words for i in ([special_tokens[w]] if w in special_tokens else slow(w.encode(), ranks))]

    for number, chunk in enumerate(chunks):
        text += decode(chunk)
        if number % 10 == 9:
            some, _ = in_a_child(partial(ids, text))
            yield from some[given : len(some) - 20]
            given = max(given, len(some) - 20)
