"""TOML files that a learner fills in: how they are read, and the sentences for what is wrong with them."""

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from commandline import files
from commandline.errors import UsageError
from grader.task import Task

_LARGEST = 1 << 20  # bytes


@dataclass(frozen=True)
class Form:
    """A table in a file that a learner fills in. All methods raise UsageError, which says where a value is wrong.

    Attributes:
        path: The file.
        table: The table.
        name: How the table is called in the file, such as `[baseline]`; empty for the whole file.
    """

    path: Path
    table: Mapping[str, Any]
    name: str = ""

    def only(self, *names: str) -> "Form":
        """Returns the form itself, which has no other key than these."""
        if other := next((name for name in self.table if name not in names), None):
            raise UsageError(f"{self.path}: {self.name or 'the file'} has no {other!r}; it has {', '.join(names)}.")
        return self

    def part(self, name: str) -> "Form":
        """Returns the table of this name."""
        table = self.table.get(name)
        if not isinstance(table, dict):
            raise self._wrong(f"[{name}] is a table", table)
        return Form(self.path, table, f"[{name}]")

    def value(self, name: str, rule: str, holds: Callable[[Any], bool]) -> Any:
        """Returns the value of this name, for which the rule holds."""
        value = self.table.get(name)
        if not holds(value):
            raise self.wrong(name, rule)
        return value

    def whole(self, name: str, low: int, high: int) -> int:
        """Returns a whole number between two others."""
        value = self.value(name, f"is a number from {low} to {high}", lambda given: type(given) is int)
        if not low <= value <= high:
            raise self.wrong(name, f"is a number from {low} to {high}")
        return int(value)

    def interval(self, example: str) -> tuple[float, float]:
        """Returns the two ends of the interval."""
        low, high = self.value(
            "interval", f"is two numbers, such as {example}",
            lambda given: isinstance(given, list) and len(given) == 2 and all(map(is_number, given)),
        )  # fmt: skip
        if not low < high:
            raise self.wrong("interval", "begins with its lower end")
        return float(low), float(high)

    def wrong(self, name: str, rule: str) -> UsageError:
        """Returns the error of a value that does not follow a rule, or is missing."""
        return self._wrong(f"`{name}`{f' of {self.name}' if self.name else ''} {rule}", self.table.get(name))

    def _wrong(self, rule: str, value: Any) -> UsageError:
        return UsageError(f"{self.path}: {rule}; it is {'missing' if value is None else f'{value!r:.80}'}.")


def read(path: Path, task: Task) -> Form:
    """Returns the table in a file that a task asks for. Raises UsageError, which says why it cannot be read."""
    try:
        return Form(path, tomllib.loads(text_of(path, task)))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}.") from None


def text_of(path: Path, task: Task) -> str:
    """Returns the text of a file that a task asks for. Raises UsageError."""
    try:
        return files.read_regular(path, _LARGEST).decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"There is no {path}. `grade task {task.label}` writes one to fill in.") from None
    except (OSError, files.NotRegularFileError) as error:
        raise UsageError(f"{path} {files.why_unreadable(error)}.") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} {files.why_no_text(error)}.") from None


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value of a table is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
