"""Which fields of the files of a model are read, and which are known not to matter: the table in known_fields.toml.

A field that nobody knows may change what a model computes, and nothing else would show it.
"""

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Read at import: the play of problem 28 runs where no file of the harness can be opened.
_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def unknown_fields(found: Mapping[str, Any], file: str, model: str = "") -> list[str]:
    """The fields that have a value and are not in the table of a file, or of a part of it.

    `model` is the model_type of a model, which has fields of its own.
    """
    known = _known(file, model)
    return [name for name, value in found.items() if name not in known and not _is_empty(value)]


def _is_empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)


@functools.cache
def _known(file: str, model: str) -> frozenset[str]:
    table = _TABLES[file]
    tables = [table]
    while model:
        tables.append(table[model])
        model = table[model].get("like", "")
    return frozenset(name for each in tables for name in (*each.get("read", ()), *each.get("ignored", ())))
