"""Sources read every text of a file of any size and format, and say of files that they cannot read what to do."""

import gzip
import hashlib
import io
import itertools
import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from harness.data import formats
from harness.data.formats import Part, Seen, boundary, read_text
from harness.data.locate import find
from harness.data.sources import open_source, short_name, split_spec
from harness.data.tokenizer import get_tokenizer
from harness.data.tokenizer_json import END_OF_TEXT
from harness.errors import UsageError

pytestmark = pytest.mark.fast

TEXTS = ["One\nand a half.", 'Zwei, drei; "vier".', "一二三", "Five."]


def texts(spec: object, field: str = "text") -> list[str]:
    """The texts of a source; parts of one text are joined."""
    whole, begun = [], ""
    for part in open_source(str(spec), 0.1, field).read(Seen()):
        begun += part.text
        if part.ends:
            whole, begun = [*whole, begun], ""
    assert not begun
    return whole


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("pocket", "pocket"),
        ("pocket:300", "pocket"),
        ("books/mine.txt", "mine"),
        ("texts/", "texts"),
        ("texts/*.jsonl.gz", "texts"),
        ("problems/*/page.md", "page"),
        ("s3://bucket/web.parquet", "web"),
        ("web.jsonl:0.7,books.txt:0.3", "web-books"),
        ("my notes (2).txt", "my-notes-2"),
        (".hidden.csv.zst", "hidden"),
        ("诗.txt", "诗"),
        ("../*.txt", ""),
    ],
)
def test_data_have_a_short_name(spec: str, name: str) -> None:
    assert short_name(spec) == name


def csv_text(delimiter: str = ",", end: str = "\r\n") -> str:
    quoted = (text.replace('"', '""') for text in TEXTS)
    return end.join([f"id{delimiter}text", *(f'{index}{delimiter}"{text}"' for index, text in enumerate(quoted))]) + end


