"""The text of sums for a calculator: calls with their marks, guesses, and no held-out sum in the training data."""

import json
import re

import pytest

from harness.data import arithmetic, tools
from harness.data.formats import Seen
from harness.data.sources import open_source
from harness.data.token_files import prepare
from harness.data.tokenizer import get_tokenizer
from harness.data.tools import Marks
from harness.errors import UsageError

pytestmark = pytest.mark.fast
TEXT = re.compile(r"What is (\d\d) \+ (\d\d)\?(?:<call>(.*)<end><result>(\d+)<end>)? #### (\d+)")
MARKS = Marks(get_tokenizer("bytes"))


def test_one_text_in_five_calls_and_is_right_and_the_others_are_near() -> None:
    found = [TEXT.fullmatch(tools.text(index, False)) for index in range(1000)]
    calls = [(int(m[1]), int(m[2]), m[3], m[4], int(m[5])) for m in found if m]
    assert len(calls) == 1000
    for a, b, call, result, answer in calls:
        if call:
            assert json.loads(call) == {"name": "add", "arguments": {"a": a, "b": b}}
            assert int(result) == answer == a + b
        else:
            assert 1 <= abs(answer - a - b) <= arithmetic.OFF
    assert 150 < sum(call is not None for _, _, call, _, _ in calls) < 250  # 4 standard deviations


def test_held_out_sums_are_those_of_the_validation_texts() -> None:
    parts = [*open_source("tools:500", 0.1).read(Seen())]
    for part in parts:
        found = TEXT.fullmatch(part.text)
        assert found
        assert arithmetic.is_held_out(arithmetic.name(int(found[1]), int(found[2]))) == part.in_validation


def test_marks_are_tokens_and_come_back_as_their_names() -> None:
    text = tools.called(27, 82)
    ids = MARKS.encode(text)
    assert (len(ids), ids[0], ids.index(MARKS.end), ids[50]) == (55, MARKS.call, 49, MARKS.result)
    assert MARKS.decode(ids) == text
    assert not {MARKS.call, MARKS.result, MARKS.end} & set(MARKS.encode_ordinary(text))
    assert MARKS.decode([300, 65, 255]) == "A<result>"  # a vocabulary may have room for more ids than tokens


def test_what_is_trained_on_are_marks() -> None:
    """A source with marks encodes its own texts, also in place of a learner's program."""
    prepared = prepare(
        open_source("tools:300", 0.1), get_tokenizer("bytes"), tokenize=lambda text, tokenizer: None, quiet=True
    )
    stream = prepared.train[0 : len(prepared.train)].tolist()
    calls, results = stream.count(MARKS.call), stream.count(MARKS.result)
    assert 20 < calls == results
    assert stream.count(MARKS.end) == len(prepared.train.ends) + 2 * calls
    with pytest.raises(UsageError, match="only tokenizer=bytes has room for"):
        prepare(open_source("tools:300", 0.1), get_tokenizer("pocket-2k"), quiet=True)
