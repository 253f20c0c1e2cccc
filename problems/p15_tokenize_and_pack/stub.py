"""Problem 15: from text to windows of token ids. The page is in pages/p15_tokenize_and_pack.md."""

import numpy as np
import tiktoken
from jaxtyping import Int


def tokenize(text: str, encoding: tiktoken.Encoding) -> Int[np.ndarray, "N"]:
    """The ids of all stories in `text`, which are separated by <|endoftext|>; each ends with `encoding.eot_token`.

    White space around a story is stripped, and empty stories are left out.
    """
    raise NotImplementedError


def pack(token_ids: Int[np.ndarray, "N"], context: int, pad_id: int) -> Int[np.ndarray, "W T"]:
    """Windows of `context` ids, side by side; the last is filled up with `pad_id`. token_ids: (N,). Returns (W, T)."""
    raise NotImplementedError
