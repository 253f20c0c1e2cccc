"""Stories as tokens on disk: memory-mapped files of uint16, made once for each source and tokenizer."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import tiktoken

from commandline.folders import cache_folder
from commandline.progress import progress
from harness.data.sources import Source
from harness.errors import HarnessError, UsageError

SHARD_TOKENS = 1 << 26  # 128 MiB
STORIES_AT_ONCE = 4096
SPLITS = ("train", "validation")


@dataclass(frozen=True)
class Tokens:
    """One split: all stories in a row, end-of-text after each, over any number of files; and where each story ends."""

    shards: tuple[np.ndarray, ...]  # (N_i,) uint16 each
    ends: np.ndarray  # (stories,) int64: the end of each story in the row, its end-of-text included

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def __getitem__(self, span: slice) -> np.ndarray:
        """Tokens `span.start` to `span.stop`, (stop - start,) uint16, wherever the files begin."""
        parts, start = [np.empty(0, np.uint16)], 0
        for shard in self.shards:
            if span.start < start + len(shard) and span.stop > start:
                parts.append(shard[max(span.start - start, 0) : span.stop - start])
            start += len(shard)
        return np.concatenate(parts)


@dataclass(frozen=True)
class Prepared:
    """A source's tokens."""

    name: str
    folder: Path
    train: Tokens
    validation: Tokens
    max_id: int
    end_of_text: int


# (text of one story, tokenizer) -> its ids, end-of-text included
Tokenize = Callable[[str, tiktoken.Encoding], np.ndarray]


def prepare(
    source: Source, tokenizer: tiktoken.Encoding, *, theirs: Tokenize | None = None, key: str = "", quiet: bool = False
) -> Prepared:
    """The tokens of `source`: from the cache if they were made before, else made now and moved there in one step.

    `theirs` is somebody else's way to make them, told from others by `key`.

    Raises UsageError if a split would be empty, HarnessError if the disk is full.
    """
    folder = cache_folder("HARNESS_CACHE", "harness") / "tokens" / f"{source.key}-{tokenizer.name}{key}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            _write(source, tokenizer, theirs, unfinished, quiet)
            _publish(unfinished, folder)
        except OSError as error:
            raise HarnessError(
                f"{source.name} could not be prepared in {folder.parent}: {error.strerror or error}."
            ) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    meta = json.loads((folder / "meta.json").read_text())
    train, validation = (_open(folder, split) for split in SPLITS)
    return Prepared(source.name, folder, train, validation, meta["max_id"], meta["end_of_text"])


def _publish(unfinished: Path, folder: Path) -> None:
    """Moves a finished folder into place; another process that was as quick has made the same."""
    try:
        os.replace(unfinished, folder)
    except OSError:
        if not folder.exists():
            raise


def _open(folder: Path, split: str) -> Tokens:
    files = sorted(folder.glob(f"{split}-*.bin"))
    return Tokens(
        tuple(np.memmap(file, np.uint16, "r") for file in files), np.load(folder / f"{split}.npy", mmap_mode="r")
    )


class _Writer:
    """Appends stories to the shards of one split."""

    def __init__(self, folder: Path, split: str):
        self.folder, self.split = folder, split
        self.ends: list[int] = []
        self.total = self.files = 0
        self.file: BinaryIO | None = None

    def add(self, ids: np.ndarray) -> None:
        if self.file is None or self.file.tell() >= 2 * SHARD_TOKENS:
            self.finish_file()
            self.file = (self.folder / f"{self.split}-{self.files:05}.bin").open("wb")
            self.files += 1
        assert self.file is not None
        self.file.write(ids.tobytes())
        self.total += len(ids)
        self.ends.append(self.total)

    def finish_file(self) -> None:
        if self.file is not None:
            self.file.close()

    def finish(self) -> None:
        self.finish_file()
        np.save(self.folder / f"{self.split}.npy", np.array(self.ends, np.int64))


def _write(source: Source, tokenizer: tiktoken.Encoding, theirs: Tokenize | None, folder: Path, quiet: bool) -> None:
    if tokenizer.n_vocab > 1 << 16:
        raise UsageError(
            f"{tokenizer.name} has {tokenizer.n_vocab} tokens, more than the 65,536 that 16 bits can number."
        )
    writers = [_Writer(folder, split) for split in SPLITS]
    max_id = tokenizer.eot_token
    try:
        with progress(f"tokenising {source.name}", unit="stories", quiet=quiet) as advance:
            for labels, rows in _encode(source, tokenizer, theirs):
                for held, ids in zip(labels, rows, strict=True):
                    row = np.array(ids, np.uint16)
                    max_id = max(max_id, int(row.max()))
                    writers[held].add(row)
                advance(len(rows))
    finally:
        for writer in writers:
            writer.finish_file()
    train, validation = writers
    if not train.ends and not validation.ends:
        raise UsageError(f"{source.name} is empty: there is not one story in it.")
    if not train.ends or not validation.ends:
        raise UsageError(f"{source.name} has one story only. There must be one to train on and one to validate with.")
    for writer in writers:
        writer.finish()
    meta = {"source": source.name, "tokenizer": tokenizer.name, "max_id": max_id, "end_of_text": tokenizer.eot_token}
    counts = {writer.split: {"stories": len(writer.ends), "tokens": writer.total} for writer in writers}
    (folder / "meta.json").write_text(json.dumps({**meta, **counts}, indent=1) + "\n")


def _encode(
    source: Source, tokenizer: tiktoken.Encoding, theirs: Tokenize | None
) -> Iterator[tuple[tuple[bool, ...], list[Any]]]:
    """Labels and token ids, many stories at a time, ours in as many threads as there are cores."""
    stories = source.read()
    while some := [story for story, _ in zip(stories, range(STORIES_AT_ONCE), strict=False)]:
        labels, texts = zip(*some, strict=True)
        if theirs:
            yield labels, [theirs(text, tokenizer) for text in texts]
        else:
            rows = tokenizer.encode_ordinary_batch(list(texts), num_threads=os.cpu_count() or 1)
            yield labels, [[*row, tokenizer.eot_token] for row in rows]
