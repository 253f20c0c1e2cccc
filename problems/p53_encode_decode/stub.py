"""Problem 53: encode and decode with a trained vocabulary.

The page is in pages/p53_encode_decode.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import regex

# GPT-2's pattern, as in problem 42.
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def encode_word(word: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """The ids of one word. The neighbors whose joined bytes have the
    lowest rank are merged first."""
    raise NotImplementedError


def encode(
    text: str,
    ranks: Mapping[bytes, int],
    special_tokens: Mapping[str, int],
) -> list[int]:
    """The ids of a text. A special token has the id that `special_tokens` gives it;
    words are cut by `PATTERN`."""
    raise NotImplementedError


def decode(
    token_ids: Sequence[int],
    ranks: Mapping[bytes, int],
    special_tokens: Mapping[str, int],
) -> str:
    """The text of ids. Bytes that are not valid UTF-8 become U+FFFD."""
    raise NotImplementedError


def encode_stream(
    chunks: Iterable[bytes],
    ranks: Mapping[bytes, int],
    special_tokens: Mapping[str, int],
) -> Iterator[int]:
    """The ids of the text whose UTF-8 bytes arrive in chunks: those of `encode`, given
    while the stream is read."""
    raise NotImplementedError
