"""The tokenizers, the file of the shipped one, and training."""

import hashlib
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from harness.data.pocket import story
from harness.data.tokenizer import POCKET_FILE, get_tokenizer
from harness.data.tokenizer_json import END_OF_TEXT
from harness.data.train_tokenizer import count_words, merge, train
from harness.errors import HarnessError, UsageError
from tests.harness.conftest import STORIES as SHORT_STORIES
from tests.harness.conftest import Harness

POCKET = get_tokenizer("pocket-2k")


def test_the_shipped_file_is_the_one_that_earlier_runs_used() -> None:
    digest = hashlib.sha256(POCKET_FILE.read_bytes()).hexdigest()
    assert digest == "afe4f1c94b9d70232deee84357dd4bdf418528c518cde58219f41b1e9aaee7fd"


def test_pocket_has_2048_tokens_and_compresses_stories() -> None:
    assert isinstance(POCKET, tiktoken.Encoding)
    assert (POCKET.n_vocab, POCKET.eot_token) == (2048, 2047)
    text = story(1)
    assert len(POCKET.encode_ordinary(text)) < len(text) / 2.5


@given(st.text())
def test_any_text_survives_encoding(text: str) -> None:
    assert POCKET.decode(POCKET.encode_ordinary(text)) == text


def test_end_of_text_is_ordinary_text_unless_special_tokens_are_allowed() -> None:
    assert POCKET.eot_token not in POCKET.encode_ordinary(END_OF_TEXT)
    assert POCKET.encode(END_OF_TEXT, allowed_special="all") == [POCKET.eot_token]


def test_an_unknown_tokenizer_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean gpt2"):
        get_tokenizer("gpt-2")


def test_without_a_network_the_error_for_gpt2_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    def unreachable(path: str) -> bytes:
        raise ConnectionError(path)

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tiktoken.load.read_file", unreachable)
    monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})
    with pytest.raises(HarnessError, match="TIKTOKEN_CACHE_DIR"):
        get_tokenizer("gpt2")


def trained_by_counting_again(counts: Counter[str], size: int) -> list[bytes]:
    """Byte-pair encoding as its definition has it: all pairs are counted before each merge."""
    words = [([bytes([byte]) for byte in word.encode()], count) for word, count in counts.items()]
    tokens = [bytes([byte]) for byte in range(256)]
    while len(tokens) < size:
        pairs: Counter[tuple[bytes, bytes]] = Counter()
        for word, count in words:
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        words = [(merge(word, best), count) for word, count in words]
        tokens.append(best[0] + best[1])
    return tokens


@given(st.lists(st.text("ab é", max_size=12), max_size=8))
def test_training_gives_what_counting_again_gives(texts: list[str]) -> None:
    counts = count_words(texts)
    tokens = list(islice(train(counts), 290))
    assert tokens == trained_by_counting_again(counts, 290)
    assert len(set(tokens)) == len(tokens)


@pytest.mark.thorough
def test_the_command_writes_a_tokenizer_once(harness: Harness, stories_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.tiktoken"
    done = harness("tokenizer", "train", stories_file, "--vocab", 300, "--to", file)
    assert done.code == 0, done.err
    own = get_tokenizer(str(file))
    assert (own.n_vocab, own.eot_token) == (300, 299)
    assert own.decode(own.encode_ordinary("Ünknown words")) == "Ünknown words"
    text = SHORT_STORIES.replace(END_OF_TEXT, " ")
    assert len(own.encode_ordinary(text)) < len(text) / 2
    again = harness("tokenizer", "train", stories_file, "--to", file)
    assert (again.code, "already exists" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "No such file"),
        ("aGk= 0\nnot base 64\n", "line 2 is not a token"),
        ("aGk= 1\n", "its ranks are not 0, 1, 2"),
        ("aGk= 0\n", "some byte is not a token"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_a_usage_error(text: str | None, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "t.tiktoken"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        get_tokenizer(str(file))
