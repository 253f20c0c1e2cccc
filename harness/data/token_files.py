"""Tokens on disk: memory-mapped uint16 files, written once for each source and tokenizer."""

import contextlib
import itertools
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

from commandline.cores import usable_cores
from commandline.folders import cache_folder
from commandline.progress import progress
from harness.data.sources import Source
from harness.errors import HarnessError, UsageError

FORMAT = 2  # of the cached files; version 1 lacked some stories
FILE_TOKENS = 1 << 26  # 128 MiB
ENCODE_BATCH = 4096  # stories
SPLITS = ("train", "validation")


@dataclass(frozen=True)
class Tokens:
    """The tokens of one split: one stream over any number of files, with end-of-text after each story."""

    files: tuple[np.ndarray, ...]  # (N_i,) uint16 each
    ends: np.ndarray  # (stories,) int64: the offset in the stream after each story's end-of-text

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def __getitem__(self, span: slice) -> np.ndarray:
        """Tokens `span.start` to `span.stop`, (stop - start,) uint16, across files."""
        parts, start = [np.empty(0, np.uint16)], 0
        for file in self.files:
            if span.start < start + len(file) and span.stop > start:
                parts.append(file[max(span.start - start, 0) : span.stop - start])
            start += len(file)
        return np.concatenate(parts)


@dataclass(frozen=True)
class Prepared:
    """The tokens of a source, in two splits."""

    name: str
    key: str  # of the source
    folder: Path
    train: Tokens
    validation: Tokens
    max_id: int  # the largest token id


# (text of one story, tokenizer) -> its ids, including end-of-text
Tokenize = Callable[[str, tiktoken.Encoding], np.ndarray]


def prepare(
    source: Source,
    tokenizer: tiktoken.Encoding,
    *,
    tokenize: Tokenize | None = None,
    key: str = "",
    quiet: bool = False,
) -> Prepared:
    """The tokens of `source`, from the cache if possible. Otherwise tokenizes it and moves the result there in one step.

    `tokenize` replaces the tokenizer's own encoding; `key` identifies it in the cache.

    Raises UsageError if a split would be empty, HarnessError if the cache cannot be written.
    """
    name = f"{source.key}-{tokenizer.name}{key}-{FORMAT}"
    folder = cache_folder("HARNESS_CACHE", "harness") / "tokens" / name
    if not folder.exists():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
            try:
                _write(source, tokenizer, tokenize, unfinished, quiet)
                _publish(unfinished, folder)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
        except OSError as error:
            raise HarnessError(
                f"The tokens of {source.name} could not be written to {folder.parent}: {error.strerror or error}. "
                "Make room or change its permissions, or choose another directory with HARNESS_CACHE."
            ) from error
    meta = json.loads((folder / "meta.json").read_text())
    train, validation = (_open(folder, split) for split in SPLITS)
    return Prepared(source.name, source.key, folder, train, validation, meta["max_id"])


def _publish(unfinished: Path, folder: Path) -> None:
    """Moves a finished folder into place, unless another process has already written the same one."""
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
    """Appends stories to the files of one split."""

    def __init__(self, folder: Path, split: str):
        self.folder, self.split = folder, split
        self.ends: list[int] = []
        self.tokens = self.files = 0
        self.file: BinaryIO | None = None

    def add(self, ids: np.ndarray) -> None:
        if self.file is None or self.file.tell() >= 2 * FILE_TOKENS:
            self.finish_file()
            self.file = (self.folder / f"{self.split}-{self.files:05}.bin").open("wb")
            self.files += 1
        assert self.file is not None
        self.file.write(ids.tobytes())
        self.tokens += len(ids)
        self.ends.append(self.tokens)

    def finish_file(self) -> None:
        if self.file is not None:
            self.file.close()

    def finish(self) -> None:
        self.finish_file()
        np.save(self.folder / f"{self.split}.npy", np.array(self.ends, np.int64))


def _write(source: Source, tokenizer: tiktoken.Encoding, tokenize: Tokenize | None, folder: Path, quiet: bool) -> None:
    if tokenizer.n_vocab > 1 << 16:
        raise UsageError(
            f"The tokenizer {tokenizer.name} has {tokenizer.n_vocab:,} tokens; token files hold at most 65,536."
        )
    writers = [_Writer(folder, split) for split in SPLITS]
    max_id = tokenizer.eot_token
    with contextlib.ExitStack() as files, progress(f"tokenizing {source.name}", unit="stories", quiet=quiet) as advance:
        for writer in writers:
            files.callback(writer.finish_file)
        for labels, encoded in _encode(source, tokenizer, tokenize):
            for in_validation, ids in zip(labels, encoded, strict=True):
                story = np.array(ids, np.uint16)
                max_id = max(max_id, int(np.max(story)))
                writers[in_validation].add(story)
            advance(len(encoded))
    train, validation = writers
    if not train.ends and not validation.ends:
        raise UsageError(f"{source.name} contains no stories.")
    if not train.ends or not validation.ends:
        raise UsageError(f"{source.name} contains only one story. Training needs one, and validation another.")
    for writer in writers:
        writer.finish()
    meta = {"source": source.name, "tokenizer": tokenizer.name, "max_id": max_id}
    counts = {writer.split: {"stories": len(writer.ends), "tokens": writer.tokens} for writer in writers}
    (folder / "meta.json").write_text(json.dumps({**meta, **counts}, indent=1) + "\n")


def _encode(
    source: Source, tokenizer: tiktoken.Encoding, tokenize: Tokenize | None
) -> Iterator[tuple[tuple[bool, ...], list[Any]]]:
    """Labels and token ids of up to `ENCODE_BATCH` stories at a time. tiktoken encodes them on all cores."""
    stories = source.read()
    while batch := list(itertools.islice(stories, ENCODE_BATCH)):
        labels, texts = zip(*batch, strict=True)
        if tokenize:
            yield labels, [tokenize(text, tokenizer) for text in texts]
        else:
            encoded = tokenizer.encode_ordinary_batch(list(texts), num_threads=usable_cores())
            yield labels, [[*ids, tokenizer.eot_token] for ids in encoded]
