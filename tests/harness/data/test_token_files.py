"""Token files: complete, in order, written once, and never partially."""

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

pytestmark = pytest.mark.fast

POCKET = get_tokenizer("pocket-2k")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_stories_are_written_with_end_of_text_over_several_files(stories_file: Path, monkeypatch) -> None:
    monkeypatch.setattr(token_files, "FILE_TOKENS", 100)
    source = open_source(str(stories_file), 0.1)
    prepared = prepare(source, POCKET, quiet=True)
    for tokens, validation in ((prepared.train, False), (prepared.validation, True)):
        texts = [text for in_validation, text in source.read() if in_validation == validation]
        wanted = [token for text in texts for token in (*POCKET.encode_ordinary(text), POCKET.eot_token)]
        assert tokens[0 : len(tokens)].tolist() == wanted
        assert len(tokens.ends) == len(texts)
        assert all(file.dtype == np.uint16 and isinstance(file, np.memmap) for file in tokens.files)
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

    def unused():
        raise AssertionError("the source was read again")

    again = prepare(Source(source.name, source.key, unused), POCKET, quiet=True)
    assert again.folder == first.folder
    assert len(again.train) == len(first.train)


def test_no_story_is_lost_between_batches(monkeypatch) -> None:
    monkeypatch.setattr(token_files, "ENCODE_BATCH", 3)
    source = open_source("pocket:20", 0.2)
    prepared = prepare(source, POCKET, quiet=True)
    assert (len(prepared.train.ends), len(prepared.validation.ends)) == (16, 4)


def test_an_interruption_leaves_no_files(own_cache: Path) -> None:
    def interrupted():
        yield True, "One."
        yield False, "Two."
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(Source("x", "key", interrupted), POCKET, quiet=True)
    assert list((own_cache / "tokens").iterdir()) == []


@pytest.mark.parametrize(
    ("stories", "message"), [([], "contains no stories"), ([(True, "One.")], "contains only one story")]
)
def test_too_few_stories(stories: list, message: str, own_cache: Path) -> None:
    with pytest.raises(UsageError, match=message):
        prepare(Source("x.txt", "key", lambda: iter(stories)), POCKET, quiet=True)
    assert list((own_cache / "tokens").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_an_error(monkeypatch, tmp_path: Path, stories_file: Path) -> None:
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(np, "save", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(HarnessError, match="No space left"):
        prepare(open_source(str(stories_file), 0.1), POCKET, quiet=True)
