"""Readers of text, JSON, CSV and Parquet: from a stream of bytes to texts, in bounded memory.

A text that is longer than `PART` characters comes in several parts. Line ends become LF, and a byte-order mark is
dropped.
"""

import codecs
import csv
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from commandline.text import counted
from harness.config import MESSAGES, PAIRS
from harness.data.conversations import MalformedError, stored_in
from harness.data.locate import DataFile, require_pyarrow
from harness.data.tokenizer_json import END_OF_TEXT
from harness.errors import UsageError

PART = 1 << 20  # characters
READ_BYTES = 1 << 20  # decoded at a time
BUFFER = 1 << 20  # bytes; formats are told apart by the first
MOST_RECORD = 1 << 26  # characters in a JSON value or a row of a table, which are held as a whole
MOST_REFUSED = 10  # dialogues that one message names
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# What a record needs
_DIALOGUES = {
    MESSAGES: "A dialogue is a list of `messages` or `conversations`, or a `prompt` and its `completion`",
    PAIRS: "A pair has the answers `chosen` and `rejected`, and may have their `prompt`",
}
_KINDS = {dict: "an object", list: "a list", bool: "true or false", int: "a number", float: "a number", str: "a string"}


class Part(NamedTuple):
    """A text, or a part of one; the last part ends it. `in_validation` is None unless the source has a split of its
    own. `where` is the file and the line of a dialogue."""

    text: str
    ends: bool = True
    in_validation: bool | None = None
    where: str = ""


@dataclass
class Seen:
    """What was noticed while texts were read."""

    bytes_read: int = 0  # as stored
    controls: int = 0
    first_control: str = ""  # which it was and where

    def note(self) -> str:
        """A sentence on control characters; empty if there were none."""
        if not self.controls:
            return ""
        them, verb = ("it", "is") if self.controls == 1 else ("them", "are")
        return (
            f"{self.first_control}; {counted(self.controls, 'control character')} in all {verb} trained on like "
            f"others. Remove {them} if the file is damaged."
        )


class Counted(io.RawIOBase):
    """A file that counts what is read from it."""

    def __init__(self, file: Any, seen: Seen):
        self._file, self._seen = file, seen

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._seen.bytes_read += len(data)
        return len(data)