WRITTEN = {
    "a.txt": END_OF_TEXT.join(TEXTS),
    "b.jsonl": "".join(json.dumps({"id": 1, "text": text}) + "\n" for text in TEXTS),
    "c.ndjson": "\n\n".join(json.dumps(text, ensure_ascii=False) for text in TEXTS),
    "d.json": json.dumps([{"text": text, "label": [1, {"a": None}]} for text in TEXTS], indent=2),
    "e.json": json.dumps(TEXTS),
    "f.json": "".join(json.dumps({"text": text}, indent=1) for text in TEXTS),
    "g.csv": csv_text(),
    "h.csv": csv_text(";", "\n"),
    "i.tsv": csv_text("\t"),
    "j": json.dumps([{"text": text} for text in TEXTS]),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("read_bytes", [3, 1 << 20])
def test_every_format_gives_the_same_texts(
    name: str, suffix: str, read_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "READ_BYTES", read_bytes)
    data = b"\xef\xbb\xbf" + WRITTEN[name].encode()
    if suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    elif suffix == ".zst":
        data = pa.compress(data, "zstd", asbytes=True)
    path = tmp_path / (name + suffix)
    path.write_bytes(data)
    assert texts(path) == TEXTS


def test_parquet_texts_come_from_the_text_column(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"text": ["One.", None, " ", "Two."], "id": [1, 2, 3, 4]}), tmp_path / "a.parquet")
    assert texts(tmp_path / "a.parquet") == ["One.", "Two."]


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_the_field_can_be_chosen(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "a.jsonl":
        path.write_text('{"text": "no", "story": "yes"}\n{"text": "no", "story": null}')
    elif name == "a.csv":
        path.write_text("text,story\nno,yes\n")
    else:
        parquet.write_table(pa.table({"text": ["no"], "story": ["yes"]}), path)
    assert texts(path, "story") == ["yes"]
    with pytest.raises(UsageError, match=r"no (field|column) `body`. Its (fields|columns) are: text, story. .*--field"):
        texts(path, "body")


def test_a_folder_and_a_pattern_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name, text in {
        "b.txt": "B",
        "a.jsonl": '"A"',
        "sub/c.txt": "C",
        ".hidden.txt": "no",
        "picture.png": "no",
    }.items():
        (tmp_path / name).write_text(text)
    assert texts(tmp_path) == ["A", "B", "C"]
    assert (
        open_source(str(tmp_path), 0.1).note
        == f"Files of {tmp_path} that are not text were left out: {tmp_path}/picture.png."
    )
    assert texts(tmp_path / "*.txt") == ["B"]
    assert texts(f"file://{tmp_path}/b.txt") == ["B"]
    (tmp_path / "a*.txt").write_text("star")  # a name that is a pattern, too
    assert texts(tmp_path / "a*.txt") == ["star"]


def test_other_file_systems_are_read_through_fsspec() -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    with memory.open("/corpus/a.jsonl.gz", "wb") as file:
        file.write(gzip.compress(b'{"text": "far away"}', mtime=0))
    assert texts("memory://corpus") == ["far away"]
    assert texts("memory://corpus/*.gz") == ["far away"]
    before = open_source("memory://corpus", 0.1).key
    with memory.open("/corpus/a.jsonl.gz", "wb") as file:
        file.write(gzip.compress(b'{"text": "somewhere else"}', mtime=0))
    assert open_source("memory://corpus", 0.1).key != before


REFUSED: list[tuple[str, bytes, str]] = [
    ("a.txt", b'{"text": "One."}\n', r"looks like JSON and would be read as text. Rename it to .jsonl."),
    ("a.txt", b'[{"text": "One."}]', r"looks like JSON and would be read as text. Rename it to .jsonl."),
    ("a.md", b'\xef\xbb\xbf["One."]', r"looks like JSON"),
    ("a.txt", b"id,text\n1,One.\n", r"looks like CSV and would be read as text. Rename it to .csv."),
    ("a.txt", b"PAR1\0\0", r"looks like Parquet and would be read as text. Rename it to .parquet."),
    ("a.txt", gzip.compress(b"One.", mtime=0), r"looks like gzip and would be read as text. Add .gz to its name."),
    ("a.txt.gz", b"One.", r"a.txt.gz is not compressed with gzip. Rename it without .gz."),
    ("a.txt.gz", gzip.compress(gzip.compress(b"One.", mtime=0), mtime=0), r"looks like gzip .* Decompress it first."),
    ("a.txt.gz", gzip.compress(b"One. " * 999, mtime=0)[:-20], r"a.txt.gz cannot be read: "),
    ("a.txt", b"%PDF-1.7", r"looks like PDF and would be read as text. Extract its text first."),
    ("a.docx", b"PK\3\4", r"looks like a zip archive and would be read as text. Extract its text first."),
    ("a.txt", b"<!DOCTYPE html><p>One.", r"looks like HTML"),
    ("a.txt", "One.".encode("utf-16"), r"is UTF-16 or binary, not UTF-8. Save it as UTF-8."),
    ("a.txt", "One, two.".encode("utf-16-le"), r"is UTF-16 or binary"),
    (
        "a.jsonl",
        b"Once upon a time",
        r"a.jsonl is not JSON: it begins with 'Once upon a time'. If it is text, rename it",
    ),
    ("a.csv", b'{"text": "One."}', r"looks like JSON and would be read as CSV, as .csv says. Rename it to .jsonl."),
    ("a.json", b"id,text\n1,One.\n", r"looks like CSV and would be read as JSON, as .json says."),
    (
        "a.jsonl",
        b'{"text": "One."}\n{"text": "Two.}\n',
        r"a.jsonl, line 2: this is not JSON \(.*\). Each line must be one",
    ),
    ("a.jsonl", b'{"text": 1}', r"line 1: the field `text` is a number, not a string"),
    ("a.jsonl", b'{"messages": []}', r"line 1: the record has no field `text`. Its fields are: messages. Choose one"),
    ("a.json", b'[{"text": "One."}', r"line 1: the list is not closed; the file may be incomplete"),
    ("a.json", b'["One." "Two."]', r"line 1: a comma is missing before"),
    ("a.json", b'[["One."]]', r"line 1: this is a list, not a string"),
    (
        "a.csv",
        b"id,story\n1,One.\n",
        r"a.csv has no column `text`. Its columns are: id, story. Choose one with --field.",
    ),
    ("a.csv", b"id,text\n1\n", r"a.csv, line 2: the row has 1 column, and the header 2"),
    ("a.csv", b'id,text\n1,"One\n', r"a.csv, line 2: this is not CSV \(.*\). Close each quote."),
    ("a.parquet", b"not parquet", r"cannot be read as Parquet"),
]


@pytest.mark.parametrize(("name", "content", "message"), REFUSED)
def test_what_is_not_what_its_name_says_is_refused_in_a_sentence(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message) as raised:
        texts(tmp_path / name)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere.txt", r"There is no file nowhere.txt. --data takes pocket, pocket:N, tinystories, or a text"),
        ("*.txt", r"No file matches \*.txt."),
        ("empty", r"The folder empty has no files of text: their names end in .txt"),
        ("nothing://bucket/a.txt", r"--data nothing://bucket/a.txt is not valid: "),
        ("s3://bucket/a.txt", r"needs a package for this kind of URL: run `.*install .*s3fs`"),
    ],
)
def test_a_source_that_is_not_there_is_a_usage_error(
    spec: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=message):
        open_source(spec, 0.5)


