"""Texts are dealt out by tokens, in one pass: the fraction holds for few and many texts, and no token is lost."""

import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data import split
from harness.data.formats import Part
from harness.data.split import Dealer, Writer

pytestmark = pytest.mark.fast

END, NEWLINE = 0, 1


def line_ends() -> np.ndarray:
    return np.arange(1000) == NEWLINE


def deal(lengths: list[int], fraction: str, folder: Path, *, part: int = 1 << 30, label: bool | None = None) -> Dealer:
    """Texts of so many tokens, with an end; every tenth token ends a line. A long text comes in parts."""
    train, validation = (Writer(folder, name, np.uint16) for name in ("train", "validation"))
    dealer = Dealer(train, validation, Fraction(fraction), line_ends, str)
    for number, length in enumerate(lengths):
        ids = np.where(np.arange(1, length) % 10 == 0, NEWLINE, 2 + number % 900)
        for start in range(0, length, part):
            ends = start + part >= length
            piece = np.append(ids[start : start + part], [END] if ends else [])
            dealer.add(Part(f"text {number} from {start}" if ends else "x", ends=ends, in_validation=label), piece)
    dealer.finish()
    train.finish()
    validation.finish()
    return dealer


def stream(writer: Writer) -> np.ndarray:
    files = sorted(writer.folder.glob(f"{writer.split}-*.bin"))
    return np.concatenate([np.empty(0, np.uint16), *(np.fromfile(file, np.uint16) for file in files)])


@given(
    st.lists(st.integers(3, 400), min_size=1, max_size=60),
    st.sampled_from(["0.02", "0.1", "0.5", "0.9"]),
    st.sampled_from([7, 1000]),
)
def test_no_token_is_lost_and_validation_has_its_share(lengths: list[int], fraction: str, part: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "LONG", 200)
        patch.setattr(split, "FILE_TOKENS", 50)
        dealer = deal(lengths, fraction, Path(folder), part=part)
        train, validation = stream(dealer.train), stream(dealer.validation)
        for writer, tokens in ((dealer.train, train), (dealer.validation, validation)):
            assert len(tokens) == writer.tokens
            assert np.flatnonzero(tokens == END).tolist() == [end - 1 for end in writer.ends]
        # All tokens but ends are there: a text that is cut has an end in both splits.
        both = np.bincount(np.concatenate([train, validation]), minlength=1000)[1:]
        whole = [np.where(np.arange(1, n) % 10 == 0, NEWLINE, 2 + i % 900) for i, n in enumerate(lengths)]
        np.testing.assert_array_equal(both, np.bincount(np.concatenate(whole), minlength=1000)[1:])
        wanted, total = float(Fraction(fraction)) * sum(lengths), sum(lengths)
        assert len(train)
        if total >= 200 and float(Fraction(fraction)) <= 0.5:
            assert wanted / 3 - 2 <= len(validation) <= wanted + max(lengths) / 2 + 2


@pytest.mark.parametrize(
    ("lengths", "share"),
    [
        ([50] * 1000, 0.02),  # many alike
        ([5000, 5000], 0.02),  # two, of which one went to validation
        ([100_000], 0.02),  # a book
        ([100_000, 50], 0.02),  # a book with a note
        ([10] * 49 + [20_000], 0.02),
    ],
)
def test_few_texts_are_not_split_in_halves(lengths: list[int], share: float, tmp_path: Path) -> None:
    dealer = deal(lengths, str(share), tmp_path)
    assert dealer.validation.tokens / sum(lengths) == pytest.approx(share, rel=0.15)
    first = stream(dealer.train)[0]
    assert first == 2, "the first text is in training"


def test_the_end_of_a_text_is_cut_at_a_line(tmp_path: Path) -> None:
    dealer = deal([10_000], "0.02", tmp_path)
    train, validation = stream(dealer.train), stream(dealer.validation)
    assert train[-2:].tolist() == [NEWLINE, END]
    assert validation[-1] == END
    assert 200 <= len(validation) <= 225
    assert dealer.train.bytes + dealer.validation.bytes == len(b"text 0 from 0")


def test_a_text_without_lines_is_cut_anyway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.harness.data.test_split.NEWLINE", 999)
    dealer = deal([1000], "0.02", tmp_path)
    assert dealer.validation.tokens == 20


def test_a_source_with_a_split_of_its_own_keeps_it(tmp_path: Path) -> None:
    assert deal([10, 10], "0.5", tmp_path, label=False).validation.tokens == 0


def test_all_is_held_out_to_evaluate(tmp_path: Path) -> None:
    dealer = deal([10, 500, 30], "1", tmp_path)
    assert (dealer.train.tokens, dealer.validation.tokens) == (0, 540)


def test_texts_in_both_splits_are_counted(tmp_path: Path) -> None:
    train, validation = (Writer(tmp_path, name, np.uint16) for name in ("train", "validation"))
    dealer = Dealer(train, validation, Fraction("0.5"), line_ends, str)
    for text in ("A", "B", "A", "B", "A", "C"):
        dealer.add(Part(text), np.array([2, 3, END]))
    train.finish()
    validation.finish()
    # A | B, A | B | A | C: the same 'A' twice, and 'B', are in both.
    assert [len(train.ends), len(validation.ends), dealer.duplicates()] == [3, 3, 3]
