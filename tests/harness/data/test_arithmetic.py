"""The text of sums: right working, guesses, and no held-out sum in the training data."""

import re

import pytest

from harness.data import arithmetic
from harness.data.arithmetic import is_held_out
from harness.data.formats import Seen
from harness.data.sources import open_source
from harness.errors import UsageError

pytestmark = pytest.mark.fast
QUESTION = re.compile(r"What is (\d\d) \+ (\d\d)\?( [^#]*)? #### (\d+)")


def test_a_sum_is_worked_out_from_the_right() -> None:
    assert arithmetic.worked(47, 85) == " 7+5+0=12, 4+8+1=13"
    assert arithmetic.worked(90, 10) == " 0+0+0=00, 9+1+0=10"


def test_one_text_in_five_is_worked_and_right_and_the_others_are_near() -> None:
    found = [QUESTION.fullmatch(arithmetic.text(index, False)) for index in range(1000)]
    sums = [(int(m[1]), int(m[2]), m[3], int(m[4])) for m in found if m]
    assert len(sums) == 1000
    worked = [answer == a + b for a, b, steps, answer in sums if steps]
    off = [abs(answer - a - b) for a, b, steps, answer in sums if not steps]
    assert all(worked)
    assert 150 < len(worked) < 250  # 4 standard deviations
    assert {*off} == {*range(1, arithmetic.OFF + 1)}


def test_held_out_sums_are_those_of_the_validation_texts() -> None:
    source = open_source("arithmetic:2000", 0.1)
    parts = [*source.read(Seen())]
    assert len(parts) == 2000
    for part in parts:
        found = QUESTION.fullmatch(part.text)
        assert found
        assert is_held_out(arithmetic.name(int(found[1]), int(found[2]))) == part.in_validation
    assert sum(bool(part.in_validation) for part in parts) == 200
    assert open_source("arithmetic:2000", 0.2).key != source.key != open_source("arithmetic:2001", 0.1).key
    with pytest.raises(UsageError, match="write arithmetic, or arithmetic:N for the first N texts"):
        open_source("arithmetic:1", 0.1)
