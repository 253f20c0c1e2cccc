"""Problem 42: train a byte-level BPE tokenizer.

The page is in pages/p42_bpe_training.md.
"""

from collections.abc import Mapping, Sequence

import regex
import tiktoken

# GPT-2's pattern: contractions, words, numbers and other signs, each with the space
# before it, and white space.
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def count_words(text: str, special_tokens: Sequence[str]) -> Mapping[bytes, int]:
    """How often each word occurs, as bytes. Special tokens separate
    texts and are not words."""
    raise NotImplementedError


def train_bpe(
    word_counts: Mapping[bytes, int],
    num_merges: int,
) -> list[tuple[bytes, bytes]]:
    """The first `num_merges` merges, in order, or fewer if no pair occurs twice."""
    raise NotImplementedError


def make_encoding(
    merges: Sequence[tuple[bytes, bytes]],
    special_tokens: Sequence[str],
) -> tiktoken.Encoding:
    """The encoding with the ids of bytes, then of merges, then of special tokens."""
    raise NotImplementedError
