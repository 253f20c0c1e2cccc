"""Buckets of places by rank, a scanner that reads words and special tokens, and a stream encoded in blocks of words."""

import re
from collections import defaultdict

import regex

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
BLOCK = 4096  # bytes


def encode_word(word, ranks):
    tokens = [bytes((b,)) for b in word]
    places = defaultdict(list)
    after = {i: i + 1 for i in range(len(tokens) - 1)}
    before = {i + 1: i for i in range(len(tokens) - 1)}

    def note(i):
        if i in after and (rank := ranks.get(tokens[i] + tokens[after[i]])) is not None:
            places[rank].append(i)

    for i in range(len(tokens)):
        note(i)
    alive = [True] * len(tokens)
    while places:
        rank = min(places)
        for i in sorted(places.pop(rank)):
            if not alive[i] or i not in after or ranks.get(tokens[i] + tokens[after[i]]) != rank:
                continue
            j = after.pop(i)
            tokens[i] += tokens[j]
            alive[j] = False
            if j in after:
                after[i] = after.pop(j)
                before[after[i]] = i
            note(i)
            if i in before:
                note(before[i])
    return [ranks[token] for token, is_alive in zip(tokens, alive, strict=True) if is_alive]


def encode(text, ranks, special_tokens):
    ids, place = [], 0
    longest_first = sorted(map(re.escape, special_tokens), key=lambda token: -len(token))
    boundary = re.compile("|".join(longest_first) or r"(?!)")
    while place <= len(text):
        match = boundary.search(text, place)
        end = match.start() if match else len(text)
        ids += [i for word in regex.findall(PATTERN, text[place:end]) for i in encode_word(bytes(word, "utf-8"), ranks)]
        if not match:
            return ids
        ids.append(special_tokens[match.group()])
        place = match.end()
    return ids


def decode(token_ids, ranks, special_tokens):
    every = {**{v: k for k, v in ranks.items()}, **{v: k.encode() for k, v in special_tokens.items()}}
    return b"".join([every[i] for i in token_ids]).decode("utf-8", errors="replace")


def encode_stream(chunks, ranks, special_tokens):
    """Waits for a block of bytes, and cuts it at the last place where a space follows something else."""
    block = bytearray()
    for chunk in chunks:
        block.extend(chunk)
        if len(block) < BLOCK:
            continue
        cut = max(m.start() + 1 for m in re.finditer(rb"[^\s][\s]", block))
        yield from encode(block[:cut].decode(errors="replace"), ranks, special_tokens)
        del block[:cut]
    yield from encode(block.decode(errors="replace"), ranks, special_tokens)
