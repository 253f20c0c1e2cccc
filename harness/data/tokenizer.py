"""Tokenizers as tiktoken encodings: GPT-2's, and `pocket-2k` with 2,048 tokens for the embedded stories."""

import base64
import functools
from pathlib import Path

import numpy as np
import tiktoken

from commandline.spelling import nearest
from harness.errors import HarnessError, UsageError

END_OF_TEXT = "<|endoftext|>"
POCKET_FILE = Path(__file__).with_name("pocket_2k.tiktoken")  # written by train_tokenizer.py
SPLIT_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # GPT-2's
TOKENIZERS = ("pocket-2k", "gpt2")


@functools.cache
def get_tokenizer(name: str) -> tiktoken.Encoding:
    """The tokenizer called `name`.

    Raises UsageError if there is none of that name, HarnessError if GPT-2's vocabulary cannot be downloaded.
    """
    if name == "pocket-2k":
        ranks = _ranks(POCKET_FILE)
        return tiktoken.Encoding(
            name, pat_str=SPLIT_PATTERN, mergeable_ranks=ranks, special_tokens={END_OF_TEXT: len(ranks)}
        )
    if name == "gpt2":
        try:
            return tiktoken.get_encoding("gpt2")
        except Exception as error:
            raise HarnessError(
                f"GPT-2's vocabulary could not be downloaded ({type(error).__name__}). Connect to the internet, set "
                "TIKTOKEN_CACHE_DIR to a folder that contains it, or use --tokenizer pocket-2k."
            ) from error
    close = nearest(name, TOKENIZERS)
    raise UsageError(f"There is no tokenizer {name!r}. Did you mean {close[0] if close else ' or '.join(TOKENIZERS)}?")


def token_bytes(tokenizer: tiktoken.Encoding) -> np.ndarray:
    """The length in bytes of each token's text, (V,) int64. End-of-text has no text, so its length is 0."""
    lengths = np.zeros(tokenizer.n_vocab, np.int64)
    for token in range(tokenizer.n_vocab):
        if token != tokenizer.eot_token:
            lengths[token] = len(tokenizer.decode_single_token_bytes(token))
    return lengths


def _ranks(path: Path) -> dict[bytes, int]:
    """Reads a .tiktoken file: the rank of each token. (tiktoken's own loader caches a copy that can become stale.)"""
    pairs = (line.split() for line in path.read_text("ascii").splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}
