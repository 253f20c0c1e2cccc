"""Every story of a file is read, whatever its size; what is no story is said in a sentence."""

import io
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from harness.data.sources import _split, open_source, read_text
from harness.data.tokenizer import END_OF_TEXT
from harness.errors import UsageError


@given(
    st.lists(
        st.text(alphabet="ab<|endoftext>é ", max_size=30).filter(lambda text: END_OF_TEXT not in text), max_size=8
    ),
    st.integers(1, 50),
)
def test_stories_across_the_edges_of_a_read_are_whole(texts: list[str], read_bytes: int) -> None:
    data = END_OF_TEXT.join(texts).encode()
    parts = list(_split(io.BytesIO(data), END_OF_TEXT.encode(), read_bytes))
    assert b"".join(part for _, part in parts) == data.replace(END_OF_TEXT.encode(), b"")
    assert [part for _, part in parts] == data.split(END_OF_TEXT.encode())
    assert all(data[offset : offset + len(part)] == part for offset, part in parts)


def test_text_gives_stripped_stories_and_no_empty_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"\nOne.\n{END_OF_TEXT}\n\n{END_OF_TEXT}Two\nlines. {END_OF_TEXT}")
    assert list(read_text(path, read_bytes=7)) == ["One.", "Two\nlines."]


def test_bytes_that_are_no_utf8_are_named_by_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"Good." + END_OF_TEXT.encode() + b"Bad \xff here")
    with pytest.raises(UsageError, match=r"byte 22 is 0xff"):
        list(read_text(path, read_bytes=4))
    assert path.read_bytes()[22] == 0xFF


def test_parquet_gives_its_text_column(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"text": ["One.", None, " ", "Two."], "id": [1, 2, 3, 4]}), tmp_path / "a.parquet")
    assert [text for _, text in open_source(str(tmp_path / "a.parquet"), 0.5).read()] == ["One.", "Two."]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: None, "There is no file"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_bytes(b"not parquet"), "cannot be read as Parquet"),
        (lambda path: parquet.write_table(pa.table({"story": ["One."]}), path), "no column `text`, but story"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, make, sentence: str) -> None:
    path = tmp_path / "a.parquet"
    make(path)
    with pytest.raises(UsageError, match=sentence):
        list(open_source(str(path), 0.1).read())


def test_validation_stories_are_others_and_the_first_is_among_them() -> None:
    labelled = [item for item, _ in zip(open_source("pocket", 0.02).read(), range(200), strict=False)]
    held = {text for kept, text in labelled if kept}
    assert len(held) == 4
    assert not held & {text for kept, text in labelled if not kept}


def test_the_key_changes_with_the_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One.")
    before = open_source(str(path), 0.1).key
    path.write_text("Two.")
    assert open_source(str(path), 0.1).key != before
    assert open_source(str(path), 0.2).key != open_source(str(path), 0.1).key


def test_the_first_stories_of_the_embedded_ones() -> None:
    some, more = (open_source(f"pocket:{count}", 0.5) for count in (4, 6))
    assert list(some.read()) == list(more.read())[:4]
    assert len({some.key, more.key, open_source("pocket", 0.5).key}) == 3
    for spec in ("pocket:", "pocket:1", "pocket:many"):
        with pytest.raises(UsageError, match="write pocket, or pocket:N"):
            open_source(spec, 0.5)
