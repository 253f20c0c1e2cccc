"""Files that have no end where a record should have one, or are nested without end: one sentence, in bounded memory."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

from harness.data import formats
from harness.data.formats import Part, Seen, read_csv, read_file, read_json, read_text
from harness.data.locate import DataFile, find
from harness.errors import UsageError

MOST = 1 << 22  # characters of a record, in these tests
BLOCK = 1 << 16


class Endless(io.RawIOBase):
    """A file with this beginning, and then the same for ever. Fails the test that reads much more than the limit."""

    def __init__(self, beginning: bytes, repeated: bytes):
        self._rest, self._repeated, self.read_bytes = beginning, repeated * (BLOCK // len(repeated)), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        self._rest = self._rest or self._repeated
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        self.read_bytes += len(part)
        assert self.read_bytes < 3 * MOST, "more was read than is held"
        return len(part)


def parts(reader: Callable[..., Iterator[Part]], name: str, stream: io.RawIOBase) -> list[Part]:
    file = DataFile(fsspec.filesystem("memory"), name, name, 0)
    return list(reader(io.BufferedReader(stream), file, "text", Seen()))


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MOST_RECORD", MOST)


@pytest.mark.parametrize(
    ("reader", "beginning", "repeated", "sentence"),
    [
        (read_json, b'{"text": "One."}\n{"text": "', b"a", "file, line 2: this value has more than 4,194,304 "
            "characters"),
        (read_json, b'["One.",\n"', b"a", "file, line 2: this value has more than"),
        (read_json, b'{"text": "', b"\\n", "file, line 1: this value has more than"),
        (read_json, b'{"more": [', b"1,", "file, line 1: this value has more than"),
        (read_json, b"{", b'"a":1,', "file, line 1: this value has more than"),
        (read_json, b"[1, ", b"9", "file, line 1: this (number is too long|value has more)|this is a number"),
        (read_json, b"\n\n", b"[", "file, line 3: this value is nested too deeply"),
        (read_json, b'{"text": "One.", "more": ', b"[", "file, line 1: this value is nested too deeply"),
        (read_json, b'{"text": "One."}\n', b"[", "file, line 2: this value is nested too deeply"),
        (read_json, b"\n", b'{"a":', "file, line 2: this value is nested too deeply"),
        (read_csv, b"text\nOne.\n", b"a", "file, line 3: the row has more than 4,194,304 characters"),
        (read_csv, b"id,text\n1,One.\n2,", b"a,", "file, line 3: the row has more than"),
        (read_csv, b'id,text\n1,"', b"a", "file, line 2: the row has more than"),
        (read_csv, b'id,text\n1,"', b"a" * 127 + b"\n", "more than 4,194,304 characters, the limit. Close each quote"),
        (read_csv, b"id,text\n1,", b'"' + b"a" * 123 + b'\n",', "the row has more than 4,194,304 characters"),
        (read_csv, b"", b"text,", "file, line 1: the row has more than"),
    ],
)  # fmt: skip
def test_a_record_without_an_end_is_refused_at_the_limit(
    reader: Callable[..., Iterator[Part]], beginning: bytes, repeated: bytes, sentence: str
):
    with pytest.raises(UsageError, match=sentence) as error:
        parts(reader, "file", Endless(beginning, repeated))
    assert len(str(error.value)) < 400


def test_many_records_and_a_text_of_any_size_are_no_record_without_an_end():
    most = MOST // 8
    lines = b'{"text": "' + b"a" * most + b'"}\n'
    assert sum(len(part.text) for part in parts(read_json, "file", io.BytesIO(lines * 12))) == 12 * most
    both = b'"One."\n["Two.", "Three."]\n[]\n{"text": "Four."}'
    assert [part.text for part in parts(read_json, "file", io.BytesIO(both))] == ["One.", "Two.", "Three.", "Four."]
    rows = b"text,id\n" + (b'"' + (b"a" * 127 + b"\n") * (most // 128) + b'",1\n') * 12
    assert sum(part.ends for part in parts(read_csv, "file", io.BytesIO(rows))) == 12
    assert sum(len(part.text) for part in parts(read_text, "file", io.BytesIO(b"a" * 2 * MOST))) == 2 * MOST


def test_names_of_fields_are_cut_in_a_message():
    with pytest.raises(UsageError, match=r"Its fields are: a{40}, b\. Choose") as error:
        parts(read_json, "file", io.BytesIO(b'{"' + b"a" * 100_000 + b'": 1, "b": 2}'))
    assert len(str(error.value)) < 400
    with pytest.raises(UsageError, match=r"Its columns are: a{40}, b\. Choose"):
        parts(read_csv, "file", io.BytesIO(b"a" * 100_000 + b",b\n1,2\n"))


def test_a_text_of_a_parquet_file_has_the_same_limit(tmp_path: Path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    def read(*texts: str) -> list[Part]:
        parquet.write_table(pyarrow.table({"text": list(texts)}), tmp_path / "a.parquet")
        return list(read_file(find(str(tmp_path / "a.parquet")).files[0], "text", Seen()))

    long = "a" * (MOST + 1)
    assert "".join(part.text for part in read("One.", long[:-1])) == "One." + long[:-1]
    with pytest.raises(UsageError, match=r"a.parquet: a text in row 2 has more than 4,194,304 characters, the limit"):
        read("One.", long)
    with pytest.raises(UsageError, match=r"a.parquet: a text in row group 1 has more than"):
        read(long)
