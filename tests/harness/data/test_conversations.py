"""Dialogues in the formats that people have."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.config import MESSAGES, PAIRS
from harness.data.conversations import MalformedError, stored_in
from harness.data.sources import open_source
from harness.errors import UsageError

ASKED = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]


@pytest.mark.parametrize(
    "record",
    [
        {"messages": ASKED},
        {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}], "id": 3},
        {"conversation": ASKED},
        {"conversations": ASKED},
        {"prompt": "Hi", "completion": "Hello."},
        {"prompt": ASKED[:1], "completion": ASKED[1:]},
        {"messages": [
            {"role": "user", "content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]}, ASKED[1],
        ]},
    ],
)  # fmt: skip
def test_all_formats_are_the_same_dialogue(record: dict[str, Any], tmp_path: Path) -> None:
    assert stored_in(record, MESSAGES) == ASKED
    file = tmp_path / "chat.jsonl"
    file.write_text(json.dumps(record) + "\n")
    assert [json.loads(text) for text in open_source(str(file), 0.1, MESSAGES).texts()] == [ASKED]


@pytest.mark.parametrize(
    "record",
    [
        {"prompt": "Hi", "chosen": "Hello.", "rejected": "No."},
        {"prompt": ASKED[:1], "chosen": ASKED[1:], "rejected": [{"role": "assistant", "content": "No."}]},
        {"chosen": ASKED, "rejected": [ASKED[0], {"role": "assistant", "content": "No."}]},
        {"prompt": None, "chosen": ASKED, "rejected": [ASKED[0], {"role": "assistant", "content": "No."}]},
    ],
)
def test_all_formats_are_the_same_pair(record: dict[str, Any]) -> None:
    assert stored_in(record, PAIRS) == {
        "chosen": ASKED,
        "rejected": [ASKED[0], {"role": "assistant", "content": "No."}],
    }


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"conversations": [{"from": "tool", "value": "3"}]}, "has a message 1 from 'tool', which is not system"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "message 1 with a part of type 'image'"),
        ({"messages": [{"role": "user", "content": ["Hi"]}]}, "has a message 1 with a part of type None; only text"),
        ({"conversations": [{"from": "gpt"}]}, "has a message 1 without content"),
        ({"messages": ASKED[:1]}, "has no answer"),
        ({"messages": "Hi"}, "is not a list of messages"),
        ({"messages": []}, "is not a list of messages"),
        ({"prompt": 3, "completion": "Hello."}, "is not a list of messages"),
    ],
)  # fmt: skip
def test_what_is_no_dialogue_is_said(record: dict[str, Any], problem: str) -> None:
    with pytest.raises(MalformedError, match=problem):
        stored_in(record, MESSAGES)


def test_a_record_without_a_dialogue_is_refused_with_its_fields(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text('{"prompt": "Hi", "answer": "Hello."}\n')
    with pytest.raises(UsageError, match=r"line 1: the record has no field `messages`. Its fields are: prompt, answer"):
        list(open_source(str(file), 0.1, MESSAGES).texts())
