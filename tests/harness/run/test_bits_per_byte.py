"""Bits per byte, from the text itself."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from harness.config import Config
from harness.data.tokenizer import END_OF_TEXT, get_tokenizer, token_bytes
from harness.run.folder import Run
from harness.run.run_session import Session, ignore, open_session

STORIES = [
    "Once, a café – closed – had a 🐱.",
    "The end.",
    "A dog saw the moon, twice.",
    "Nothing happened, said Élodie.",
] * 3


@pytest.fixture
def config(tiny: Config, tmp_path: Path) -> Config:
    """A run that validates on all of about half of the stories."""
    path = tmp_path / "words.txt"
    path.write_text(END_OF_TEXT.join(STORIES), "utf-8")
    return replace(tiny, data=str(path), validation_fraction=0.5, eval_batches=0, batch_size=2)


def session(config: Config, tmp_path: Path) -> Session:
    return open_session(Run(tmp_path / "runs" / "a"), config, None, log=ignore, quiet=True)


def test_the_bytes_of_tokens_add_up_to_those_of_the_text() -> None:
    tokenizer = get_tokenizer("pocket-2k")
    lengths = token_bytes(tokenizer)
    for story in STORIES:
        assert lengths[tokenizer.encode_ordinary(story)].sum() == len(story.encode())
    assert lengths[tokenizer.eot_token] == 0


@pytest.mark.parametrize("packing", ["packed", "padded"])
def test_a_loss_is_spread_over_the_bytes_of_the_targets(config: Config, tmp_path: Path, packing: str) -> None:
    tokenizer = get_tokenizer("pocket-2k")
    run = session(replace(config, packing=packing), tmp_path)
    validation = run.prepared.validation
    texts = tokenizer.decode(validation[0 : len(validation)].tolist()).split(END_OF_TEXT)[:-1]
    assert set(texts) <= set(STORIES)
    assert 3 <= len(texts) < len(STORIES)
    stories = [[*tokenizer.encode_ordinary(story), tokenizer.eot_token] for story in texts]
    first_tokens = stories[:1] if packing == "packed" else stories  # a first token is no target
    size = sum(len(story.encode()) for story in texts)
    size -= sum(len(tokenizer.decode_single_token_bytes(story[0])) for story in first_tokens)
    targets = sum(map(len, stories)) - len(first_tokens)
    bits = run.bits_per_byte(2.5)
    assert bits == pytest.approx(2.5 * targets / math.log(2) / size, rel=1e-12)


def test_there_is_none_without_a_loss_and_for_copying(config: Config, tmp_path: Path) -> None:
    assert session(config, tmp_path).bits_per_byte(None) is None
    assert session(replace(config, objective="copy"), tmp_path).bits_per_byte(2.5) is None
