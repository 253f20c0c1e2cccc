"""Sums that some writers leave to a calculator, and the tokenizer whose marks say where they call it.

The texts are those of problem 82: one in five writers calls the tool `add` and copies its result. The others guess, as
in `arithmetic`. A model of this text has learned both. Reinforcement learning finds out that a call pays.
"""

import json
import random
import re
from collections.abc import Sequence

import numpy as np
import tiktoken

from harness.data.arithmetic import answered, draw_sum, guess, question
from harness.errors import UsageError

VERSION = "6d1f4c02b7a95e38"  # what a run records of its texts; another one for other texts
CALLING = 0.2  # the share of writers who call the calculator
_MARK = re.compile("(<call>|<result>|<end>)")


class Marks:
    """Bytes as tokens, and marks that stand for no text: two bytes that no text in UTF-8 has, and end-of-text.

    Raises UsageError for a tokenizer whose tokens are not bytes.
    """

    call, result = 254, 255

    def __init__(self, tokenizer: tiktoken.Encoding):
        if tokenizer.name != "bytes":
            raise UsageError(
                "Calls of tools need marks, which only tokenizer=bytes has room for. Train a model that has them: "
                "`harness train --preset tools`."
            )
        self.end: int = tokenizer.eot_token
        self.encode_ordinary = tokenizer.encode_ordinary
        self._ids = {"<call>": self.call, "<result>": self.result, "<end>": self.end}
        self._texts = {token: name.encode() for name, token in self._ids.items()}

    def encode(self, text: str) -> list[int]:
        """The tokens of a text in which the names of marks are marks."""
        parts = _MARK.split(text)  # every second one is a mark
        tokens = [[self._ids[part]] if place % 2 else self.encode_ordinary(part) for place, part in enumerate(parts)]
        return [token for some in tokens for token in some]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens, with the names of marks. Ids outside of the vocabulary give nothing."""
        known = (token for token in token_ids if token <= self.end)
        return b"".join(self._texts.get(token) or bytes([token]) for token in known).decode("utf-8", "replace")


def called(a: int, b: int) -> str:
    """A turn that calls the calculator, and its result."""
    call = json.dumps({"name": "add", "arguments": {"a": a, "b": b}})
    return f"<call>{call}<end><result>{a + b}<end>"


def text(index: int, held_out: bool) -> str:
    """Text `index` of the collection, about a sum that is held out, or is not."""
    rng = random.Random(index)  # noqa: S311 - not for cryptography
    a, b = draw_sum(rng, held_out=held_out)
    if rng.random() < CALLING:
        return question(a, b) + called(a, b) + answered(a + b)
    return question(a, b) + answered(guess(rng, a + b))


def tokenize(text: str, tokenizer: tiktoken.Encoding) -> np.ndarray:
    """The tokens of a text with its end, (N,) int64. The names of marks are marks."""
    marks = Marks(tokenizer)
    return np.array([*marks.encode(text), marks.end], np.int64)
