"""Tokens on disk: memory-mapped files of uint16, or uint32 where needed, written once for each source and tokenizer."""

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tiktoken

from commandline.cores import usable_cores
from commandline.files import lock
from commandline.folders import cache_folder
from commandline.progress import progress, working
from commandline.text import counted
from harness.data.conversations import first_question
from harness.data.formats import Part, Seen
from harness.data.package_tokenizer import begin_of, end_of
from harness.data.sources import Source, Tokenize
from harness.data.split import Dealer, Writer
from harness.errors import HarnessError, UsageError

# Of the cached files. Version 1 lacked some stories, version 2 what is said of them, version 3 had other rows of
# dialogues, and version 4 is from before pairs of them.
FORMAT = 5
ENCODE_BATCH = 4096  # texts
ENCODE_CHARACTERS = 1 << 22  # of the texts encoded together
FITS = 2.0  # bytes per token, below which a tokenizer was made for other text
LONGEST_BEGINNING = 200  # characters of a text that are remembered
SPLITS = ("train", "validation")
CONTEXT = np.uint32(1 << 31)  # the bit of a token that is read, and not learned
RESTART = np.uint32(1 << 30)  # the bit of the first token of another text of the same dialogue
REJECTED = np.uint32(1 << 29)  # the bit of the first token of the second dialogue of a pair
MARKS = CONTEXT | RESTART | REJECTED  # all bits of a stored token that are not its id


@dataclass(frozen=True)
class Tokens:
    """The tokens of one split: one stream over any number of files, with end-of-text after each story."""

    files: tuple[np.ndarray, ...]  # (N_i,) uint16 or uint32 each
    ends: np.ndarray  # (stories,) int64: the offset in the stream after each story's end-of-text

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def restarted(self) -> "Tokens":
        """The tokens of dialogues with an end before each `RESTART` as well."""
        offsets = np.cumsum([0, *map(len, self.files)])
        starts = [np.flatnonzero(file & RESTART) + start for file, start in zip(self.files, offsets, strict=False)]
        return Tokens(self.files, np.union1d(self.ends, np.concatenate([np.empty(0, np.int64), *starts])))

    @classmethod
    def joined(cls, every: list["Tokens"]) -> "Tokens":
        """One stream of several."""
        starts = np.cumsum([0, *map(len, every)])
        ends = [tokens.ends + start for tokens, start in zip(every, starts, strict=False)]
        return cls(tuple(file for tokens in every for file in tokens.files), np.concatenate(ends))

    def __getitem__(self, span: slice) -> np.ndarray:
        """Tokens `span.start` to `span.stop`, (stop - start,), across files."""
        parts, start = [np.empty(0, self.files[0].dtype if self.files else np.uint16)], 0
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
    bytes: tuple[int, int]  # of UTF-8 text, in training and in validation
    beginning: str  # of the first text in training; of dialogues, the first question
    notes: tuple[str, ...]  # sentences for the user on what is odd about the texts
    parts: tuple["Prepared", ...] = ()  # the sources, if there are several
    weights: tuple[float | None, ...] = ()  # and their shares of the windows; None: by their sizes
    dialogues: bool = False  # whose stored text, with names and quotes, is not what the tokens are of

    @property
    def bytes_per_token(self) -> float:
        """Over both splits, without the ends of texts."""
        tokens = sum(len(split) - len(split.ends) for split in (self.train, self.validation))
        return sum(self.bytes) / max(tokens, 1)

    def summary(self) -> str:
        """A sentence on the number of tokens, and how well the tokenizer fits."""
        if self.dialogues:
            numbers = [counted(len(split.ends), "dialogue") for split in (self.train, self.validation)]
            return f"{self.name}: {numbers[0]} for training, {numbers[1]} for validation."
        return (
            f"{self.name}: {len(self.train):,} tokens for training, {len(self.validation):,} for validation, "
            f"{self.bytes_per_token:.2f} bytes per token."
        )


