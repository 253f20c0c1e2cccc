"""Tokenizers, all as tiktoken encodings: GPT-2's, and one of 2,048 tokens made for the embedded stories."""

import base64
import functools
from pathlib import Path

import tiktoken

from commandline.spelling import nearest
from harness.errors import HarnessError, UsageError

END_OF_TEXT = "<|endoftext|>"
POCKET_FILE = Path(__file__).with_name("pocket_2k.tiktoken")  # made by train_tokenizer.py
SPLIT_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # GPT-2's
TOKENIZERS = ("pocket-2k", "gpt2")


@functools.cache
def get_tokenizer(name: str) -> tiktoken.Encoding:
    """The tokenizer called `name`. Raises UsageError for another name, HarnessError if GPT-2's vocabulary cannot be had."""
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
                f"TIKTOKEN_CACHE_DIR to a "
                "folder that has it, or use --tokenizer pocket-2k."
            ) from error
    close = nearest(name, TOKENIZERS)
    raise UsageError(f"There is no tokenizer {name!r}. Did you mean {close[0] if close else ' or '.join(TOKENIZERS)}?")


def _ranks(path: Path) -> dict[bytes, int]:
    """Rank by token from a .tiktoken file. (tiktoken's own loader would keep a copy in a shared folder, and go on using it.)"""
    pairs = (line.split() for line in path.read_text("ascii").splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}
