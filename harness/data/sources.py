"""Sources of texts: the embedded generator, TinyStories, and files of one's own; one of them, or several with
weights."""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tiktoken

from harness.data import arithmetic, pocket, tools
from harness.data.formats import Part, Seen, read_file
from harness.data.locate import find, is_local, require_pyarrow
from harness.data.tinystories import fetch_tinystories
from harness.errors import UsageError

READING = (
    1  # part of the key of files: another number after a change of what is read from the same bytes, or of the split
)
PACKED = (".gz", ".zst")  # after the suffix of a format
OWN_BEGINNINGS = ("pocket", "tinystories")  # their stories begin with "Once upon a time" often enough


# (text of one story, tokenizer) -> its ids, including end-of-text
Tokenize = Callable[[str, tiktoken.Encoding], np.ndarray]


@dataclass(frozen=True)
class Source:
    """Texts in a fixed order. The key changes whenever any text, or its split, does."""

    name: str
    key: str
    read: Callable[[Seen], Iterator[Part]]
    fraction: Fraction  # of the tokens that is held out for validation, unless the parts say which are; 1: all of them
    size: int = 0  # bytes to read; 0 if unknown
    note: str = ""
    tokenize: Tokenize | None = None  # if its texts have marks, which no other program reads

    def texts(self) -> Iterator[str]:
        """The texts without their labels, long ones in parts."""
        return (part.text for part in self.read(Seen()))


class Generator(NamedTuple):
    """A generator of texts, which needs no files."""

    number: int  # of texts, unless a number is named
    text: Callable[[int, bool], str]  # (index, whether it is held out)
    version: str  # another one for other texts
    tokenize: Tokenize | None = None


class Weighted(NamedTuple):
    """One of several sources, and its share of the training windows; None for a share by its size."""

    spec: str
    weight: float | None


def open_source(spec: str, validation_fraction: float, field: str = "text") -> Source:
    """The source that `spec` names. `validation_fraction` applies to sources without a validation split of their own.

    A fraction of 1 holds out all of the source, whatever its own split. `field` is that of records, or the column of
    tables. Raises UsageError if there is no such source.
    """
    fraction = Fraction(str(validation_fraction))
    if is_generated(spec):
        count, generator = _count(spec), GENERATORS[spec.partition(":")[0]]

        def generated(seen: Seen) -> Iterator[Part]:
            each = ((index, in_validation(index, fraction)) for index in range(count))
            return (Part(generator.text(index, held_out), in_validation=held_out) for index, held_out in each)

        key = _key(generator.version, count, fraction)
        return Source(spec, key, generated, fraction, tokenize=generator.tokenize)
    if spec == "tinystories":
        require_pyarrow(spec, "Parquet")
        files = fetch_tinystories()

        def of_files(seen: Seen) -> Iterator[Part]:
            for path in files:
                held_out = path.name.startswith("validation") or fraction == 1
                for file in find(str(path)).files:
                    yield from (part._replace(in_validation=held_out) for part in read_file(file, "text", seen))

        whole = (fraction,) if fraction == 1 else ()
        size = sum(path.stat().st_size for path in files)
        return Source(spec, _key(*(path.name for path in files), *whole), of_files, fraction, size)
    found = find(spec)
    for file in found.files:
        if file.suffixes[0] in (".parquet", ".pq"):
            require_pyarrow(spec, "Parquet")
        elif file.suffixes[1] == ".zst":
            require_pyarrow(spec, "Zstandard")

    def read(seen: Seen) -> Iterator[Part]:
        for file in found.files:
            yield from read_file(file, field, seen)

    name = Path(spec).name if len(found.files) == 1 and is_local(found.files[0].fs) else spec
    digests = tuple((file.suffixes, file.digest()) for file in found.files)
    key = _key(READING, digests, field, fraction)
    return Source(name, key, read, fraction, sum(file.size for file in found.files), found.note)


def split_spec(spec: str) -> tuple[Weighted, ...]:
    """The sources in `a.jsonl:0.7,b.txt:0.3`. A path with a comma in it is one source.

    Raises UsageError if only some of them have weights.
    """
    if "," not in spec or Path(spec).exists():
        return (Weighted(spec, None),)
    sources = tuple(_weighted(part.strip()) for part in spec.split(",") if part.strip())
    without = [source.spec for source in sources if source.weight is None]
    if without and len(without) < len(sources):
        raise UsageError(f"--data {spec} is not valid; give {without[0]} a weight, too, such as {without[0]}:0.5.")
    return sources


def _weighted(part: str) -> Weighted:
    """A source and its weight. `pocket:3000` is a number of stories; `pocket:0.5` and `pocket:3000:0.5` have a
    weight."""
    spec, colon, text = part.rpartition(":")
    try:
        weight = float(text) if colon else None
    except ValueError:
        weight = None
    if weight is None or (spec in GENERATORS and text.isdecimal()):
        return Weighted(part, None)
    if not 0 < weight < float("inf"):
        raise UsageError(f"--data {part} is not valid; a weight must be more than 0.")
    return Weighted(spec, weight)


def is_generated(spec: str) -> bool:
    """Whether `spec` names texts that the harness generates."""
    return spec.partition(":")[0] in GENERATORS


def short_name(spec: str) -> str:
    """What a run on these data is called: the names of their files or folders without suffixes, or of a generator.

    Empty if no part of a path has a letter or a digit.
    """
    return "-".join(filter(None, (_short(source.spec) for source in split_spec(spec))))


def _short(spec: str) -> str:
    """The last part of a path that names something, without suffix; `*` and `**` of a pattern do not."""
    if is_generated(spec):
        return spec.partition(":")[0]
    for part in reversed(spec.replace("\\", "/").split("/")):
        stem = Path(part).stem if Path(part).suffix not in PACKED else Path(Path(part).stem).stem
        if name := re.sub(r"[^\w.-]+", "-", stem).strip("-."):
            return name
    return ""


def in_validation(index: int, fraction: Fraction) -> bool:
    """Whether story `index` is in the validation split: of the first n stories, `ceil(n * fraction)` are, story 0
    first."""
    before, after = (-(-number * fraction.numerator // fraction.denominator) for number in (index, index + 1))
    return after > before


def _count(spec: str) -> int:
    """The number of texts in `pocket` or `pocket:N`. Raises UsageError if N is not a number of at least 2."""
    generator, colon, number = spec.partition(":")
    if colon and not (number.isdecimal() and int(number) > 1):
        what = "stories" if generator == "pocket" else "texts"
        raise UsageError(
            f"--data {spec} is not valid; write {generator}, or {generator}:N for the first N {what}, N at least 2."
        )
    return int(number) if colon else GENERATORS[generator].number


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def joint_key(keys: list[str], weights: list[float | None]) -> str:
    """The key of several sources with weights; that of a single one is its own."""
    return keys[0] if len(keys) == 1 else _key(keys, weights)


GENERATORS = {
    "pocket": Generator(60_000, lambda index, in_validation: pocket.story(index), pocket.VERSION),
    "arithmetic": Generator(60_000, arithmetic.text, arithmetic.VERSION),
    "tools": Generator(60_000, tools.text, tools.VERSION, tools.tokenize),
}
