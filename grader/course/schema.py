"""The JSON schema of `course.toml`, for editors: made of the keys that the reader of the file knows."""

from collections.abc import Mapping
from typing import Any

from commandline.problem_name import ProblemName
from grader.course.course import COURSE_KEYS, PART_KEYS, ROW_KEYS

_TITLE = {"type": "string", "minLength": 1}
_FLAG = {"type": "boolean", "default": False}
_NAME = {"type": "string", "pattern": f"^{ProblemName.PATTERN.pattern}$"}


def schema() -> dict[str, Any]:
    """The schema, as JSON values. It knows the form of the file; `grade course list` and `grade verify` know the
    rest."""
    row = _table(ROW_KEYS, problem=_NAME, include=_NAME, points={"type": "integer", "minimum": 1})
    row["oneOf"] = [{"required": ["problem"]}, {"required": ["include"]}]
    rows = {"type": "array", "items": {"anyOf": [_NAME, row]}}
    part = _table(PART_KEYS, title=_TITLE, optional=_FLAG, problems=rows) | {"required": ["title", "problems"]}
    course = _table(COURSE_KEYS, title=_TITLE, private=_FLAG, part={"type": "array", "items": part})
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "course.toml of GPT Kata",
        **course,
        "required": ["title"],
    }


def _table(keys: Mapping[str, str], **kinds: Mapping[str, Any]) -> dict[str, Any]:
    """An object with these keys and no others. Raises KeyError if a key of `course.toml` has no kind here."""
    properties = {key: {"description": says, **kinds[key]} for key, says in keys.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}
