"""Problem 15, reference: from text to windows of token ids."""

import numpy as np
import tiktoken
from jaxtyping import Int

END_OF_TEXT = "<|endoftext|>"


def tokenize(text: str, encoding: tiktoken.Encoding) -> Int[np.ndarray, "N"]:
    """The ids of all stories, each stripped, encoded and followed by the id of end-of-text."""
    token_ids: list[int] = []
    for story in text.split(END_OF_TEXT):
        if story.strip():
            token_ids += encoding.encode_ordinary(story.strip())
            token_ids.append(encoding.eot_token)
    return np.array(token_ids, np.int32)


def pack(token_ids: Int[np.ndarray, "N"], context: int, pad_id: int) -> Int[np.ndarray, "W T"]:
    """Windows that hold every token exactly once, in order. The last window is padded."""
    missing = -len(token_ids) % context
    filled = np.concatenate([token_ids, np.full(missing, pad_id, np.int32)])
    return filled.reshape(-1, context)
