"""Tokens on disk: all of them, in order, made once, and never half made."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data import token_files
from harness.data.sources import Source, open_source
from harness.data.token_files import Tokens, prepare
from harness.data.tokenizer import get_tokenizer
from harness.errors import HarnessError, UsageError

POCKET = get_tokenizer("pocket-2k")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_stories_are_packed_with_end_of_text_between_over_several_files(stories_file: Path, monkeypatch) -> None:
    monkeypatch.setattr(token_files, "FILE_TOKENS", 100)
    source = open_source(str(stories_file), 0.1)
    prepared = prepare(source, POCKET, quiet=True)
    for tokens, validation in ((prepared.train, False), (prepared.validation, True)):
        texts = [text for kept, text in source.read() if kept == validation]
        wanted = [token for text in texts for token in (*POCKET.encode_ordinary(text), POCKET.eot_token)]
        assert tokens[0 : len(tokens)].tolist() == wanted
        assert len(tokens.ends) == len(texts)
        assert all(file.dtype == np.uint16 and isinstance(file, np.memmap) for file in tokens.files)
    assert len(prepared.train.files) > 5
    assert prepared.max_id == POCKET.eot_token


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.data())
def test_a_slice_does_not_see_where_files_end(sizes: list[int], data: st.DataObject) -> None:
    row = np.arange(sum(sizes), dtype=np.uint16)
    cuts = np.cumsum(sizes)[:-1]
    tokens = Tokens(tuple(np.split(row, cuts)), np.array([len(row)]))
    start = data.draw(st.integers(0, len(row)))
    stop = data.draw(st.integers(start, len(row)))
    assert tokens[start:stop].tolist() == row[start:stop].tolist()


def test_what_was_prepared_is_not_made_again(stories_file: Path) -> None:
    source = open_source(str(stories_file), 0.1)
    first = prepare(source, POCKET, quiet=True)

    def broken():
        raise AssertionError("read again")

    again = prepare(Source(source.name, source.key, broken), POCKET, quiet=True)
    assert again.folder == first.folder
    assert len(again.train) == len(first.train)


def test_an_interrupted_preparation_leaves_nothing(own_cache: Path) -> None:
    def interrupted():
        yield True, "One."
        yield False, "Two."
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(Source("x", "key", interrupted), POCKET, quiet=True)
    assert list((own_cache / "tokens").iterdir()) == []


@pytest.mark.parametrize(("stories", "sentence"), [([], "is empty"), ([(True, "One.")], "one story only")])
def test_too_few_stories(stories: list, sentence: str, own_cache: Path) -> None:
    with pytest.raises(UsageError, match=sentence):
        prepare(Source("x.txt", "key", lambda: iter(stories)), POCKET, quiet=True)
    assert list((own_cache / "tokens").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(monkeypatch, tmp_path: Path, stories_file: Path) -> None:
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(np, "save", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(HarnessError, match="No space left"):
        prepare(open_source(str(stories_file), 0.1), POCKET, quiet=True)
