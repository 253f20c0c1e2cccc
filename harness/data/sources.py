"""Where stories come from: the embedded generator, TinyStories, a text file, a Parquet file."""

import functools
import hashlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.data import pocket, story_templates
from harness.data.tinystories import fetch_tinystories
from harness.data.tokenizer import END_OF_TEXT
from harness.errors import UsageError

POCKET_STORIES = 60_000
READ_BYTES = 1 << 24  # of a text file at a time

Labelled = tuple[bool, str]  # (kept for validation?, story)


@dataclass(frozen=True)
class Source:
    """Stories in a fixed order, and a key that changes whenever any of them does."""

    name: str
    key: str
    read: Callable[[], Iterator[Labelled]]


def open_source(spec: str, validation: float) -> Source:
    """The source that `spec` names. Of the ones without a validation part, every `1 / validation`-th story is kept for it.

    Raises UsageError if there is no such source, or nothing in it.
    """
    every = max(2, round(1 / validation))

    def label(texts: Iterator[str]) -> Iterator[Labelled]:
        return ((index % every == 0, text) for index, text in enumerate(texts))

    if spec.partition(":")[0] == "pocket":
        count = _count(spec)
        return Source(spec, _key(pocket_version(), count, every), lambda: label(pocket.stories(count)))
    if spec == "tinystories":
        files = fetch_tinystories()
        return Source(
            "tinystories",
            _key(*(file.name for file in files)),
            lambda: ((file.name.startswith("validation"), text) for file in files for text in read_parquet(file)),
        )
    path = Path(spec)
    if not path.exists():
        raise UsageError(
            f"There is no file {spec}. --data takes pocket, pocket:N, tinystories, or the path of a text or Parquet file."
        )
    if path.is_dir():
        raise UsageError(f"{spec} is a folder. --data takes one text or Parquet file.")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    read = read_parquet if path.suffix == ".parquet" else read_text
    return Source(path.name, _key(digest, path.suffix, every), lambda: label(read(path)))


@functools.cache
def pocket_version() -> str:
    """Changes whenever the generator of the embedded stories does."""
    return _key(*(Path(module.__file__).read_bytes() for module in (pocket, story_templates) if module.__file__))


def _count(spec: str) -> int:
    """Of how many stories `pocket` or `pocket:N` is."""
    _, colon, number = spec.partition(":")
    if colon and not (number.isdecimal() and int(number) > 1):
        raise UsageError(f"--data {spec}: write pocket, or pocket:N for the first N stories, N at least 2.")
    return int(number) if colon else POCKET_STORIES


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def read_text(path: Path, read_bytes: int = READ_BYTES) -> Iterator[str]:
    """The stories of a UTF-8 text with `<|endoftext|>` between them, stripped, empty ones left out; the file may be of any
    size."""
    with path.open("rb") as file:
        for offset, story in _split(file, END_OF_TEXT.encode(), read_bytes):
            try:
                text = story.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise UsageError(
                    f"{path} is not UTF-8 text: byte {offset + error.start} is 0x{story[error.start]:02x}. Convert "
                    f"the file, or cut that part."
                ) from error
            if text:
                yield text


def _split(file: io.BufferedIOBase, separator: bytes, read_bytes: int) -> Iterator[tuple[int, bytes]]:
    """The parts between separators, each with its offset in the file."""
    offset, rest = 0, b""
    while block := file.read(read_bytes):
        *whole, rest = (rest + block).split(separator)
        for part in whole:
            yield offset, part
            offset += len(part) + len(separator)
    yield offset, rest


def read_parquet(path: Path) -> Iterator[str]:
    """The stories of a Parquet file's `text` column, stripped, empty ones left out."""
    from pyarrow import ArrowException, parquet  # heavy, and seldom needed

    try:
        with parquet.ParquetFile(path) as table:
            if "text" not in table.schema_arrow.names:
                raise UsageError(f"{path} has no column `text`, but {', '.join(table.schema_arrow.names)}.")
            for batch in table.iter_batches(batch_size=4096, columns=["text"]):
                yield from (text.strip() for text in batch.column(0).to_pylist() if text and text.strip())
    except ArrowException as error:
        raise UsageError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error
