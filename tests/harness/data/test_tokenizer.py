"""The tokenizers, and the file of the shipped one."""

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from harness.data.pocket import story
from harness.data.tokenizer import POCKET_FILE, get_tokenizer
from harness.data.tokenizer_json import END_OF_TEXT
from harness.data.train_tokenizer import encoding_lines
from harness.errors import HarnessError, UsageError

POCKET = get_tokenizer("pocket-2k")


def test_the_shipped_file_is_up_to_date() -> None:
    assert POCKET_FILE.read_text("ascii") == "".join(encoding_lines()), "run python -m harness.train_tokenizer"


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
