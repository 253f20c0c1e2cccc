"""Token files: complete, in order, written once, and never partially."""

import dataclasses
import itertools
import json
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from harness.data import formats, split, token_files
from harness.data.dialogues import open_template
from harness.data.formats import Part
from harness.data.sources import Source, open_source
from harness.data.token_files import Tokens, prepare
from harness.data.tokenizer import get_tokenizer
from harness.errors import HarnessError, UsageError

pytestmark = pytest.mark.fast

POCKET = get_tokenizer("pocket-2k")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_stories_are_written_with_end_of_text_over_several_files(stories_file: Path, monkeypatch) -> None:
    monkeypatch.setattr(split, "FILE_TOKENS", 100)
    source = open_source(str(stories_file), 0.1)
    prepared = prepare(source, POCKET, quiet=True)
    texts = [*source.texts()]
    assert len(prepared.train.ends) + len(prepared.validation.ends) == len(texts) == 240
    dealt = []
    for tokens in (prepared.train, prepared.validation):
        starts = [0, *tokens.ends.tolist()]
        dealt += [tokens[start:stop].tolist() for start, stop in itertools.pairwise(starts)]
        assert all(file.dtype == np.uint16 and isinstance(file, np.memmap) for file in tokens.files)
    assert sorted(dealt) == sorted([*POCKET.encode_ordinary(text), POCKET.eot_token] for text in texts)
    assert 0.09 < len(prepared.validation) / (len(prepared.train) + len(prepared.validation)) < 0.11
    assert prepared.bytes_per_token == sum(len(text.encode()) for text in texts) / (sum(map(len, dealt)) - len(texts))
    assert len(prepared.train.files) > 5
    assert prepared.max_id == POCKET.eot_token


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.data())
def test_a_slice_may_span_files(sizes: list[int], data: st.DataObject) -> None:
    stream = np.arange(sum(sizes), dtype=np.uint16)
    cuts = np.cumsum(sizes)[:-1]
    tokens = Tokens(tuple(np.split(stream, cuts)), np.array([len(stream)]))
    start = data.draw(st.integers(0, len(stream)))
    stop = data.draw(st.integers(start, len(stream)))
    assert tokens[start:stop].tolist() == stream[start:stop].tolist()


def test_token_files_are_reused(stories_file: Path) -> None:
    source = open_source(str(stories_file), 0.1)
    first = prepare(source, POCKET, quiet=True)

    def unused(seen):
        raise AssertionError("the source was read again")

    again = prepare(dataclasses.replace(source, read=unused), POCKET, quiet=True)
    assert again.folder == first.folder
    assert len(again.train) == len(first.train)


def test_no_story_is_lost_between_batches(monkeypatch) -> None:
    monkeypatch.setattr(token_files, "ENCODE_BATCH", 3)
    source = open_source("pocket:20", 0.2)
    prepared = prepare(source, POCKET, quiet=True)
    assert (len(prepared.train.ends), len(prepared.validation.ends)) == (16, 4)


def test_an_interruption_leaves_no_files(own_cache: Path) -> None:
    def interrupted(seen):
        yield Part("One.")
        yield Part("Two.")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(Source("x", "key", interrupted, Fraction("0.1")), POCKET, quiet=True)
    assert list((own_cache / "tokens").iterdir()) == []


@pytest.mark.parametrize(
    ("texts", "message"),
    [([], "contains no text"), (["."], r"contains only 2 tokens, too few to train and to validate")],
)
def test_too_little_text(texts: list[str], message: str, own_cache: Path) -> None:
    with pytest.raises(UsageError, match=message):
        prepare(Source("x.txt", "key", lambda seen: map(Part, texts), Fraction("0.1")), POCKET, quiet=True)
    assert list((own_cache / "tokens").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_an_error(monkeypatch, tmp_path: Path, stories_file: Path) -> None:
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(np, "save", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(HarnessError, match="No space left"):
        prepare(open_source(str(stories_file), 0.1), POCKET, quiet=True)


def test_a_text_and_its_half_have_the_same_tokens_as_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A huge text is encoded in parts, on all cores, and is never held as a whole."""
    monkeypatch.setattr(formats, "PART", 500)
    monkeypatch.setattr(split, "LONG", 300)
    monkeypatch.setattr(token_files, "ENCODE_BATCH", 2)
    text = "\n".join(f"MARCUS:\nThe king hath {number} ships." for number in range(300))
    path = tmp_path / "play.txt"
    path.write_text(text)
    prepared = prepare(open_source(str(path), 0.1), POCKET, quiet=True)
    train, validation = prepared.train, prepared.validation
    assert POCKET.decode([*train[0 : len(train) - 1].tolist(), *validation[0 : len(validation) - 1].tolist()]) == text
    assert 0.1 <= len(validation) / (len(train) + len(validation)) < 0.13
    assert POCKET.decode(train[0 : len(train) - 1].tolist()).endswith("\n")
    assert prepared.beginning.startswith("MARCUS:\nThe king hath 0 ships.")


def test_notes_are_kept_with_the_tokens(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("<|endoftext|>".join(["The same story.\0"] * 100))
    for _ in range(2):
        control, duplicates = prepare(open_source(str(path), 0.1), POCKET, quiet=True).notes
        assert control.startswith("a.txt, line 1 has a NUL character; 100 control characters in all")
        assert duplicates.startswith("10 of 10 validation texts of a.txt are in the training data, too, word for word")


def test_large_vocabularies_have_wide_tokens(tmp_path: Path) -> None:
    ranks = {bytes([byte]): byte for byte in range(256)}
    ranks |= {f"{number:05}".encode(): number for number in range(256, 70_000)}
    large = tiktoken.Encoding("large", pat_str=r".{5}", mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 70_000})
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{number:05}" for number in range(60_000, 69_999)))
    prepared = prepare(open_source(str(path), 0.1), large, quiet=True)
    assert prepared.max_id == 70_000
    assert {file.dtype for file in (*prepared.train.files, *prepared.validation.files)} == {np.dtype(np.uint32)}
    ids = [
        *prepared.train[0 : len(prepared.train) - 1].tolist(),
        *prepared.validation[0 : len(prepared.validation)].tolist(),
    ]
    assert large.decode(ids[:-1]) == path.read_text()


def test_one_of_several_processes_tokenizes(stories_file: Path) -> None:
    source, reads = open_source(str(stories_file), 0.1), []

    def counted(seen):
        reads.append(1)
        return source.read(seen)

    threads = [
        threading.Thread(
            target=prepare, args=(dataclasses.replace(source, read=counted), POCKET), kwargs={"quiet": True}
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reads) == 1


def test_dialogues_remember_their_first_question_however_much_comes_before() -> None:
    messages = [{"role": "system", "content": "Be kind. " * 60}, {"role": "user", "content": "Who?" + " Why?" * 60}]
    text = json.dumps([*messages, {"role": "assistant", "content": "Nobody."}])
    source = Source("x", "dialogues", lambda seen: iter([Part(text), Part(text)]), Fraction("0.5"))
    tokenize = open_template("plain", POCKET).tokenize
    assert prepare(source, POCKET, tokenize=tokenize, dialogues=True, quiet=True).beginning == messages[1]["content"]
