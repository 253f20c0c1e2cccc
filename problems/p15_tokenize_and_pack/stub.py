"""Problem 15: from text to windows of token ids.

The page is in pages/p15_tokenize_and_pack.md.
"""

import numpy as np
import tiktoken
from jaxtyping import Int


def tokenize(text: str, encoding: tiktoken.Encoding) -> Int[np.ndarray, "N"]:
    """The ids of all stories in `text`, (N,), each followed by the id of
    end-of-text."""
    raise NotImplementedError


def pack(
    token_ids: Int[np.ndarray, "N"],
    context: int,
    pad_id: int,
) -> Int[np.ndarray, "W T"]:
    """The ids, (N,), cut into windows of `context` ids, (W, T). The last window is
    filled with `pad_id` on the right."""
    raise NotImplementedError
