"""Batches of token ids for the train step: shuffled, sharded by process, prefetched and resumable, with Grain."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import grain
import numpy as np
from jaxtyping import Int32

from commandline.text import counted
from harness.config import HUGGING_FACE, TRAIN, Config
from harness.data.sources import is_generated
from harness.data.token_files import CONTEXT, FITS, MARKS, REJECTED, Prepared, Tokens
from harness.data.train_tokenizer import fitting_size
from harness.errors import UsageError

# In rows, an id below 0 is no target. Padding is no token, so the logits of a padding input are ignored. Numbers below
# it are tokens that are read and not learned, such as those of a question: token t as UNLEARNED - t. With
# packing=segments, the first token of each segment is FIRST - t: no token predicts it, and the segments of a row can be
# read from the row alone.
PADDING = -1
UNLEARNED = -2
FIRST = -(1 << 30)
SHORTEST = 16  # tokens of a context that is worth a try
STORIES_AT_ONCE = 1000  # whose rows are filled together
EPOCHS = 1 << 31  # more than any run; Grain cannot count the batches of endless epochs if a batch has one row


@dataclass(frozen=True)
class Windows:
    """Random access to windows of `context + 1` tokens, padded at the end. Every token is a target once per epoch.

    Packed: the split is one stream, cut every `context` tokens. Adjacent windows share one token, which is a target in
    the first and an input in the second. Padded: one story per row; a longer story is split across rows.
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

    @classmethod
    def of_stories(cls, config: Config, tokens: Tokens) -> "Windows":
        """The padded windows of a split. Those of dialogues that have no target are left out: nothing is learned of
        them, and a step of such rows alone would change the model by its momentum and decay."""
        if not config.has_dialogues:
            return cls.padded(tokens, config.context, config.vocab_size)
        windows = cls.padded(tokens.restarted(), config.context, config.vocab_size)
        offsets = np.cumsum([0, *map(len, tokens.files)])
        places = [np.flatnonzero(file < CONTEXT) + start for file, start in zip(tokens.files, offsets, strict=False)]
        learned = np.concatenate([*places, [len(tokens)]])
        has_target = learned[np.searchsorted(learned, windows.starts + 1)] < windows.stops
        return replace(windows, starts=windows.starts[has_target], stops=windows.stops[has_target])

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Int32[np.ndarray, "W"]:
        ids = self.ids(index)
        return np.pad(ids, (0, self.context + 1 - len(ids)), constant_values=PADDING)

    def ids(self, index: int) -> Int32[np.ndarray, "N"]:
        """A window without its padding, (N,) with N up to `context + 1`. Raises UsageError for an id outside the
        vocabulary."""
        ids = row_ids(self.tokens[self.starts[index] : self.stops[index]])
        if (highest := int(np.max(np.where(ids < 0, UNLEARNED - ids, ids), initial=0))) >= self.vocab_size:
            raise UsageError(f"Token id {highest} is outside the vocabulary of {self.vocab_size}.")
        return ids


@dataclass(frozen=True)
class SegmentRows:
    """Random access to rows of `context + 1` tokens that hold whole stories, one after another, padded at the end.

    The first token of each story is marked by `FIRST`. A story that exceeds a row is cut as in `Windows.padded`, and
    each part is packed like a story.
    """

    stories: Windows
    order: Int32[np.ndarray, "S"] | Any  # the stories of row 0, of row 1, ...
    ends: Int32[np.ndarray, "N"] | Any  # where the stories of each row end in `order`

    @classmethod
    def of(cls, stories: Windows) -> "SegmentRows":
        """The rows of the stories of `Windows.padded`."""
        rows = first_fit(stories.stops - stories.starts, stories.context + 1)
        return cls(stories, np.argsort(rows, kind="stable"), np.cumsum(np.bincount(rows)))

    @property
    def padding(self) -> float:
        """The share of padding in all rows."""
        used = int((self.stories.stops - self.stories.starts).sum())
        return 1 - used / max(len(self) * (self.stories.context + 1), 1)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Int32[np.ndarray, "W"]:
        start = self.ends[index - 1] if index else 0
        row, filled = np.full(self.stories.context + 1, PADDING, np.int32), 0
        for story in self.order[start : self.ends[index]].tolist():
            ids = self.stories.ids(story)
            row[filled : filled + len(ids)] = ids
            row[filled] = first_of(ids[:1])[0]
            filled += len(ids)
        return row


