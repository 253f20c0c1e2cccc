"""Sources of stories: the embedded generator, TinyStories, a text file, a Parquet file."""

import functools
import hashlib
import importlib.util
import io
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from commandline import invocation
from harness.data import pocket, story_templates
from harness.data.tinystories import fetch_tinystories
from harness.data.tokenizer_json import END_OF_TEXT
from harness.errors import UsageError

POCKET_STORIES = 60_000
READ_BYTES = 1 << 24  # bytes of a text file read at a time

LabeledStory = tuple[bool, str]  # (in the validation split, text)


@dataclass(frozen=True)
class Source:
    """Stories in a fixed order. The key changes whenever any story, or its split, does."""

    name: str
    key: str
    read: Callable[[], Iterator[LabeledStory]]


def open_source(spec: str, validation_fraction: float) -> Source:
    """The source that `spec` names. `validation_fraction` applies to sources without a validation split of their own.

    Raises UsageError if there is no such source.
    """
    fraction = Fraction(str(validation_fraction))

    def label(texts: Iterator[str]) -> Iterator[LabeledStory]:
        first_two = list(itertools.islice(texts, 2))
        if len(first_two) == 1:
            return iter(_halves(first_two[0], fraction))
        stories = enumerate(itertools.chain(first_two, texts))
        return ((in_validation(index, fraction), text) for index, text in stories)

    if spec.partition(":")[0] == "pocket":
        count = _pocket_count(spec)
        return Source(spec, _key(pocket_version(), count, fraction), lambda: label(pocket.stories(count)))
    if spec == "tinystories":
        _require_parquet(spec)
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
    if path.suffix == ".parquet":
        _require_parquet(spec)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    read = read_parquet if path.suffix == ".parquet" else read_text
    return Source(path.name, _key(digest, path.suffix, fraction), lambda: label(read(path)))


def in_validation(index: int, fraction: Fraction) -> bool:
    """Whether story `index` is in the validation split: of the first n stories, `ceil(n * fraction)` are, story 0 first."""
    before, after = (-(-number * fraction.numerator // fraction.denominator) for number in (index, index + 1))
    return after > before


def _halves(document: str, fraction: Fraction) -> list[LabeledStory]:
    """A file that is one long text, such as a book: its end, from the beginning of a line on, is the validation split."""
    cut = len(document) - int(len(document) * fraction)
    cut = document.rfind("\n", 0, cut) + 1 or cut
    return [(validation, part) for validation, part in ((False, document[:cut]), (True, document[cut:])) if part]


@functools.cache
def pocket_version() -> str:
    """A digest of the generator of the embedded stories."""
    return _key(*(Path(module.__file__).read_bytes() for module in (pocket, story_templates) if module.__file__))


def _pocket_count(spec: str) -> int:
    """The number of stories in `pocket` or `pocket:N`. Raises UsageError if N is not a number of at least 2."""
    _, colon, number = spec.partition(":")
    if colon and not (number.isdecimal() and int(number) > 1):
        raise UsageError(
            f"--data {spec} is not valid; write pocket, or pocket:N for the first N stories, N at least 2."
        )
    return int(number) if colon else POCKET_STORIES


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def read_text(path: Path, read_bytes: int = READ_BYTES) -> Iterator[str]:
    """The stories of a UTF-8 file of any size, separated by `<|endoftext|>`, stripped, without empty ones.

    Raises UsageError, with the offset of the first bad byte, if the file is not UTF-8.
    """
    with path.open("rb") as file:
        for offset, story in _split(file, END_OF_TEXT.encode(), read_bytes):
            try:
                text = story.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise UsageError(
                    f"{path} is not UTF-8 text: byte {offset + error.start} is 0x{story[error.start]:02x}. "
                    "Convert the file, or remove that part."
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


def _require_parquet(spec: str) -> None:
    """Raises UsageError if the library that reads Parquet is missing. It takes 176 MB, so it is not installed by default."""
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError(f"--data {spec} needs a library for Parquet: run `{invocation.install('pyarrow')}`.")


def read_parquet(path: Path) -> Iterator[str]:
    """The stories of a Parquet file's `text` column, stripped, without empty ones.

    Raises UsageError if the file is not Parquet or has no such column.
    """
    from pyarrow import ArrowException, parquet  # slow to import, and rarely needed

    try:
        with parquet.ParquetFile(path) as table:
            if "text" not in table.schema_arrow.names:
                raise UsageError(
                    f"{path} has no column `text`. Its columns are: {', '.join(table.schema_arrow.names)}."
                )
            for batch in table.iter_batches(batch_size=4096, columns=["text"]):
                yield from (text.strip() for text in batch.column(0).to_pylist() if text and text.strip())
    except ArrowException as error:
        raise UsageError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error
