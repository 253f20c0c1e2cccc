"""Any tokenizer.json, by the package `tokenizers`, with the interface of a tiktoken encoding.

It is an extra: byte-level BPE, which `tokenizer_json.py` reads as an encoding of tiktoken, needs no package.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Literal

import tiktoken

from commandline import invocation
from harness.data.model_files import read_json, read_text
from harness.data.tokenizer_json import (
    END_OF_TEXT,
    FileTokenizer,
    UnsupportedError,
    check_ids,
    special_tokens,
    unspelled,
)
from harness.errors import UsageError

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")  # a token of byte fallback


class PackageTokenizer(FileTokenizer):
    """A tokenizer of the package `tokenizers`: the part of an encoding that the harness and the pieces call.

    The token that ends a text is called `<|endoftext|>`, whatever the file calls it. `content` is the text of
    tokenizer.json, and `end` the file's own name of that token.
    """

    def __init__(self, file: Path, special: dict[str, int]):
        import tokenizers

        self.content = read_text(file)
        if json.loads(self.content)["model"].get("dropout"):
            raise UnsupportedError("splits words at random (dropout)")
        self.eot_id = special[END_OF_TEXT]
        self.name = "hf-" + hashlib.sha256(f"{self.content}{self.eot_id}".encode()).hexdigest()[:12]
        self._special = special
        self._all, self._ordinary = (tokenizers.Tokenizer.from_str(self.content) for _ in range(2))
        for each in (self._all, self._ordinary):
            each.no_padding()
            each.no_truncation()
        self._ordinary.encode_special_tokens = True  # their texts are split as any other
        self._ids: dict[str, int] = self._all.get_vocab(with_added_tokens=True)
        self._texts = {token: text for text, token in self._ids.items()}
        check_ids([*self._texts])
        self.end = self._texts[self.eot_id]
        with_them, alone = (list(self._all.encode("a", add_special_tokens=both).ids) for both in (True, False))
        places = range(len(with_them) - len(alone) + 1)
        start = next((i for i in places if with_them[i : i + len(alone)] == alone), None)
        if start is None:
            raise UnsupportedError("does not write each text")
        self.begin, self.after = with_them[:start], with_them[start + len(alone) :]

    @property
    def eot_token(self) -> int:
        return self.eot_id

    @property
    def special_tokens_set(self) -> set[str]:
        return set(self._special)

    @property
    def n_vocab(self) -> int:
        return max(self._texts) + 1

    @property
    def max_token_value(self) -> int:  # type: ignore[override]
        return self.n_vocab - 1

    def encode_ordinary(self, text: str) -> list[int]:
        """The ids of a text, in which special tokens are text as any other, unless they are pieces of a Unigram
        model."""
        return list(self._ordinary.encode(text, add_special_tokens=False).ids)

    def encode_ordinary_batch(self, text: list[str], *, num_threads: int = 8) -> list[list[int]]:
        """The ids of several texts. The package has its own threads."""
        del num_threads
        return [list(each.ids) for each in self._ordinary.encode_batch(text, add_special_tokens=False)]

    def encode(
        self, text: str, *, allowed_special: Literal["all"] | Set[str] = frozenset(),
        disallowed_special: Literal["all"] | Collection[str] = "all",
    ) -> list[int]:  # fmt: skip
        """The ids of a text, with all special tokens if any is allowed. Raises ValueError for one that is
        disallowed."""
        allowed = self.special_tokens_set if allowed_special == "all" else set(allowed_special)
        refused = self.special_tokens_set - allowed if disallowed_special == "all" else set(disallowed_special)
        if found := [name for name in sorted(refused) if name in text]:
            raise ValueError(f"the text contains the special token {found[0]!r}, which is not allowed")
        if not any(name in text for name in allowed):
            return self.encode_ordinary(text)
        return list(self._all.encode(text.replace(END_OF_TEXT, self.end), add_special_tokens=False).ids)

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """The id of a token by its text. Raises KeyError."""
        text = text_or_bytes.decode() if isinstance(text_or_bytes, bytes) else text_or_bytes
        return self._special[text] if text in self._special else self._ids[text]

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """The text of tokens, which may be the middle of one: a space before the first word remains."""
        return b"".join(map(self.decode_single_token_bytes, tokens)).decode("utf-8", errors)

    def decode_single_token_bytes(self, token: int) -> bytes:
        """The bytes of a token after others. Raises KeyError for an id that no token has."""
        text = self._texts[token]
        if token == self.eot_id:
            return END_OF_TEXT.encode()
        return self._bytes_of(token, text)

    @cached_property
    def _bytes_of(self) -> Callable[[int, str], bytes]:
        """How the bytes of a token are found: by the characters of byte-level tokens, or by what a token adds to
        another one."""
        content = json.loads(self.content)
        kinds = [content.get("decoder") or {}, *(content.get("decoder") or {}).get("decoders", ())]
        added = {token["content"] for token in content.get("added_tokens") or ()}
        if any(kind.get("type") == "ByteLevel" for kind in kinds):
            return lambda token, text: text.encode() if text in added else unspelled(text)
        fallback = any(kind.get("type") == "ByteFallback" for kind in kinds)
        anchor = self.encode_ordinary("a")
        before = self._all.decode(anchor)

        def after_anchor(token: int, text: str) -> bytes:
            if fallback and (byte := _BYTE.fullmatch(text)):
                return bytes([int(byte[1], 16)])
            both = self._all.decode([*anchor, token], skip_special_tokens=False)
            return both.removeprefix(before).encode()

        return after_anchor


def read_by_package(file: Path, reason: UnsupportedError) -> PackageTokenizer:
    """The tokenizer of a file, which tiktoken cannot do for a reason.

    Raises UsageError if the package is missing, if the file is not a tokenizer, or if it names no token that ends a
    text.
    """
    try:
        return PackageTokenizer(file, special_tokens(read_json(file), file.parent))
    except ImportError as error:
        if error.name != "tokenizers":
            raise
        raise UsageError(
            f"{file} {reason}, which needs the package `tokenizers`: run `{invocation.install('tokenizers')}`."
        ) from error
    except UnsupportedError as error:
        raise UsageError(f"{file} is not supported: it {error}.") from error
    except UsageError:
        raise
    except Exception as error:  # the package raises no other kind
        raise UsageError(f"{file} is not a tokenizer ({type(error).__name__}: {error}).") from error


def begin_of(tokenizer: tiktoken.Encoding) -> list[int]:
    """The ids that stand before each text: those of the file that the tokenizer was read from."""
    return tokenizer.begin if isinstance(tokenizer, FileTokenizer) else []


def end_of(tokenizer: tiktoken.Encoding) -> list[int]:
    """The ids that stand after each text: those of its file, with the token that ends a text as the last one."""
    after, end = tokenizer.after if isinstance(tokenizer, FileTokenizer) else [], tokenizer.eot_token
    return after if after[-1:] == [end] else [*after, end]
