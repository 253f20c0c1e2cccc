"""TOML files that a learner fills in: how they are read, and the sentences for what is wrong with them."""

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from commandline import files
from commandline.errors import UsageError
from grader.task import Task

_LARGEST = 1 << 16  # bytes


def table_of(path: Path, task: Task) -> dict[str, Any]:
    """Returns the table in a file that a task asks for. Raises UsageError, which says why it cannot be read."""
    try:
        return tomllib.loads(files.read_regular(path, _LARGEST).decode("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"There is no {path}. `grade task {task.label}` writes one to fill in.") from None
    except (OSError, files.NotRegularFileError) as error:
        raise UsageError(f"{path} {files.why_unreadable(error)}.") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} {files.why_no_text(error)}.") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}.") from None


def require_known(path: Path, table: Mapping[str, Any], where: str, *names: str) -> None:
    """Raises UsageError if a table has another key."""
    if other := next((name for name in table if name not in names), None):
        raise UsageError(f"{path}: {where} has no {other!r}; it has {', '.join(names)}.")


def require_interval(path: Path, value: Any, example: str) -> tuple[float, float]:
    """Returns the two ends of an interval. Raises UsageError if it is none."""
    if not isinstance(value, list) or len(value) != 2 or not all(map(is_number, value)):
        raise wrong(path, f"`interval` is two numbers, such as {example}", value)
    low, high = map(float, value)
    if not low < high:
        raise wrong(path, "`interval` begins with its lower end", value)
    return low, high


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value of a table is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def wrong(path: Path, rule: str, value: Any) -> UsageError:
    """Returns the error of a value that does not follow a rule, or is missing."""
    return UsageError(f"{path}: {rule}; it is {'missing' if value is None else f'{value!r:.80}'}.")