@dataclass(frozen=True)
class PairRows:
    """Random access to pairs of rows, (2, context + 1): a preferred dialogue, and the other one, both padded.

    Pairs with a dialogue that is longer are left out.
    """

    tokens: Tokens
    context: int
    starts: Int32[np.ndarray, "N"] | Any  # of the pairs
    middles: Int32[np.ndarray, "N"] | Any  # where the second dialogue of each begins
    stops: Int32[np.ndarray, "N"] | Any

    @classmethod
    def of(cls, tokens: Tokens, context: int) -> "PairRows":
        stops = np.asarray(tokens.ends)
        starts = np.concatenate([[0], stops])[:-1]
        middles = np.flatnonzero(tokens[0 : len(tokens)] & REJECTED)  # one token of each pair
        fits = np.maximum(middles - starts, stops - middles) <= context + 1
        return cls(tokens, context, starts[fits], middles[fits], stops[fits])

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Int32[np.ndarray, "2 W"]:
        rows = np.full((2, self.context + 1), PADDING, np.int32)
        start, middle, stop = self.starts[index], self.middles[index], self.stops[index]
        for row, (first, last) in zip(rows, ((start, middle), (middle, stop)), strict=True):
            row[: last - first] = row_ids(self.tokens[int(first) : int(last)])
        return rows


def row_ids(stored: np.ndarray) -> Int32[np.ndarray, "N"]:
    """Tokens as they are stored, as a row has them."""
    ids = (stored & ~MARKS).astype(np.int32)
    return np.where(stored >= CONTEXT, UNLEARNED - ids, ids)


def first_fit(lengths: np.ndarray, width: int) -> np.ndarray:
    """The row of each story, (N,): the first one with room for it, of those of the same `STORIES_AT_ONCE` stories.

    With all stories at once, first fit would take time for each pair of a story and a row, and leave hardly less
    padding.
    """
    rows, opened = np.empty(len(lengths), np.int64), 0
    for start in range(0, len(lengths), STORIES_AT_ONCE):
        some = lengths[start : start + STORIES_AT_ONCE]
        room = np.full(len(some), width)  # in the rows that these stories could open
        for index, length in enumerate(some, start):
            row = int(np.argmax(room >= length))
            room[row] -= length
            rows[index] = opened + row
        opened += int((room < width).sum())
    return rows


def first_of(ids: np.ndarray) -> np.ndarray:
    """Tokens of a row, marked as the first ones of their segments."""
    return np.where(ids <= UNLEARNED, FIRST - (UNLEARNED - ids), FIRST - ids).astype(np.int32)


@dataclass(frozen=True)
class Mixture:
    """Windows of several sources, interleaved by their weights up to the end of the first source that ends."""

    sources: tuple[Windows | SegmentRows | PairRows | np.ndarray, ...]
    weights: tuple[float, ...]  # their shares; they sum to 1
    order: Int32[np.ndarray, "N 2"] | Any  # source and window

    @classmethod
    def of(
        cls, sources: tuple[Windows | SegmentRows | PairRows | np.ndarray, ...], weights: tuple[float | None, ...]
    ) -> "Mixture":
        """Sources with these weights, or without weights, with shares by their sizes."""
        given = [len(source) if weight is None else weight for source, weight in zip(sources, weights, strict=True)]
        shares = tuple(weight / sum(given) for weight in given)
        # Window j of a source with share w is due at (j + 1/2) / w.
        due = [(np.arange(len(source)) + 0.5) / share for source, share in zip(sources, shares, strict=True)]
        ends = min(len(source) / share for source, share in zip(sources, shares, strict=True))
        places = np.concatenate(
            [np.stack([np.full(len(each), i), np.arange(len(each))], 1) for i, each in enumerate(due)]
        )
        times = np.concatenate(due)
        order = np.argsort(times, kind="stable")
        return cls(sources, shares, places[order[times[order] < ends]])

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> Int32[np.ndarray, "W"]:
        source, window = self.order[index].tolist()
        return self.sources[source][window]


Rows = Windows | SegmentRows | PairRows | Mixture | np.ndarray  # (N, context + 1) ids, read on access or all in memory


def make_windows(config: Config, tokens: Tokens) -> Windows | SegmentRows | PairRows:
    """The windows of a split, packed, padded or in segments as the config says, or its pairs of rows."""
    if config.has_pairs:
        return PairRows.of(tokens, config.context)
    if config.packing == "packed":
        return Windows.packed(tokens, config.context, config.vocab_size)
    windows = Windows.of_stories(config, tokens)
    return SegmentRows.of(windows) if config.packing == "segments" else windows