def prepare(
    source: Source,
    tokenizer: tiktoken.Encoding,
    *,
    tokenize: Tokenize | None = None,
    key: str = "",
    dialogues: bool = False,
    quiet: bool = False,
) -> Prepared:
    """The tokens of `source`, from the cache if possible. Otherwise tokenizes it and moves the result there in one
    step.

    `tokenize` replaces the tokenizer's own encoding, unless the source has one; `key` identifies it in the cache. Texts
    that are `dialogues` are not cut, and their tokens may have the bit `CONTEXT`.

    Raises UsageError if a split would be empty, HarnessError if the cache cannot be written.
    """
    tokenize = source.tokenize or tokenize
    name = f"{source.key}-{tokenizer.name}{key}-{FORMAT}"
    folder = cache_folder("HARNESS_CACHE", "harness") / "tokens" / name
    if not folder.exists():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _alone(folder, quiet):
                if not folder.exists():
                    _write_once(source, tokenizer, tokenize, folder, dialogues, quiet)
        except OSError as error:
            raise HarnessError(
                f"The tokens of {source.name} could not be written to {folder.parent}: {error.strerror or error}. "
                "Make room or change its permissions, or choose another directory with HARNESS_CACHE."
            ) from error
    meta = json.loads((folder / "meta.json").read_text("utf-8"))
    train, validation = (_open(folder, split, meta["dtype"]) for split in SPLITS)
    return Prepared(
        source.name, source.key, folder, train, validation, meta["max_id"], tuple(meta["bytes"]), meta["beginning"],
        tuple(meta["notes"]), dialogues=dialogues,
    )  # fmt: skip


@contextlib.contextmanager
def _alone(folder: Path, quiet: bool) -> Iterator[None]:
    """Lets one process write a folder; others that want the same wait. Without locks, as on some network drives, all
    write."""
    file = folder.with_name(f".{folder.name}.lock")
    try:
        unlock = lock(file)
        with (
            contextlib.nullcontext()
            if unlock or quiet
            else working("waiting for another process that tokenizes the same")
        ):
            while unlock is None:
                time.sleep(0.1)
                unlock = lock(file)
    except (OSError, NotImplementedError):
        unlock = None
    try:
        yield
    finally:
        if unlock is not None:
            file.unlink(missing_ok=True)
            unlock()


