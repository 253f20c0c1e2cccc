"""Dialogues, and pairs of them of which one is preferred, as people store them: as lists of messages with roles."""

import json
from collections.abc import Mapping
from typing import Any

from harness.config import MESSAGES, PAIRS

ROLES = ("system", "user", "assistant")
# The names of roles in the format of ShareGPT
_SPEAKERS = {"system": "system", "human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant",
             "assistant": "assistant", "bot": "assistant", "model": "assistant"}  # fmt: skip
_LISTS = (MESSAGES, "conversations", "conversation")


class MalformedError(Exception):
    """The record is no dialogue or pair. The message is the predicate of a sentence."""


def stored_in(record: Mapping[str, Any], field: str) -> Any:
    """What a record holds: a list of messages, or for a pair `{"chosen": messages, "rejected": messages}`.

    Dialogues are lists of messages, `conversations` of ShareGPT, or a `prompt` and its `completion`. The two answers of
    a pair may follow a `prompt`. Raises MalformedError, and KeyError if there is no field of a dialogue or a pair.
    """
    if field == PAIRS:
        return {name: _pair_side(record, name) for name in ("chosen", "rejected")}
    for name in _LISTS:
        if name in record:
            return checked(_messages(record[name]))
    if "completion" not in record:
        raise KeyError(MESSAGES)
    return checked([*_said("user", record["prompt"]), *_said("assistant", record["completion"])])


def _pair_side(record: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """One answer of a pair, after the prompt if that stands alone."""
    messages = checked([*_said("user", record.get("prompt") or []), *_said("assistant", record[name])])
    if messages[-1]["role"] != "assistant":
        raise MalformedError(f"has no answer at the end of `{name}`")
    return messages


def _said(role: str, value: Any) -> list[dict[str, Any]]:
    """A text as a message of this role; a list of messages as it is."""
    return [{"role": role, "content": value}] if isinstance(value, str) else _messages(value)


def _messages(value: Any) -> list[dict[str, Any]]:
    """A list of messages, those of ShareGPT with the usual names, and their content as one text."""
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise MalformedError("is not a list of messages")
    return [_message(message, number) for number, message in enumerate(value, 1)]


def _message(message: dict[str, Any], number: int) -> dict[str, Any]:
    if "from" in message and "role" not in message:
        speaker = message["from"]
        if speaker not in _SPEAKERS:
            raise MalformedError(f"has a message {number} from {speaker!r:.30}, which is not {', '.join(_SPEAKERS)}")
        message = {"role": _SPEAKERS[speaker], "content": message.get("value")}
    content = message.get("content")
    if not isinstance(content, list):
        return message
    parts = [part if isinstance(part, dict) else {} for part in content]
    if others := [part.get("type") for part in parts if not isinstance(part.get("text"), str)]:
        raise MalformedError(f"has a message {number} with a part of type {others[0]!r:.30}; only text is read")
    return {**message, "content": "".join(part["text"] for part in parts)}


def checked(messages: Any) -> list[dict[str, Any]]:
    """The messages of a dialogue. Raises MalformedError unless each has a role and a text, and one is an answer."""
    if problem := problem_of(messages):
        raise MalformedError(problem)
    return list(messages)


def problem_of(value: Any) -> str:
    """What is wrong with a value that should be a dialogue, as the predicate of a sentence; empty if nothing is."""
    if not isinstance(value, list) or not value:
        return "is not a list of messages"
    for number, message in enumerate(value, 1):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            return f"has a message {number} whose role is not {', '.join(ROLES[:-1])} or {ROLES[-1]}"
        if not isinstance(message.get("content"), str):
            return f"has a message {number} without content, or whose content is not a string"
    if not any(message["role"] == "assistant" for message in value):
        return "has no answer: no message has the role assistant"
    return ""


def first_question(text: str) -> str:
    """The first message of a user, of a dialogue or a pair in JSON; empty if there is none."""
    stored = json.loads(text)
    messages = stored["chosen"] if isinstance(stored, dict) else stored
    return next((message["content"] for message in messages if message["role"] == "user"), "")