def windows_of(prepared: Prepared, make: Callable[[Prepared], Windows | SegmentRows | PairRows | np.ndarray]) -> Rows:
    """The windows that `make` makes of a source, or a mixture of those of several sources."""
    if not prepared.parts:
        return make(prepared)
    return Mixture.of(tuple(map(make, prepared.parts)), prepared.weights)


def check_data(config: Config, prepared: Prepared) -> list[str]:
    """Notes on these tokens for the user, one sentence each. Raises UsageError if they cannot be trained on."""
    if prepared.max_id >= config.vocab_size:
        raise UsageError(
            f"{prepared.name} has token id {prepared.max_id}, outside the vocabulary of {config.vocab_size}. "
            "Do not set vocab_size."
        )
    notes = list(prepared.notes)
    for part in prepared.parts or (prepared,):
        rows = make_windows(config, part.train)
        if isinstance(rows, PairRows):
            notes += _check_pairs(config, part, rows)
            continue
        notes.append(part.summary())
        if config.has_dialogues:
            notes += [*_on_targets(config, part), *_on_padding(config, part)]
        _check_size(config, part, len(rows), batch=1 if prepared.parts else config.batch_size)
        if isinstance(rows, SegmentRows):
            notes.append(
                f"{part.name}: {counted(len(rows), 'row')} for training, of which {rows.padding:.1%} is padding."
            )
        notes += check_tokenizer(config, part)
    if config.has_pairs:
        return notes
    ends = (prepared.train.restarted() if config.has_dialogues else prepared.train).ends
    longer = int((np.diff(ends, prepend=0) > config.context + 1).sum())
    if config.packing != "packed" and longer:
        texts = "stories" if is_generated(config.data) else "texts"
        texts = "texts of dialogues" if config.has_dialogues else texts
        notes.append(
            f"{longer:,} of {len(ends):,} {texts} exceed the context of {config.context} and are split across rows."
            if len(ends) > 1
            else f"The text exceeds the context of {config.context} and is split across rows."
        )
    return notes


def _check_pairs(config: Config, part: Prepared, rows: PairRows) -> list[str]:
    """Sentences on the number of pairs, and of those that are too long. Raises UsageError if a split has none that fit,
    or training less than a batch."""
    held_out = len(PairRows.of(part.validation, config.context))
    if len(rows) < config.batch_size or not held_out:
        raise UsageError(
            f"{part.name} has {counted(len(rows), 'pair')} for training and {held_out:,} for validation within the "
            f"context of {config.context}, and a step takes {config.batch_size:,}. Use more pairs, shorter ones, or "
            "fewer rows with --set batch_size."
        )
    numbers = f"{part.name}: {counted(len(rows), 'pair')} for training, {held_out:,} for validation."
    left_out = len(part.train.ends) - len(rows)
    verb = "is" if left_out == 1 else "are"
    longer = f"{left_out:,} of {counted(len(part.train.ends), 'pair')} of {part.name} for training {verb} longer"
    return [numbers, *([f"{longer} than the context of {config.context} and left out."] if left_out else [])]


def _on_targets(config: Config, part: Prepared) -> list[str]:
    """A sentence on the rows of dialogues that have no target. Raises UsageError if a split has no others."""
    notes = []
    for split, purpose in ((part.train, "training"), (part.validation, "validation")):
        split = split.restarted()
        every = len(Windows.padded(split, config.context, config.vocab_size))
        left_out = every - len(Windows.of_stories(config, split))
        longest = int(np.diff(split.ends, prepend=0).max(initial=0)) - 1
        if every and left_out == every:
            raise UsageError(
                f"{part.name}: no row for {purpose} has a part of an answer. Use a context of more than "
                f"{config.context} tokens, up to {longest}, that of the longest dialogue, or shorter questions."
            )
        if left_out:
            notes.append(
                f"{part.name}: {left_out:,} of {counted(every, 'row')} for {purpose} have no part of an answer and "
                f"are left out. A context of {longest} holds each dialogue as a whole."
            )
    return notes


def _on_padding(config: Config, part: Prepared) -> list[str]:
    """A sentence if rows hold one dialogue each and are mostly padding, which takes as much time as text."""
    lengths = np.diff(part.train.restarted().ends, prepend=0)
    mean = int(lengths.mean()) if len(lengths) else 0
    if config.packing != "padded" or config.pieces or 2 * mean > config.context:
        return []
    advice = "--set packing=segments puts several in a row"
    if _has_free_context(config) and (longest := int(lengths.max(initial=0)) - 1) < config.context:
        advice += f", or --set context={longest} holds the longest one"
    return [f"A row of {config.context} tokens holds one dialogue, of {mean} tokens on average: {advice}."]


