"""Sources read every story of a file of any size, and report files that they cannot read."""

import io
import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from harness.data.sources import _split, open_source, read_text
from harness.data.tokenizer_json import END_OF_TEXT
from harness.errors import UsageError

pytestmark = pytest.mark.fast


@given(
    st.lists(
        st.text(alphabet="ab<|endoftext>é ", max_size=30).filter(lambda text: END_OF_TEXT not in text), max_size=8
    ),
    st.integers(1, 50),
)
def test_stories_that_span_several_reads_are_complete(texts: list[str], read_bytes: int) -> None:
    data = END_OF_TEXT.join(texts).encode()
    parts = list(_split(io.BytesIO(data), END_OF_TEXT.encode(), read_bytes))
    assert b"".join(part for _, part in parts) == data.replace(END_OF_TEXT.encode(), b"")
    assert [part for _, part in parts] == data.split(END_OF_TEXT.encode())
    assert all(data[offset : offset + len(part)] == part for offset, part in parts)


def test_text_stories_are_stripped_and_not_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"\nOne.\n{END_OF_TEXT}\n\n{END_OF_TEXT}Two\nlines. {END_OF_TEXT}")
    assert list(read_text(path, read_bytes=7)) == ["One.", "Two\nlines."]


def test_bytes_that_are_not_utf8_are_reported_with_their_offset(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"Good." + END_OF_TEXT.encode() + b"Bad \xff here")
    with pytest.raises(UsageError, match=r"byte 22 is 0xff"):
        list(read_text(path, read_bytes=4))
    assert path.read_bytes()[22] == 0xFF


def test_parquet_stories_come_from_the_text_column(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"text": ["One.", None, " ", "Two."], "id": [1, 2, 3, 4]}), tmp_path / "a.parquet")
    assert [text for _, text in open_source(str(tmp_path / "a.parquet"), 0.5).read()] == ["One.", "Two."]


@pytest.mark.parametrize("spec", ["tinystories", "a.parquet"])
def test_parquet_needs_a_library_that_not_everybody_has(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is missed before anything is downloaded."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.parquet").touch()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs a library for Parquet.*pip install .*pyarrow"):
        open_source(spec, 0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "There is no file"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_bytes(b"not parquet"), "cannot be read as Parquet"),
        (
            lambda path: parquet.write_table(pa.table({"story": ["One."]}), path),
            "no column `text`. Its columns are: story",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path, make, message: str) -> None:
    path = tmp_path / "a.parquet"
    make(path)
    with pytest.raises(UsageError, match=message):
        list(open_source(str(path), 0.1).read())


def test_one_long_text_is_cut_at_a_line(tmp_path: Path) -> None:
    """Tiny Shakespeare, for example, has no `<|endoftext|>`."""
    lines = [f"KING: line {number} of the play.\n" for number in range(100)]
    path = tmp_path / "play.txt"
    path.write_text("".join(lines))
    (in_train, train), (in_validation, validation) = open_source(str(path), 0.1).read()
    assert (in_train, in_validation) == (False, True)
    assert validation.startswith("KING: line ")
    assert train + validation == "".join(lines).strip()
    assert 0.1 <= len(validation) / len(train + validation) < 0.12


def test_training_and_validation_stories_are_disjoint() -> None:
    labeled = list(itertools.islice(open_source("pocket", 0.02).read(), 200))
    validation = {text for in_split, text in labeled if in_split}
    assert len(validation) == 4
    assert not validation & {text for in_split, text in labeled if not in_split}


@pytest.mark.parametrize("fraction", [0.02, 0.03, 0.1, 0.3, 0.4, 0.5, 0.9])
def test_the_validation_split_has_the_fraction_that_was_asked_for(fraction: float) -> None:
    labels = [in_split for in_split, _ in open_source("pocket:1000", fraction).read()]
    assert sum(labels) == round(1000 * fraction)
    assert labels[0], "the first story is in the validation split"


def test_a_fraction_of_one_nth_takes_every_nth_story() -> None:
    labels = [in_split for in_split, _ in open_source("pocket:200", 0.02).read()]
    assert [index for index, in_split in enumerate(labels) if in_split] == [0, 50, 100, 150]


def test_the_key_changes_with_the_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One.")
    before = open_source(str(path), 0.1).key
    path.write_text("Two.")
    assert open_source(str(path), 0.1).key != before
    assert open_source(str(path), 0.2).key != open_source(str(path), 0.1).key


def test_pocket_n_is_the_first_n_stories() -> None:
    four, six = (open_source(f"pocket:{count}", 0.5) for count in (4, 6))
    assert list(four.read()) == list(six.read())[:4]
    assert len({four.key, six.key, open_source("pocket", 0.5).key}) == 3
    for spec in ("pocket:", "pocket:1", "pocket:many"):
        with pytest.raises(UsageError, match="write pocket, or pocket:N"):
            open_source(spec, 0.5)
