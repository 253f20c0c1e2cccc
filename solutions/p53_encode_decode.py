"""Problem 53, reference: encode by ranks, decode, and encode a stream."""

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush

import regex

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def encode_word(word: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """The ids of one word: the pair with the lowest rank first (Sennrich, Haddow and Birch 2016), by a heap of
    pairs."""
    length = len(word)
    ends = list(range(1, length + 1))  # where the token that begins here ends; `length` once it is part of another
    starts = list(range(-1, length))  # where the token that ends here begins
    pairs: list[tuple[int, int, int]] = []

    def offer(start: int) -> None:
        middle = ends[start]
        if middle < length and (rank := ranks.get(word[start : ends[middle]])) is not None:
            heappush(pairs, (rank, start, ends[middle]))

    for start in range(length):
        offer(start)
    while pairs:
        _, start, stop = heappop(pairs)
        middle = ends[start]
        if middle == length or ends[middle] != stop:
            continue  # one of the two tokens has been merged since
        ends[start], ends[middle], starts[stop] = stop, length, start
        offer(start)
        if start:
            offer(starts[start])
    ids, start = [], 0
    while start < length:
        ids.append(ranks[word[start : ends[start]]])
        start = ends[start]
    return ids


def encode(text: str, ranks: Mapping[bytes, int], special_tokens: Mapping[str, int]) -> list[int]:
    """The ids of a text: special tokens whole, the rest word by word."""
    longest_first = sorted(special_tokens, key=len, reverse=True)  # a pattern takes the first alternative that fits
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text) if special_tokens else [text]
    ids = []
    for part in parts:
        if part in special_tokens:
            ids.append(special_tokens[part])
        else:
            for word in regex.findall(PATTERN, part):
                ids += encode_word(word.encode(), ranks)
    return ids


def decode(token_ids: Sequence[int], ranks: Mapping[bytes, int], special_tokens: Mapping[str, int]) -> str:
    """The text of ids. Bytes that are no UTF-8 become U+FFFD."""
    tokens = {rank: token for token, rank in ranks.items()}
    tokens |= {token_id: token.encode() for token, token_id in special_tokens.items()}
    return b"".join(tokens[int(token_id)] for token_id in token_ids).decode(errors="replace")


def encode_stream(
    chunks: Iterable[bytes], ranks: Mapping[bytes, int], special_tokens: Mapping[str, int]
) -> Iterator[int]:
    """The ids of a stream of bytes. What follows the start of the last white space waits for the next chunk."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = ""
    for chunk in chunks:
        text += decoder.decode(chunk)
        cut = max((space.start() for space in regex.finditer(r"\s+", text)), default=0)
        yield from encode(text[:cut], ranks, special_tokens)
        text = text[cut:]
    yield from encode(text + decoder.decode(b"", final=True), ranks, special_tokens)
