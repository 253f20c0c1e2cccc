"""The stories joined with markers and encoded in one call, with the marker allowed; windows built in a list."""

import re

import numpy as np


def tokenize(text, encoding):
    stories = [s for s in (part.strip() for part in re.split(r"<\|endoftext\|>", text)) if s]
    joined = "".join(s + "<|endoftext|>" for s in stories)
    return np.asarray(encoding.encode(joined, allowed_special={"<|endoftext|>"}), dtype=np.int64)


def pack(token_ids, context, pad_id):
    rows = []
    for start in range(0, len(token_ids), context):
        row = list(token_ids[start : start + context])
        rows.append(row + [pad_id] * (context - len(row)))
    return np.array(rows, dtype=np.int64).reshape(len(rows), context)
