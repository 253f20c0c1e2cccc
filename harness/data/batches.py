"""Batches of token ids for the train step: shuffled, sharded by process, prefetched and resumable, with Grain."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grain
import numpy as np
from jaxtyping import Int32

from harness.config import Config
from harness.data.token_files import Prepared, Tokens
from harness.errors import UsageError

PADDING = -1  # never a token id; a padding target has no loss, and the logits of a padding input are ignored
EPOCHS = 1 << 31  # more than any run; Grain cannot count the batches of endless epochs if a batch has one row


@dataclass(frozen=True)
class Windows:
    """Random access to windows of `context + 1` tokens, padded at the end. Every token is a target once per epoch.

    Packed: the split is one stream, cut every `context` tokens. Adjacent windows share one token, which is a target in the
    first and an input in the second. Padded: one story per row; a longer story is split across rows.
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
        story_starts = np.concatenate([[0], tokens.ends[:-1]])
        rows = -(-(tokens.ends - story_starts - 1) // context)  # a story of n tokens has n - 1 targets
        first_row = np.repeat(np.cumsum(rows) - rows, rows)
        starts = np.repeat(story_starts, rows) + (np.arange(rows.sum()) - first_row) * context
        return cls(tokens, context, vocab_size, starts, np.minimum(starts + context + 1, np.repeat(tokens.ends, rows)))

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Int32[np.ndarray, "W"]:
        ids = self.tokens[self.starts[index] : self.stops[index]].astype(np.int32)
        if (highest := int(np.max(ids, initial=0))) >= self.vocab_size:
            raise UsageError(f"Token id {highest} is outside the vocabulary of {self.vocab_size}.")
        return np.pad(ids, (0, self.context + 1 - len(ids)), constant_values=PADDING)


Rows = Windows | np.ndarray  # (N, context + 1) ids, read on access or all in memory


def make_windows(config: Config, tokens: Tokens) -> Windows:
    """The windows of a split, packed or padded as the config says."""
    make = Windows.padded if config.packing == "padded" else Windows.packed
    return make(tokens, config.context, config.vocab_size)


def check_data(config: Config, prepared: Prepared) -> list[str]:
    """Notes on these tokens for the user, one sentence each. Raises UsageError if they cannot be trained on."""
    if prepared.max_id >= config.vocab_size:
        raise UsageError(
            f"{prepared.name} has token id {prepared.max_id}, outside the vocabulary of {config.vocab_size}. "
            "Do not set vocab_size."
        )
    count = len(make_windows(config, prepared.train))
    if count < config.batch_size:
        raise UsageError(
            f"{prepared.name} has {count} windows of {config.context} tokens, fewer than a batch of {config.batch_size}. "
            f"Use more data, or --set batch_size={max(count, 1)}."
        )
    ends = prepared.train.ends
    longer = int((np.diff(ends, prepend=0) > config.context + 1).sum())
    if config.packing == "padded" and longer:
        return [
            f"{longer:,} of {len(ends):,} stories exceed the context of {config.context} and are split across rows."
        ]
    return []


def train_batches(config: Config, rows: Rows, process: int = 0, processes: int = 1) -> grain.DatasetIterator:
    """An endless iterator over this process's rows `(B / processes, T + 1)` int32 of each batch.

    Batches cross the ends of epochs, so no window is dropped. Every epoch has its own order. The rows of step k, over all
    processes, do not depend on the number of processes, so the state of the iterator is one count of batches.

    Raises UsageError if the processes cannot split a batch evenly.
    """
    if config.batch_size % processes:
        raise UsageError(f"A batch of {config.batch_size} rows cannot be split evenly over {processes} processes.")
    source = grain.MapDataset.source(rows).seed(config.seed).shuffle().repeat(EPOCHS)
    batches = source[process::processes].batch(config.batch_size // processes)
    return iter(batches.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=8)))


def validation_batches(
    config: Config, rows: Windows, process: int = 0, processes: int = 1
) -> Iterator[Int32[np.ndarray, "B W"]]:
    """The first `eval_batches` batches of the windows in order, or all of them. The last is filled with padding."""
    count = -(-len(rows) // config.batch_size)
    for batch in range(min(count, config.eval_batches) if config.eval_batches else count):
        indices = range(batch * config.batch_size + process, (batch + 1) * config.batch_size, processes)
        blank = np.full(config.context + 1, PADDING, np.int32)
        yield np.stack([rows[index] if index < len(rows) else blank for index in indices])
