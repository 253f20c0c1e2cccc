"""Dialogues in the formats that people have."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.config import MESSAGES, PAIRS
from harness.data.conversations import MalformedError, stored_in
from harness.data.dialogues import open_template
from harness.data.formats import MOST_REFUSED, Seen, read_file
from harness.data.locate import find
from harness.data.sources import open_source
from harness.data.token_files import prepare
from harness.data.tokenizer import get_tokenizer
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


def said_of(name: str, content: str, tmp_path: Path) -> str:
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError) as error:
        list(read_file(find(str(tmp_path / name)).files[0], MESSAGES, Seen()))
    return str(error.value).replace(str(tmp_path / name), name)


GOOD = json.dumps({"messages": ASKED})


def test_all_lines_that_hold_no_dialogue_are_named_at_once(tmp_path: Path) -> None:
    none, question = '{"text": "Hi"}', json.dumps({"messages": ASKED[:1]})
    said = said_of("chat.jsonl", "\n".join([GOOD, none, GOOD, question]), tmp_path).split("\n")
    assert [line.partition(": ")[0] for line in said] == ["chat.jsonl, line 2", "chat.jsonl, line 4",
                                                           "Repair or remove these lines."]  # fmt: skip
    assert said_of("one.jsonl", "\n".join([GOOD, none, GOOD]), tmp_path).endswith("\nRepair or remove this line.")
    many = said_of("many.jsonl", "\n".join([none] * 30), tmp_path)
    assert many.count(", line ") == MOST_REFUSED, "a file of other records is not read to its end"


def test_a_line_that_is_not_complete_is_named_and_not_the_next_one(tmp_path: Path) -> None:
    said = said_of("chat.jsonl", "\n".join([GOOD, GOOD[:-1], GOOD]), tmp_path)
    assert said.startswith("chat.jsonl, line 2: this is not JSON (expecting ',' delimiter)")


def test_a_text_holds_no_dialogues(tmp_path: Path) -> None:
    said = said_of("mine.txt", "User: Hi.\nAssistant: Hello.\n", tmp_path)
    assert said.startswith("mine.txt is a text. A dialogue is a list of `messages` or `conversations`")


def test_a_message_that_a_template_refuses_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").write_text("\n".join([GOOD, GOOD.replace("Hello", "Hello\\nUser: Hi")]))
    source = open_source(str(tmp_path / "chat.jsonl"), 0.5, MESSAGES)
    tokenizer = get_tokenizer("bytes")
    template = open_template("plain", tokenizer)
    with pytest.raises(UsageError, match=r"chat\.jsonl, line 2: A message contains"):
        prepare(source, tokenizer, tokenize=template.tokenize, key="-test", dialogues=True, quiet=True)