def _has_free_context(config: Config) -> bool:
    """Whether the context may be set: not that of a run's model, nor that of one that has learned positions."""
    return not config.base or (config.base.startswith(HUGGING_FACE) and config.positions != "learned")


def _check_size(config: Config, part: Prepared, count: int, batch: int) -> None:
    """Raises UsageError, which says how much is needed, if there is less than a window, or are fewer windows than a
    batch has."""
    tokens = len(part.train)
    if count >= batch and (tokens > config.context or config.packing != "packed"):
        return
    needed = round((batch * config.context + 1) / (1 - min(config.validation_fraction, 0.99)))
    have = "less than one window" if tokens <= config.context else counted(count, "window")
    other = [f"a text of at least about {needed:,} tokens"]
    if _has_free_context(config) and (shorter := min((tokens - 1) // batch, config.context - 1)) >= SHORTEST:
        other.append(f"a shorter context with --set context={shorter}")
    if 0 < count < batch and tokens > config.context:
        other.append(f"fewer rows with --set batch_size={count}")
    raise UsageError(
        f"{part.name} has {counted(tokens, 'token')} for training: {have} of {config.context} tokens, and a step takes "
        f"{counted(batch, 'window')}. Use {', or '.join(other)}."
    )


def on_tokenizer(config: Config, part: Prepared) -> str:
    """A sentence if the tokenizer was made for other text; otherwise empty."""
    if (
        part.dialogues
        or part.bytes_per_token >= FITS
        or config.objective != "next_token"
        or config.tokenizer == "bytes"
    ):
        return ""
    rate = f"{part.bytes_per_token:.2f} bytes per token, below {FITS:g}"
    return f"The tokenizer {config.tokenizer} does not fit {part.name}: {rate}."


def check_tokenizer(config: Config, part: Prepared) -> list[str]:
    """What to do if the tokenizer was made for other text."""
    if not (said := on_tokenizer(config, part)):
        return []
    if config.base:
        return [
            f"{said} It comes from the base, which has hardly seen such text. A run without a base can have its own."
        ]
    size = fitting_size(sum(part.bytes))
    if config.tokenizer == f"{TRAIN}{size}":  # it fits as well as any
        return []
    return [
        f"{said} Train one on this text with --tokenizer {TRAIN}{size} and another --run NAME, or with "
        f"`harness tokenizer train {part.name} --vocab {size}`, which writes a file for several runs."
    ]


def train_batches(config: Config, rows: Rows, process: int = 0, processes: int = 1) -> grain.DatasetIterator:
    """An endless iterator over this process's rows `(B / processes, T + 1)` int32 of each batch.

    Batches cross the ends of epochs, so no window is dropped. Every epoch has its own order. The rows of step k, over
    all processes, do not depend on the number of processes, so the state of the iterator is one count of batches.

    Raises UsageError if the processes cannot split a batch evenly.
    """
    if config.batch_size % processes:
        raise UsageError(f"A batch of {config.batch_size} rows cannot be split evenly over {processes} processes.")
    if isinstance(rows, Mixture):
        each = [_shuffled(windows, config.seed + index) for index, windows in enumerate(rows.sources)]
        source = grain.MapDataset.mix(each, rows.weights)
    else:
        source = _shuffled(rows, config.seed)
    batches = source[process::processes].batch(config.batch_size // processes)
    return iter(batches.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=8)))


def _shuffled(rows: Rows, seed: int) -> grain.MapDataset:
    """The rows over and over, each time in another order."""
    return grain.MapDataset.source(rows).seed(seed).shuffle().repeat(EPOCHS)


def validation_batches(
    config: Config, rows: Rows, process: int = 0, processes: int = 1
) -> Iterator[Int32[np.ndarray, "B W"]]:
    """The first `eval_batches` batches of the windows in order, or all of them. The last is filled with padding."""
    count = -(-len(rows) // config.batch_size)
    for batch in range(min(count, config.eval_batches) if config.eval_batches else count):
        indices = range(batch * config.batch_size + process, (batch + 1) * config.batch_size, processes)
        blank = np.full_like(rows[0], PADDING)
        yield np.stack([rows[index] if index < len(rows) else blank for index in indices])