def in_parts(text: str) -> Iterator[Part]:
    """A whole text in parts of at most `PART` characters; nothing if it is blank."""
    text = text.strip()
    start = 0
    while len(text) - start > PART:
        stop = boundary(text, start + PART // 2, start + PART)
        yield Part(text[start:stop], ends=False)
        start = stop
    if text:
        yield Part(text[start:])


def boundary(text: str, start: int, stop: int) -> int:
    """The last place from `start` to `stop` where a text can be cut without a change to its tokens; `stop` if there is
    none.

    Patterns that split texts into words, such as GPT-2's and Llama 3's, begin a word where a space or a line break
    follows a letter or digit.
    """
    for blank in "\n ":
        place = text.rfind(blank, start, stop)
        while place > start:
            if text[place - 1].isalnum():
                return place
            place = text.rfind(blank, start, place)
    return stop


def read_text(
    stream: io.BufferedIOBase, file: DataFile, field: str, seen: Seen, read_bytes: int = READ_BYTES
) -> Iterator[Part]:
    """The texts of a UTF-8 file of any size, separated by `<|endoftext|>`, stripped, without empty ones.

    Raises UsageError, with the offset of the first bad byte, if the file is not UTF-8.
    """
    rest, begun, lines = "", False, 1
    for block in _decoded(stream, file.shown, read_bytes):
        _notice(block, f"{file.name}, line {{}}", lines, seen)
        lines += block.count("\n")
        *whole, rest = (rest + block).split(END_OF_TEXT)
        for text in whole:
            yield from _end(text, begun)
            begun = False
        if len(rest) > 2 * PART:
            rest = rest if begun else rest.lstrip()
        while len(rest) > 2 * PART:
            stop = boundary(rest, PART // 2, PART)
            yield Part(rest[:stop], ends=False)
            rest, begun = rest[stop:], True
    yield from _end(rest, begun)


def _end(text: str, begun: bool) -> Iterator[Part]:
    """The rest of a text, of which some parts may have come before."""
    text = text.rstrip() if begun else text.strip()
    if text or begun:
        yield Part(text)


def _decoded(stream: io.BufferedIOBase, name: str, read_bytes: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines = io.IncrementalNewlineDecoder(None, translate=True)
    offset, first = 0, True
    while True:
        block = stream.read(read_bytes)
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            bad = error.object[error.start]
            raise UsageError(
                f"{name} is not UTF-8 text: byte {offset - pending + error.start} is 0x{bad:02x}. "
                "Save it as UTF-8, or remove that part."
            ) from error
        offset += len(block)
        if first and text:
            text, first = text.removeprefix("\ufeff"), False
        if text := lines.decode(text, final=not block):
            yield text
        if not block:
            return


def _notice(text: str, where: str, line: int, seen: Seen) -> None:
    """Counts the control characters of a text that begins at this line; `{}` in `where` is for the line of the
    first."""
    for match in _CONTROL.finditer(text):
        if not seen.controls:
            name = "a NUL character" if match[0] == "\0" else f"the control character U+{ord(match[0]):04X}"
            seen.first_control = f"{where.format(line + text.count(chr(10), 0, match.start()))} has {name}"
        seen.controls += 1


def cleaned(text: str, where: str, line: int, seen: Seen) -> str:
    """The string of a record with LF line ends, without a byte-order mark and without halves of surrogate pairs."""
    _notice(text, where, line, seen)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").removeprefix("\ufeff")
    return text


def read_json(stream: io.BufferedIOBase, file: DataFile, field: str, seen: Seen) -> Iterator[Part]:
    """The strings, and the field of each record, of JSON values: lines, a list, or several of either.

    Raises UsageError, with the line, for what is not JSON and for a record without the field; for dialogues, with up to
    `MOST_REFUSED` lines at once.
    """
    refused = list[str]()
    for line, value in _json_values(stream, file.shown):
        if field in _DIALOGUES and isinstance(value, dict):
            try:
                yield _dialogue(value, field, f"{file.shown}, line {line}")
            except UsageError as error:
                refused.append(str(error))
            if len(refused) == MOST_REFUSED:
                break
            continue
        text = value.get(field) if isinstance(value, dict) else value
        if isinstance(value, dict) and field not in value:
            fields = _named([*value]) or "none"
            raise UsageError(
                f"{file.shown}, line {line}: the record has no field `{field}`. Its fields are: {fields}. "
                "Choose one with --field."
            )
        if text is None and isinstance(value, dict):
            continue
        if not isinstance(text, str):
            what = f"the field `{field}` is" if isinstance(value, dict) else "this is"
            raise UsageError(
                f"{file.shown}, line {line}: {what} {_KINDS.get(type(text), 'null')}, not a string. "
                "Each record needs one string; choose its field with --field."
            )
        yield from in_parts(cleaned(text, f"{file.name}, line {line}", 0, seen))
    if refused:
        lines = "this line" if len(refused) == 1 else "these lines"
        raise UsageError("\n".join([*refused, f"Repair or remove {lines}."]))


def _dialogue(record: dict[str, Any], field: str, where: str) -> Part:
    """A dialogue, or a pair of them, as JSON. Raises UsageError if the record holds none."""
    try:
        return Part(json.dumps(stored_in(record, field), ensure_ascii=False), where=where)
    except MalformedError as error:
        raise UsageError(f"{where}: the {'pair' if field == PAIRS else 'dialogue'} {error}.") from error
    except KeyError as error:
        raise UsageError(
            f"{where}: the record has no field `{error.args[0]}`. Its fields are: {_named([*record]) or 'none'}. "
            f"{_DIALOGUES[field]}."
        ) from error


def _named(fields: list[str]) -> str:
    """The first of these names, each cut to a length that fits into a message."""
    return ", ".join(name[:40] for name in fields[:10])


def _json_values(stream: io.BufferedIOBase, name: str) -> Iterator[tuple[int, Any]]:
    """The values of a file, those of a list one by one, each with its line. Holds no more than a few values."""
    blocks = _decoded(stream, name, READ_BYTES)
    decode = json.JSONDecoder().raw_decode
    blank = re.compile(r"\s*").match
    text, place, line, in_list, after_value = next(blocks, ""), 0, 1, False, False
    while True:
        skipped = blank(text, place)
        assert skipped is not None
        line += text.count("\n", place, skipped.end())
        place = skipped.end()
        if place == len(text):
            if more := _extended("", blocks, READ_BYTES):
                text, place = more, 0
                continue
            if in_list:
                raise _not_json(name, line, "the list is not closed; the file may be incomplete")
            return
        mark = text[place]
        if in_list and mark in ",]":
            in_list, after_value, place = mark == ",", False, place + 1
            continue
        if in_list and after_value:
            raise _not_json(name, line, f"a comma is missing before {text[place : place + 20]!r}")
        if mark == "[" and not in_list:
            in_list, after_value, place = True, False, place + 1
            continue
        try:
            value, stop = decode(text, place)
        except (ValueError, RecursionError) as error:
            text, place = _completed(text[place:], blocks, name, line, error), 0
            continue
        may_continue = stop == len(text) and not isinstance(value, str | dict | list)  # as a number
        if may_continue and (more := _extended(text[place:], blocks, READ_BYTES)):
            text, place = more, 0
            continue
        yield line, value
        line += text.count("\n", place, stop)
        place, after_value = stop, True


def _extended(text: str, blocks: Iterator[str], wanted: int) -> str:
    """Returns `text` with `wanted` more characters or those that are left in `blocks`; empty if none are."""
    more, size = [text], 0
    for block in blocks:
        more.append(block)
        size += len(block)
        if size >= wanted:
            break
    return "".join(more) if size else ""


def _completed(text: str, blocks: Iterator[str], name: str, line: int, error: ValueError | RecursionError) -> str:
    """Returns `text` with more of `blocks`, if the value at its beginning may be cut off. Else raises UsageError.

    `error` is what decoding it raised, and `line` is its line in the file.
    """
    if isinstance(error, RecursionError):
        raise _not_json(name, line, "this value is nested too deeply") from error
    if not isinstance(error, json.JSONDecodeError):  # Python's, for a number of thousands of digits
        raise _not_json(name, line, "this number is too long") from error
    held = len(text)
    place = error.pos - len(error.doc) + held  # in the text, with which what was decoded ends
    # A value that the buffer cuts off may be complete in the file. Reading twice as much each time is linear in all.
    if place >= held - 16 or error.msg.startswith("Unterminated"):
        if held > MOST_RECORD:
            reason = f"this value has more than {MOST_RECORD:,} characters, the limit; it may be incomplete"
            raise _not_json(name, line, reason) from error
        if more := _extended(text, blocks, min(max(held, READ_BYTES), MOST_RECORD + 1 - held)):
            return more
    line += text[:place].rstrip().count("\n")  # a value that a line leaves open is noticed in the next one
    raise _not_json(name, line, f"this is not JSON ({error.msg.lower()})") from error


def _not_json(name: str, line: int, reason: str) -> UsageError:
    """Returns the error at `line` of the file `name`, which should be JSON."""
    return UsageError(f"{name}, line {line}: {reason}. Each line must be one JSON value, or the file one list of them.")


def read_csv(stream: io.BufferedIOBase, file: DataFile, field: str, seen: Seen) -> Iterator[Part]:
    """The column `field` of a table with a header, separated by commas, semicolons or tabs.

    Raises UsageError if there is no such column, and with the line for a row that is not valid.
    """
    lines = _Lines(stream, file.shown)
    rows, delimiter = _rows(lines, file, field)
    limit = csv.field_size_limit(MOST_RECORD)  # of the whole process
    try:
        header = [name.strip() for name in next(rows, [])]
        if field not in header:
            columns = _named(header) or "none"
            raise UsageError(
                f"{file.shown} has no column `{field}`. Its columns are: {columns}. Choose one with --field."
            )
        column = header.index(field)
        lines.in_row = 0
        for row in rows:
            lines.in_row = 0
            if not row:
                continue
            if len(row) <= column:
                raise UsageError(
                    f"{file.shown}, line {rows.line_num}: the row has {counted(len(row), 'column')}, and the header "
                    f"{len(header)}. Quote texts that have {'tabs' if delimiter == chr(9) else repr(delimiter)} or "
                    "line breaks."
                )
            yield from in_parts(cleaned(row[column], f"{file.name}, line {rows.line_num}", 0, seen))
    except csv.Error as error:
        raise UsageError(f"{file.shown}, line {rows.line_num}: this is not CSV ({error}). Close each quote.") from error
    finally:
        csv.field_size_limit(limit)


def _rows(lines: Iterator[str], file: DataFile, field: str) -> tuple[Any, str]:
    """A csv.reader, with the delimiter that makes `field` a column of the first line."""
    first = next(lines, "")
    usual = "\t" if file.suffixes[0] in (".tsv", ".tab") else ","
    delimiter = next(
        (each for each in dict.fromkeys((usual, ",", ";", "\t"))
         if field in [name.strip(' "\r\n') for name in first.split(each)]), usual,
    )  # fmt: skip

    def all_lines() -> Iterator[str]:
        yield first
        yield from lines

    return csv.reader(all_lines(), delimiter=delimiter, strict=True), delimiter


class _Lines(Iterator[str]):
    """The lines of a table with their ends. Raises UsageError where a row, which may have several, is too long to be
    held."""

    def __init__(self, stream: io.BufferedIOBase, name: str):
        self._name, self._number = name, 0
        self.in_row = 0  # characters of the present row so far; the reader of the rows resets it
        self._lines = self._split(_decoded(stream, name, READ_BYTES))

    def __next__(self) -> str:
        line = next(self._lines)
        self._number += 1
        self.in_row += len(line)
        if self.in_row > MOST_RECORD:
            raise self._too_long(self._number)
        return line

    def _split(self, blocks: Iterator[str]) -> Iterator[str]:
        rest = ""
        for block in blocks:
            *whole, rest = (rest + block).split("\n")
            yield from (line + "\n" for line in whole)
            if self.in_row + len(rest) > MOST_RECORD:
                raise self._too_long(self._number + 1)
        if rest:
            yield rest

    def _too_long(self, number: int) -> UsageError:
        return UsageError(
            f"{self._name}, line {number}: the row has more than {MOST_RECORD:,} characters, the limit. Close each "
            "quote, or divide the text among several rows."
        )


def read_parquet(stream: io.BufferedIOBase, file: DataFile, field: str, seen: Seen) -> Iterator[Part]:
    """The column `field` of a Parquet file. Raises UsageError if the file is not Parquet or has no such column."""
    require_pyarrow(file.shown, "Parquet")
    from pyarrow import ArrowException, parquet  # slow to import, and rarely needed

    def too_long(where: str) -> UsageError:
        return UsageError(
            f"{file.shown}: a text {where} has more than {MOST_RECORD:,} characters, the limit. Divide it among "
            "several rows."
        )

    try:
        with parquet.ParquetFile(stream) as table:
            names, rows, form = table.schema_arrow.names, 0, table.metadata
            if field not in names:
                raise UsageError(
                    f"{file.shown} has no column `{field}`. Its columns are: {_named(names)}. Choose one with --field."
                )
            for number in range(form.num_row_groups):  # before any of them is held
                group = form.row_group(number)
                sizes = [group.column(index) for index in range(group.num_columns)]
                size = sum(each.total_uncompressed_size for each in sizes if each.path_in_schema.split(".")[0] == field)
                if size > MOST_RECORD * max(group.num_rows, 1):
                    raise too_long(f"in row group {number + 1}")
            for batch in table.iter_batches(batch_size=1024, columns=[field]):
                for text in batch.column(0).to_pylist():
                    rows += 1
                    if text is not None and not isinstance(text, str):
                        raise UsageError(
                            f"{file.shown}: the column `{field}` does not hold strings. Choose one with --field."
                        )
                    if text and len(text) > MOST_RECORD:
                        raise too_long(f"in row {rows}")
                    yield from in_parts(cleaned(text or "", f"{file.name}, row {rows}", 0, seen))
    except ArrowException as error:
        raise UsageError(f"{file.shown} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


READERS: dict[str, Callable[[io.BufferedIOBase, DataFile, str, Seen], Iterator[Part]]] = {
    "text": read_text,
    "JSON": read_json,
    "CSV": read_csv,
    "Parquet": read_parquet,
}


def read_file(file: DataFile, field: str, seen: Seen) -> Iterator[Part]:
    """The texts of one file, in its format. Raises UsageError, which says what to do, if it cannot be read."""
    try:
        with file.open() as stored:
            counting = io.BufferedReader(Counted(stored, seen), BUFFER)
            buffered = file.decompressed(counting)
            head = buffered.peek(1)
            form = file.format(head, field)
            if field in _DIALOGUES and form == "text":
                raise UsageError(f"{file.shown} is a text. {_DIALOGUES[field]}, as JSON, one on each line.")
            if form == "Parquet" and file.suffixes[1]:
                raise UsageError(
                    f"{file.shown} is compressed twice: Parquet compresses its columns. Decompress the file."
                )
            yield from READERS[form](buffered, file, field, seen)
    except (EOFError, OSError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise UsageError(f"{file.shown} cannot be read: {reason}.") from error