def _write_once(
    source: Source, tokenizer: tiktoken.Encoding, tokenize: Tokenize | None, folder: Path, dialogues: bool, quiet: bool
) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _write(source, tokenizer, tokenize, unfinished, dialogues, quiet)
        _publish(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _publish(unfinished: Path, folder: Path) -> None:
    """Moves a finished folder into place, unless another process has already written the same one."""
    try:
        os.replace(unfinished, folder)
    except OSError:
        if not folder.exists():
            raise


def _open(folder: Path, split: str, dtype: str) -> Tokens:
    files = sorted(folder.glob(f"{split}-*.bin"))
    return Tokens(tuple(np.memmap(file, dtype, "r") for file in files), np.load(folder / f"{split}.npy", mmap_mode="r"))


def _beginning(text: str) -> str:
    return text[:LONGEST_BEGINNING]


def _write(
    source: Source, tokenizer: tiktoken.Encoding, tokenize: Tokenize | None, folder: Path, dialogues: bool, quiet: bool
) -> None:
    dtype = np.uint16 if tokenizer.n_vocab <= 1 << 16 and not dialogues else np.uint32
    train, validation = (Writer(folder, split, dtype) for split in SPLITS)
    line_ends = None if dialogues else lambda: _line_ends(tokenizer)
    dealer = Dealer(train, validation, source.fraction, line_ends, first_question if dialogues else _beginning)
    max_id, seen, shown = tokenizer.eot_token, Seen(), 0
    unit, total = ("kB", -(-source.size // 1000)) if source.size else ("stories", None)
    with contextlib.ExitStack() as files:
        advance = files.enter_context(progress(f"tokenizing {source.name}", unit=unit, total=total, quiet=quiet))
        files.callback(train.close)
        files.callback(validation.close)
        for parts, encoded in _encode(source.read(seen), tokenizer, tokenize):
            for part, ids in zip(parts, encoded, strict=True):
                max_id = max(max_id, int(np.max(ids & ~MARKS if dialogues else ids, initial=0)))
                dealer.add(part, ids)
            done = -(-seen.bytes_read // 1000) if source.size else shown + len(parts)
            advance(done - shown)
            shown = done
        if not train.ends and not validation.ends:
            raise UsageError(f"{source.name} contains no text. Was the file saved?")
        dealer.finish()
    if source.fraction < 1 and not validation.ends:
        raise UsageError(
            f"{source.name} contains only {counted(train.tokens, 'token')}, too few to train and to validate. Use more "
            "text."
        )
    for writer in (train, validation):
        writer.finish()
    meta = {
        "source": source.name,
        "tokenizer": tokenizer.name,
        "dtype": np.dtype(dtype).name,
        "max_id": max_id,
        "bytes": [train.bytes, validation.bytes],
        "beginning": dealer.beginning,
        "notes": [*filter(None, (source.note, seen.note(), _on_duplicates(source.name, dealer)))],
    }
    counts = {writer.split: {"stories": len(writer.ends), "tokens": writer.tokens} for writer in (train, validation)}
    (folder / "meta.json").write_text(json.dumps({**meta, **counts}, indent=1) + "\n", "utf-8")


def _on_duplicates(name: str, dealer: Dealer) -> str:
    number, every = dealer.duplicates(), len(dealer.validation.ends)
    if not number:
        return ""
    verb = "is" if number == 1 else "are"
    return (
        f"{number:,} of {counted(every, 'validation text')} of {name} {verb} in the training data, too, word for word, "
        "so the validation loss is too low. Remove the duplicates with `harness duplicates`."
    )


def _line_ends(tokenizer: tiktoken.Encoding) -> np.ndarray:
    """Whether the text of each token ends a line, (V,) bool."""
    ends = np.zeros(tokenizer.n_vocab, bool)
    for token in range(tokenizer.n_vocab):
        with contextlib.suppress(KeyError):  # some vocabularies have gaps
            ends[token] = tokenizer.decode_single_token_bytes(token).endswith(b"\n")
    return ends


def _encode(
    parts: Iterator[Part], tokenizer: tiktoken.Encoding, tokenize: Tokenize | None
) -> Iterator[tuple[list[Part], list[np.ndarray]]]:
    """Parts of texts and their ids, some at a time. tiktoken encodes them on all cores."""
    end, begin, starts = end_of(tokenizer), begin_of(tokenizer), True
    for batch in _batched(parts, whole=tokenize is not None):
        if tokenize:
            yield batch, [_tokenized(part, tokenizer, tokenize) for part in batch]
        else:
            encoded = tokenizer.encode_ordinary_batch([part.text for part in batch], num_threads=usable_cores())
            arrays = []
            for part, ids in zip(batch, encoded, strict=True):
                arrays.append(np.array([*(begin if starts else ()), *ids, *(end if part.ends else ())], np.int64))
                starts = part.ends
            yield batch, arrays


def _tokenized(part: Part, tokenizer: tiktoken.Encoding, tokenize: Tokenize) -> np.ndarray:
    """The ids of one text. An error says where the text is."""
    try:
        return np.asarray(tokenize(part.text, tokenizer))
    except UsageError as error:
        raise UsageError(f"{part.where}: {error}" if part.where else str(error)) from error


def _batched(parts: Iterator[Part], *, whole: bool) -> Iterator[list[Part]]:
    """The parts in lists of limited size. `whole` joins the parts of each text, because a learner's piece adds an
    end."""
    batch: list[Part] = []
    begun: list[str] = []
    characters = 0
    for part in parts:
        characters += len(part.text)
        if whole and not part.ends:
            begun.append(part.text)
            continue
        batch.append(part._replace(text="".join([*begun, part.text])) if begun else part)
        begun.clear()
        if len(batch) >= ENCODE_BATCH or characters >= ENCODE_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
