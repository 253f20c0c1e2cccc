"""Deals texts out to training and validation by tokens, in one pass, and finds texts that are in both.

The rule: a text goes to validation if that brings validation closer to its fraction of the tokens so far. A text that
is too long for this goes to training, except for its end if validation would otherwise be too small: the end of a book,
or of the last text.
"""

import hashlib
from array import array
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from harness.data.formats import Part

FILE_TOKENS = 1 << 26  # 128 MiB of uint16
LONG = 1 << 20  # tokens; the end of a longer text is held out, and it is written before it is read to its end


class Writer:
    """Appends texts to the files of one split."""

    def __init__(self, folder: Path, split: str, dtype: Any):
        self.folder, self.split, self.dtype = folder, split, np.dtype(dtype)
        self.ends, self.hashes = array("q"), array("q")
        self.tokens = self.bytes = 0
        self._files: list[tuple[BinaryIO, int]] = []  # each with the offset of its first token

    def append(self, ids: np.ndarray) -> None:
        """Writes tokens of the current text."""
        if not self._files or self.tokens - self._files[-1][1] >= FILE_TOKENS:
            if self._files:
                self._files[-1][0].flush()
            path = self.folder / f"{self.split}-{len(self._files):05}.bin"
            self._files.append((path.open("w+b"), self.tokens))
        self._files[-1][0].write(ids.astype(self.dtype).tobytes())
        self.tokens += len(ids)

    def end_text(self, digest: int | None) -> None:
        """Ends the current text. `digest` is None for the end of a text that began in the other split."""
        self.ends.append(self.tokens)
        if digest is not None:
            self.hashes.append(digest)

    def take_back(self, number: int) -> np.ndarray:
        """Removes the last tokens, (number,), and returns them. They must all be of one text, which goes on."""
        parts: list[np.ndarray] = []
        while number:
            file, first = self._files[-1]
            taken = min(number, self.tokens - first)
            file.flush()
            file.seek((self.tokens - first - taken) * self.dtype.itemsize)
            parts.insert(0, np.frombuffer(file.read(taken * self.dtype.itemsize), self.dtype))
            file.seek((self.tokens - first - taken) * self.dtype.itemsize)
            file.truncate()
            number, self.tokens = number - taken, self.tokens - taken
            if self.tokens == first:
                Path(file.name).unlink()
                file.close()
                self._files.pop()
        return np.concatenate([np.empty(0, self.dtype), *parts])

    def close(self) -> None:
        """Closes the files."""
        for file, _ in self._files:
            file.close()

    def finish(self) -> None:
        """Closes the files, and writes where the texts end."""
        self.close()
        np.save(self.folder / f"{self.split}.npy", np.frombuffer(self.ends, np.int64))


class Dealer:
    """Deals texts out to two writers. Holds one text, or its digest and size if it is long."""

    def __init__(
        self,
        train: Writer,
        validation: Writer,
        fraction: Fraction,
        line_ends: Callable[[], np.ndarray] | None,
        beginning_of: Callable[[str], str],
    ):
        """`line_ends` returns for each token id whether its text ends a line, (V,) bool. None: no text is cut."""
        self.train, self.validation, self.fraction, self._line_ends = train, validation, fraction, line_ends
        self._beginning_of = beginning_of
        self.beginning = ""  # of the first text in training
        self._held: list[np.ndarray] = []
        self._tokens = self._bytes = 0  # of the current text
        self._hash = hashlib.blake2b(digest_size=8)
        self._begins = ""
        self._labeled = False  # whether the source has a split of its own
        self._last: tuple[int, int] = (0, 0)  # tokens and bytes of the last text that went to training

    def add(self, part: Part, ids: np.ndarray) -> None:
        """Adds a part of a text, and its tokens with end-of-text if it is the last one."""
        data = part.text.encode()
        self._hash.update(data)
        self._begins = self._begins or self._beginning_of(part.text)
        self._tokens, self._bytes = self._tokens + len(ids), self._bytes + len(data)
        self._held.append(ids)
        if self._tokens > LONG and part.in_validation is None and self.fraction < 1:
            self._flush(self.train)
        if part.ends:
            self._end(part.in_validation)

    def _end(self, in_validation: bool | None) -> None:
        long = self._tokens > LONG
        wanted = self._missing()
        if self.fraction == 1:
            chosen = self.validation
        elif in_validation is not None:
            self._labeled = True
            chosen = self.validation if in_validation else self.train
        else:
            held_out = not long and self.train.tokens > 0 and self._tokens < 2 * wanted
            chosen = self.validation if held_out else self.train
        self._flush(chosen)
        chosen.bytes += self._bytes
        if chosen is self.train:
            self._last = (self._tokens, self._bytes)
            self.beginning = self.beginning or self._begins
        chosen.end_text(int.from_bytes(self._hash.digest(), "little", signed=True))
        if long and chosen is self.train and in_validation is None:
            self._cut_end(wanted)
        self._tokens = self._bytes = 0
        self._hash, self._begins = hashlib.blake2b(digest_size=8), ""

    def _flush(self, writer: Writer) -> None:
        for ids in self._held:
            writer.append(ids)
        self._held.clear()

    def _missing(self) -> int:
        """The tokens that validation lacks of its fraction of all tokens so far."""
        total = self.train.tokens + self.validation.tokens + sum(map(len, self._held))
        return -(-total * self.fraction.numerator // self.fraction.denominator) - self.validation.tokens

    def finish(self) -> None:
        """Holds out the end of the last text in training if less than half of what validation should have was held
        out."""
        wanted = self._missing()
        if self.fraction < 1 and not self._labeled and wanted > self.validation.tokens and self.train.ends:
            self._cut_end(max(wanted, 2))

    def _cut_end(self, wanted: int) -> None:
        """Moves about so many tokens from the end of the last text in training, from the beginning of a line on."""
        length, size = self._last
        number = min(wanted + wanted // 8, length - 2)
        if number < 2 or self._line_ends is None:
            return
        tail = self.train.take_back(number)
        slack = max(number - wanted, 0) + 1
        places = np.flatnonzero(self._line_ends()[tail[:slack]])
        start = int(places[0]) + 1 if len(places) else number - min(wanted, number)
        end = tail[-1:]
        self.train.append(np.concatenate([tail[:start], end]))
        self.train.ends[-1] = self.train.tokens
        self.validation.append(tail[start:])
        self.validation.end_text(None)
        moved = round(size * (number - start) / length)
        self.train.bytes, self.validation.bytes = self.train.bytes - moved, self.validation.bytes + moved

    def duplicates(self) -> int:
        """The number of texts in validation that are in training, too, word for word."""
        if not len(self.train.hashes) or not len(self.validation.hashes):
            return 0
        train, validation = (np.frombuffer(writer.hashes, np.int64) for writer in (self.train, self.validation))
        return int(np.isin(validation, train).sum())
