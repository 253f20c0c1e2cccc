"""Tokenizers as tiktoken encodings: GPT-2's, `pocket-2k` with 2,048 tokens for the embedded stories, and tokenizer.json."""

import base64
import functools
from pathlib import Path

import tiktoken

from commandline.spelling import nearest
from harness.config import HUGGING_FACE
from harness.data.tokenizer_json import END_OF_TEXT, SPLIT_PATTERN, read_tokenizer
from harness.errors import HarnessError, UsageError

POCKET_FILE = Path(__file__).with_name("pocket_2k.tiktoken")  # written by train_tokenizer.py
TOKENIZERS = ("pocket-2k", "gpt2")


@functools.cache
def get_tokenizer(name: str) -> tiktoken.Encoding:
    """The tokenizer called `name`, or that of a folder with `hf:DIR`.

    Raises UsageError if there is none of that name, or none in the folder that tiktoken could be; HarnessError if GPT-2's
    vocabulary cannot be downloaded.
    """
    if name.startswith(HUGGING_FACE):
        return read_tokenizer(Path(name.removeprefix(HUGGING_FACE)))
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


def _ranks(path: Path) -> dict[bytes, int]:
    """Reads a .tiktoken file: the rank of each token. (tiktoken's own loader caches a copy that can become stale.)"""
    pairs = (line.split() for line in path.read_text("ascii").splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}