@pytest.mark.parametrize("spec", ["tinystories", "a.parquet", "a.txt.zst"])
def test_parquet_needs_a_library_that_not_everybody_has(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is missed before anything is downloaded."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / spec).touch()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs a library for (Parquet|Zstandard).*pip install .*pyarrow"):
        open_source(spec, 0.5)


def read(data: bytes, read_bytes: int, seen: Seen | None = None) -> list[Part]:
    with_name = find(__file__).files[0]
    return list(read_text(io.BytesIO(data), with_name, "text", seen or Seen(), read_bytes))


@given(
    st.lists(
        st.text(alphabet="ab<|endoftext>é ", max_size=30).filter(lambda text: END_OF_TEXT not in text), max_size=8
    ),
    st.integers(1, 50),
)
def test_texts_that_span_several_reads_are_complete(stories: list[str], read_bytes: int) -> None:
    data = END_OF_TEXT.join(stories)
    wanted = [text.strip() for text in data.split(END_OF_TEXT)]
    assert [part.text for part in read(data.encode(), read_bytes)] == [text for text in wanted if text]


def test_bytes_that_are_not_utf8_are_reported_with_their_offset() -> None:
    data = b"Good. \xc3\xa9" + END_OF_TEXT.encode() + b"Bad \xff here"
    for read_bytes in (1, 4, 100):
        with pytest.raises(UsageError, match=rf"byte {data.index(0xFF)} is 0xff. Save it as UTF-8"):
            read(data, read_bytes)


def test_line_ends_and_byte_order_marks_are_normalized_and_control_characters_counted() -> None:
    seen = Seen()
    data = "\ufeffOne.\r\nTwo.\rThree.\0\x1b\tFour.\0".encode()
    for read_bytes in (1, 100):
        seen = Seen()
        assert [part.text for part in read(data, read_bytes, seen)] == ["One.\nTwo.\nThree.\0\x1b\tFour.\0"]
        assert seen.note() == (
            "test_sources.py, line 3 has a NUL character; 3 control characters in all are trained on like others. "
            "Remove them if the file is damaged."
        )
    assert not Seen().note()


def test_a_huge_text_comes_in_parts_that_have_the_same_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "PART", 200)
    tokenizer = get_tokenizer("pocket-2k")
    text = "\n\n".join(f'The cat  saw {n} balls.\n  "Why {n}?"\tNobody knew, and\nit didn\'t say.' for n in range(200))
    parts = read(f"\n {text} \n\n{END_OF_TEXT}After it.".encode(), 64)
    *body, end, after = parts
    assert after == Part("After it.")
    assert (end.ends, {part.ends for part in body}, max(len(part.text) for part in body) <= 200) == (
        True,
        {False},
        True,
    )
    assert "".join(part.text for part in parts[:-1]) == text
    ids = [token for part in parts[:-1] for token in tokenizer.encode_ordinary(part.text)]
    assert ids == tokenizer.encode_ordinary(text)
    assert boundary("unbroken" * 100, 100, 200) == 200


