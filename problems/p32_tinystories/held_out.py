"""The stories that a run of problem 32 is judged by. They are made where programs run, so the submission never has
them."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from grader.problem import Case
from harness.data import pocket
from harness.data.batches import PADDING
from harness.data.tokenizer import get_tokenizer

ROWS = 256
STORIES = 3  # that the model tells
TOKENIZER = get_tokenizer("pocket-2k")  # reads a file of the harness, so this is imported before the worker is confined


def rows(case: Case) -> Any:
    """A batch of rows (B, T + 1) of ids, of which one at least ends a story. -1 is padding."""
    return _rows_and_targets(case)[0][_batch(case)]


def moved(case: Case) -> Any:
    """The same batch with other ids from a random position on."""
    batch, at = rows(case), _rows_and_targets(case)[1][_batch(case)]
    later = np.arange(batch.shape[1]) >= at[:, None]
    return np.where(later, (batch + 1) % TOKENIZER.n_vocab, batch)


def prefixes(case: Case) -> Any:
    """The ids (ROWS, T) before a random target in each row. A program gets neither what it is to predict nor what
    follows."""
    every, at = _rows_and_targets(case)
    return np.where(np.arange(every.shape[1]) < at[:, None], every, 0)[:, :-1]


def lengths(case: Case) -> Any:
    """The length of each prefix."""
    return _rows_and_targets(case)[1]


def keys(case: Case) -> Any:
    """The random keys of the stories that the model tells."""
    return np.random.default_rng(case.values["held_out"]).integers(2**32, size=(STORIES, 2))


INPUTS: Mapping[str, Callable[[Case], Any]] = {
    "rows": rows, "moved": moved, "prefixes": prefixes, "lengths": lengths, "keys": keys,
}  # fmt: skip


def loss(logits_NV: Any, case: Case) -> Any:
    """The mean loss, in nats, of the targets after the prefixes."""
    every, at = _rows_and_targets(case)
    return np.float32(np.mean(cross_entropy(logits_NV, every[np.arange(ROWS), at])))


def cross_entropy(logits: Any, targets: Any) -> Any:
    """The loss of each target, in nats."""
    logits = np.asarray(logits, np.float64)
    highest = logits.max(-1)
    total = np.log(np.sum(np.exp(logits - highest[..., None]), -1)) + highest
    return total - np.take_along_axis(logits, targets[..., None], -1)[..., 0]


def _batch(case: Case) -> Any:
    """The places of the batch's rows: the first ones, after one that ends a story."""
    ending = np.flatnonzero(np.any(_rows_and_targets(case)[0] == TOKENIZER.eot_token, axis=1))[0]
    others = np.delete(np.arange(ROWS), ending)
    return np.array([ending, *others[: case.values["batch_size"] - 1]])


def _rows_and_targets(case: Case) -> tuple[Any, Any]:
    return _drawn(np.asarray(case.values["held_out"]).tobytes(), int(case.values["context"]))


@functools.lru_cache(maxsize=4)
def _drawn(seed: bytes, T: int) -> tuple[Any, Any]:
    """One row (T + 1,) of each of ROWS stories, and the position of its target: any token of the story but the
    first."""
    rng = np.random.default_rng(list(seed))
    every, at = np.full((ROWS, T + 1), PADDING, np.int32), np.empty(ROWS, np.int32)
    for i, story in enumerate(
        pocket.stories(ROWS, seed=1 + int.from_bytes(seed))
    ):  # runs train on the stories of seed 0
        ids = [*TOKENIZER.encode_ordinary(story), TOKENIZER.eot_token]
        target = int(rng.integers(1, len(ids)))
        start = (target - 1) // T * T
        row = ids[start : start + T + 1]
        every[i, : len(row)], at[i] = row, target - start
    return every, at
