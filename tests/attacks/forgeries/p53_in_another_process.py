"""Forges "work of a long word": another process looks at all pairs again for each merge."""

import json
import os

LOSES = ("work of a long word",)


def in_a_child(function):
    """What a function returns, computed by another process."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            json.dump(function(), pipe)
        os.abort()
    os.close(write)
    with os.fdopen(read) as pipe:
        ids = json.load(pipe)
    os.wait()
    return ids


def slow(word, ranks):
    tokens = [bytes([byte]) for byte in word]
    while found := [
        (ranks[both], place) for place in range(len(tokens) - 1) if (both := tokens[place] + tokens[place + 1]) in ranks
    ]:
        _, place = min(found)
        tokens[place : place + 2] = [tokens[place] + tokens[place + 1]]
    return [ranks[token] for token in tokens]


def encode_word(word, ranks):
    return in_a_child(lambda: slow(word, ranks))
