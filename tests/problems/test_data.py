"""Problems 53 to 58 against independent oracles."""

import sys

import numpy as np
import pytest

from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


def test_ids_and_texts_are_those_of_tiktoken():
    """The vocabulary of the harness, and a text of which streams are cut at many places."""
    from p53_encode_decode import decode, encode, encode_stream

    from harness.data.pocket import stories
    from harness.data.tokenizer import get_tokenizer

    tokenizer = get_tokenizer("pocket-2k")
    end = tokenizer.decode([tokenizer.eot_token])
    ranks = {tokenizer.decode_single_token_bytes(i): i for i in range(tokenizer.n_vocab) if i != tokenizer.eot_token}
    special = {end: tokenizer.eot_token}
    code = "  def f(x):\n\n\treturn x==1  # naïve ☂, they'll've 12345 \r\n   "
    text = end.join([*stories(20), code, "", (ROOT / "LICENSE").read_text(encoding="utf-8")])
    ids = tokenizer.encode(text, allowed_special="all")
    assert encode(text, ranks, special) == ids
    assert decode(ids, ranks, special) == text
    data, rng = text.encode(), np.random.default_rng(0)
    ends = np.sort(rng.integers(0, len(data), 3000)).tolist()
    chunks = [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]
    assert list(encode_stream(iter(chunks), ranks, special)) == ids
    some = rng.integers(0, tokenizer.n_vocab, 2000).tolist()  # mostly not UTF-8
    assert decode(some, ranks, special) == tokenizer.decode(some)
