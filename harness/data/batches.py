"""Batches of token ids for the train step: shuffled, sharded by process, prefetched and resumable, by Grain."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grain
import numpy as np
from jaxtyping import Int32

from harness.config import Config
from harness.data.token_files import Prepared, Tokens
from harness.errors import UsageError

PADDING = -1  # no token's id: as a target it does not count, as an input its logits are not looked at


@dataclass(frozen=True)
class Windows:
    """Random access to windows of `context + 1` tokens, padded where the text ends before; each token is a target once.

    Packed: the split as one stream, cut every `context` tokens; neighbours share one token, the target of one and an input
    of the next. Padded: a story a row; one that is longer goes on in further rows.
    """

    tokens: Tokens
    context: int
    vocab_size: int
    starts: Int32[np.ndarray, "N"] | Any
    stops: Int32[np.ndarray, "N"] | Any

    @classmethod
    def packed(cls, tokens: Tokens, context: int, vocab_size: int) -> "Windows":
        starts = np.arange(0, max(len(tokens) - 1, 0), context, dtype=np.int64)
        return cls(tokens, context, vocab_size, starts, np.minimum(starts + context + 1, len(tokens)))

    @classmethod
    def padded(cls, tokens: Tokens, context: int, vocab_size: int) -> "Windows":
        begins = np.concatenate([[0], tokens.ends[:-1]])
        rows = -(-(tokens.ends - begins - 1) // context)  # a story of n tokens has n - 1 targets
        first = np.repeat(np.cumsum(rows) - rows, rows)
        starts = np.repeat(begins, rows) + (np.arange(rows.sum()) - first) * context
        return cls(tokens, context, vocab_size, starts, np.minimum(starts + context + 1, np.repeat(tokens.ends, rows)))

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Int32[np.ndarray, "W"]:
        ids = self.tokens[self.starts[index] : self.stops[index]].astype(np.int32)
        if ids.max(initial=0) >= self.vocab_size:
            raise UsageError(f"Token id {ids.max()} is outside the vocabulary of {self.vocab_size}.")
        return np.pad(ids, (0, self.context + 1 - len(ids)), constant_values=PADDING)


Rows = Windows | np.ndarray  # (N, context + 1) ids, one by one or all in memory


def windows(config: Config, tokens: Tokens) -> Windows:
    """The windows of a split in the form that the config asks for."""
    make = Windows.padded if config.form == "padded" else Windows.packed
    return make(tokens, config.context, config.vocab_size)


def check(config: Config, prepared: Prepared) -> list[str]:
    """Raises UsageError if these tokens cannot be trained on; else what a person should know of them, a sentence each."""
    if prepared.max_id >= config.vocab_size:
        raise UsageError(
            f"{prepared.name} has token id {prepared.max_id}, outside the vocabulary of {config.vocab_size}. Leave "
            f"vocab_size to the tokenizer."
        )
    count = len(windows(config, prepared.train))
    if count < config.batch_size:
        raise UsageError(
            f"{prepared.name} gives {count} windows of {config.context} tokens, fewer than a batch of {config.batch_size}. "
            f"Take more data, or --set batch_size={max(count, 1)}."
        )
    ends = prepared.train.ends
    longer = int((np.diff(ends, prepend=0) > config.context + 1).sum())
    if config.form == "padded" and longer:
        return [
            f"{longer:,} of {len(ends):,} stories are longer than the context of {config.context} and go on in further rows."
        ]
    return []


def train_batches(config: Config, rows: Rows, process: int = 0, processes: int = 1) -> grain.DatasetIterator:
    """This process's rows `(B / processes, T + 1)` int32 of each batch, without end.

    Batches run across the ends of epochs, so that no window is left out, and each epoch has an order of its own. Step k's
    rows, over all processes, are the same for any number of them: the state of the iterator is a count of batches.
    """
    if config.batch_size % processes:
        raise UsageError(f"{processes} processes cannot share a batch of {config.batch_size} evenly.")
    source = grain.MapDataset.source(rows).seed(config.seed).shuffle().repeat()
    batches = source[process::processes].batch(config.batch_size // processes)
    return iter(batches.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=8)))


def validation_batches(
    config: Config, rows: Windows, process: int = 0, processes: int = 1
) -> Iterator[Int32[np.ndarray, "B W"]]:
    """The first `eval_batches` batches of the windows in order, or all; the last is filled up with padding."""
    count = -(-len(rows) // config.batch_size)
    for batch in range(min(count, config.eval_batches) if config.eval_batches else count):
        places = range(batch * config.batch_size + process, (batch + 1) * config.batch_size, processes)
        blank = np.full(config.context + 1, PADDING, np.int32)
        yield np.stack([rows[place] if place < len(rows) else blank for place in places])