def test_training_and_validation_stories_of_the_generator_are_disjoint() -> None:
    labeled = list(itertools.islice(open_source("pocket", 0.02).read(Seen()), 200))
    validation = {part.text for part in labeled if part.in_validation}
    assert len(validation) == 4
    assert not validation & {part.text for part in labeled if not part.in_validation}


@pytest.mark.parametrize("fraction", [0.02, 0.03, 0.1, 0.3, 0.4, 0.5, 0.9])
def test_the_validation_split_of_the_generator_has_the_fraction_that_was_asked_for(fraction: float) -> None:
    labels = [part.in_validation for part in open_source("pocket:1000", fraction).read(Seen())]
    assert sum(map(bool, labels)) == round(1000 * fraction)
    assert labels[0], "the first story is in the validation split"


def test_the_key_changes_with_the_content(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "One."}')
    before = open_source(str(path), 0.1).key
    assert open_source(str(path), 0.2).key != before
    assert open_source(str(path), 0.1, "story").key != before
    path.write_text('{"text": "Two."}')
    assert open_source(str(path), 0.1).key != before


def test_pocket_n_is_the_first_n_stories() -> None:
    four, six = (open_source(f"pocket:{count}", 0.5) for count in (4, 6))
    assert list(four.read(Seen())) == list(six.read(Seen()))[:4]
    assert len({four.key, six.key, open_source("pocket", 0.5).key}) == 3
    for spec in ("pocket:", "pocket:1", "pocket:many"):
        with pytest.raises(UsageError, match="write pocket, or pocket:N"):
            open_source(spec, 0.5)


@pytest.mark.parametrize(
    ("spec", "sources"),
    [
        ("a.txt", [("a.txt", None)]),
        ("s3://bucket/a.txt", [("s3://bucket/a.txt", None)]),
        ("a.jsonl:0.7,b.txt:0.3", [("a.jsonl", 0.7), ("b.txt", 0.3)]),
        ("a.txt, s3://bucket/b.txt", [("a.txt", None), ("s3://bucket/b.txt", None)]),
        ("pocket:3000,b.txt", [("pocket:3000", None), ("b.txt", None)]),
        ("pocket:3000:2,pocket:0.5", [("pocket:3000", 2.0), ("pocket", 0.5)]),
    ],
)
def test_sources_may_have_weights(spec: str, sources: list[tuple[str, float | None]]) -> None:
    assert list(split_spec(spec)) == sources


def test_weights_are_given_to_all_sources_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"give b.txt a weight, too, such as b.txt:0.5"):
        split_spec("a.txt:0.7,b.txt")
    with pytest.raises(UsageError, match=r"a weight must be more than 0"):
        split_spec("a.txt:0,b.txt:1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,b.txt").touch()
    assert split_spec("a,b.txt") == (("a,b.txt", None),)


@pytest.mark.parametrize(
    ("spec", "key", "digest"),
    [
        ("pocket:2000", "d4dbd6485db832b5", "cb9c85a4fef2f52b"),
        ("arithmetic:2000", "db22c2fd3cd02d96", "96e1b8a2ab1893bc"),
        ("tools:2000", "9ea1e80bccdf5c54", "7cc45b125af6432e"),
    ],
)
def test_a_generator_makes_the_same_texts_under_the_same_key(spec: str, key: str, digest: str) -> None:
    """If this fails because texts have changed, change VERSION in the module of the generator, and the values here.

    By the key, a run that was trained on other texts is refused.
    """
    source = open_source(spec, 0.02)
    assert (source.key, hashlib.sha256("\n".join(source.texts()).encode()).hexdigest()[:16]) == (key, digest)
