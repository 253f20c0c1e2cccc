"""Pairs of answers, of which one is preferred, as tokens."""

import json

import numpy as np
import tiktoken

from harness.data.dialogues import Template
from harness.data.token_files import CONTEXT, REJECTED, RESTART


def tokenize_pair(template: Template, text: str, tokenizer: tiktoken.Encoding) -> np.ndarray:
    """The tokens of a pair in JSON, (N,) uint32: the dialogue that is preferred, then the other one, whose first token
    has `REJECTED`. All but the last answer of each have `CONTEXT`."""
    chosen, rejected = (
        _last_answer(template.tokenize(json.dumps(messages, ensure_ascii=False), tokenizer))
        for messages in json.loads(text).values()
    )
    rejected[:1] |= REJECTED
    return np.concatenate([chosen, rejected])


def _last_answer(tokens: np.ndarray) -> np.ndarray:
    """The tokens of a dialogue, of which only those of the last answer are learned: without earlier texts, where the
    template writes the dialogue in several."""
    tokens = tokens[[0, *np.flatnonzero(tokens & RESTART)][-1] :] & ~RESTART
    learned = np.flatnonzero(tokens < CONTEXT)
    is_gap = np.diff(learned) > 1
    start = learned[1:][is_gap][-1] if is_gap.any() else learned[0]
    return np.concatenate([tokens[:start] | CONTEXT, tokens[start:]])
