"""Tokenizers as tiktoken encodings: GPT-2's, bytes, `pocket-2k` for stories, .tiktoken files, and tokenizer.json."""

import base64
import contextlib
import functools
import hashlib
from pathlib import Path

import numpy as np
import tiktoken

from commandline.spelling import nearest
from harness.config import HUGGING_FACE
from harness.data.hub import holder, model_folder
from harness.data.package_tokenizer import begin_of, end_of, read_by_package
from harness.data.tokenizer_json import END_OF_TEXT, SPLIT_PATTERN, UnsupportedError, read_tokenizer
from harness.errors import HarnessError, UsageError

# Trained on the embedded stories when ties went to the smallest pair. It stays as it is: runs and token files depend on
# its ids.
POCKET_FILE = Path(__file__).with_name("pocket_2k.tiktoken")
TOKENIZERS = ("pocket-2k", "gpt2", "bytes")
FILE_SUFFIX = ".tiktoken"


def get_tokenizer(name: str) -> tiktoken.Encoding:
    """The tokenizer called `name`, that of a .tiktoken file with end-of-text as its last token, or of a model as
    `hf:DIR`.

    Raises UsageError if there is none of that name, or if the file is not a tokenizer, HarnessError if GPT-2's
    vocabulary cannot be downloaded.
    """
    if name.startswith(HUGGING_FACE):
        return _from_folder(holder(model_folder(name), "tokenizer.json"))
    if not name.endswith(FILE_SUFFIX):
        return _named(name)
    try:
        return _from_lines(Path(name).read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"The tokenizer {name} cannot be read: {reason}.") from error


@functools.cache
def _from_folder(folder: Path) -> tiktoken.Encoding:
    try:
        return read_tokenizer(folder)
    except UnsupportedError as reason:
        return read_by_package(folder / "tokenizer.json", reason)


@functools.cache
def _named(name: str) -> tiktoken.Encoding:
    if name == "pocket-2k":
        return _encoding(name, _ranks(POCKET_FILE.read_bytes()))
    if name == "bytes":
        return _encoding(name, {bytes([byte]): byte for byte in range(256)})
    if name == "gpt2":
        try:
            return tiktoken.get_encoding("gpt2")
        except Exception as error:
            raise HarnessError(
                f"GPT-2's vocabulary could not be downloaded ({type(error).__name__}). Connect to the internet, set "
                "TIKTOKEN_CACHE_DIR to a folder that contains it, or use --tokenizer pocket-2k."
            ) from error
    close = nearest(name, TOKENIZERS)
    raise UsageError(
        f"There is no tokenizer {name!r}. Did you mean {close[0] if close else ' or '.join(TOKENIZERS)}? "
        f"A file must end in {FILE_SUFFIX}; `harness tokenizer train` writes one."
    )


def token_bytes(tokenizer: tiktoken.Encoding) -> np.ndarray:
    """The length in bytes of each token's text, (V,) int64. That of tokens that stand before and after a text, such as
    end-of-text, is 0."""
    lengths = np.zeros(tokenizer.n_vocab, np.int64)
    for token in range(tokenizer.n_vocab):
        with contextlib.suppress(KeyError):  # some vocabularies have gaps
            lengths[token] = len(tokenizer.decode_single_token_bytes(token))
    lengths[[*begin_of(tokenizer), *end_of(tokenizer)]] = 0
    return lengths


@functools.cache
def ranks_of(tokenizer: tiktoken.Encoding) -> dict[bytes, int]:
    """The id of each token's bytes, without special tokens."""
    return {token: tokenizer.encode_single_token(token) for token in tokenizer.token_byte_values()}


@functools.cache
def _from_lines(lines: bytes) -> tiktoken.Encoding:
    """The tokenizer of a file. Its name is a digest, by which tokenized data is cached."""
    ranks = _ranks(lines)
    if sorted(ranks.values()) != list(range(len(ranks))):
        raise ValueError("its ranks are not 0, 1, 2, ..., each with one token")
    if not all(bytes([byte]) in ranks for byte in range(256)):
        raise ValueError("some byte is not a token")
    return _encoding(f"file-{hashlib.sha256(lines).hexdigest()[:12]}", ranks)


def _encoding(name: str, ranks: dict[bytes, int]) -> tiktoken.Encoding:
    return tiktoken.Encoding(
        name, pat_str=SPLIT_PATTERN, mergeable_ranks=ranks, special_tokens={END_OF_TEXT: len(ranks)}
    )


def _ranks(lines: bytes) -> dict[bytes, int]:
    """The rank of each token in a .tiktoken file. (tiktoken's own loader caches a copy that can become stale.)

    Raises ValueError, naming the line, if it is not such a file.
    """
    ranks = {}
    for number, line in enumerate(lines.splitlines(), 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError:
            raise ValueError(f"line {number} is not a token in base 64 and its rank") from None
    return ranks
