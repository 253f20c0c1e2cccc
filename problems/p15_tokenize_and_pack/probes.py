"""Probes of problem 15: ids made with a small encoding, and windows of ids. Runs in workers."""

from functools import cache
from typing import Any

import jax
import numpy as np
import tiktoken

from grader.authoring import BadOutputError, Reading, Subject, described, eager, named
from grader.problem import Case

# The pattern by which GPT-2 splits text into words before it merges pairs.
WORDS = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
MERGES = [
    "th",
    "the",
    " t",
    "at",
    "on",
    " a",
    "an",
    "and",
    "in",
    "he",
    "en",
    "<|",
    "|>",
    "end",
    " l",
    "le",
    ".\n",
    "\n\n",
    "ll",
]


@cache
def encoding() -> tiktoken.Encoding:
    """A small encoding: single bytes, a few merges, and end-of-text."""
    ranks = {bytes([i]): i for i in range(256)}
    for merge in MERGES:
        ranks[merge.encode()] = len(ranks)
    return tiktoken.Encoding("small", pat_str=WORDS, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 100_257})


@eager
def tokenizing(subject: Subject, case: Case) -> Reading:
    """The ids of a text."""
    return Reading({"token_ids": _array(subject.call("tokenize", case.values["text"], encoding()), "tokenize")})


@eager
def packing(subject: Subject, case: Case) -> Reading:
    """The windows of a stream."""
    values = case.values
    windows = subject.call("pack", values["token_ids"], values["context"], values["pad_id"])
    return Reading({"windows": _array(windows, "pack")})


def _array(value: Any, name: str) -> Any:
    """The array that the entry `name` returned. Raises BadOutputError if it is not an array."""
    if not isinstance(value, jax.Array | np.ndarray):
        raise BadOutputError(f"`{name}` returned {described(value)}; it must return an int32 array")
    return named(value, name)[name]


PROBES = {"tokenizing": tokenizing, "packing": packing}
