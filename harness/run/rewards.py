"""Rewards that a program verifies: how good is the continuation of a prompt?"""

import importlib.util
import math
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.config import TASK
from harness.errors import PieceError, UsageError

# (prompt, continuation, whether the continuation ended the story) -> reward
Reward = Callable[[str, str, bool], float]
GSM8K = "gsm8k:"  # before the file of a task in the format of GSM8K
FORMS = "word:WORD, sentences:N, ends, or FILE.py:FUNCTION"


def get_reward(spec: str) -> Reward:
    """The reward that `spec` names. Raises UsageError if there is none."""
    kind, _, argument = spec.partition(":")
    if kind == "word" and argument.strip():
        pattern = re.compile(rf"(?<!\w){re.escape(argument.strip())}(?!\w)", re.IGNORECASE)
        return lambda prompt, continuation, ended: float(bool(pattern.search(continuation)))
    if kind == "sentences" and argument.isdecimal() and int(argument):
        return lambda prompt, continuation, ended: float(ended and sentences(prompt + continuation) == int(argument))
    if spec == "ends":
        return lambda prompt, continuation, ended: float(ended)
    if found := split_file(spec):
        return _from_file(found[1], found[2].removeprefix(":"))
    raise UsageError(f"--reward {spec} is not valid; write {FORMS}.")


def split_file(reward: str) -> tuple[str, Path, str] | None:
    """What stands before and after the file that a reward reads, and the file; None if it reads none."""
    if reward.startswith(TASK):
        name = reward.removeprefix(TASK)
        before = f"{TASK}{GSM8K}" if name.startswith(GSM8K) else TASK
        file = reward.removeprefix(before)
        return (before, Path(file), "") if before != TASK or file.endswith(".py") else None
    file, _, name = reward.rpartition(":")
    return ("", Path(file), f":{name}") if file.endswith(".py") and name.isidentifier() else None


def sentences(text: str) -> int:
    """The number of sentences: runs of `.`, `!` and `?`, with closing quotes, before a space or the end."""
    return len(re.findall(r"""[.!?]+["'”’)]*(?=\s|$)""", text))


def _from_file(path: Path, name: str) -> Reward:
    """The function `name(prompt, continuation, ended)` of a Python file. Its errors become a PieceError with the
    line."""
    function = functions_of(path).get(name)
    if not callable(function):
        raise UsageError(f"{path} has no function `{name}`.")

    def reward(prompt: str, continuation: str, ended: bool) -> float:
        return finite(path, name, attributed(path, lambda: function(prompt, continuation, ended)))

    return reward


def functions_of(path: Path) -> dict[str, Any]:
    """What a Python file defines. Raises UsageError if there is no such file, PieceError if it cannot be imported."""
    if not path.is_file():
        raise UsageError(f"There is no file {path} for the reward.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    attributed(path, lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
    return vars(module)


def finite(path: Path, name: str, value: Any) -> float:
    """A reward that a function of a file returned. Raises PieceError if it is no finite number."""
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    raise PieceError(f"`{name}` of {path} returned {value!r}; it must return a finite number.")


def attributed(path: Path, work: Callable[[], Any]) -> Any:
    """`work()`. Turns an error into a PieceError that says where in the file it was raised."""
    try:
        return work()
    except Exception as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).resolve() == path.resolve()
        ]
        line = lines[-1] if lines else getattr(error, "lineno", None)
        where = f", line {line}" if line else ""
        raise PieceError(f"The reward {path}{where} failed: {type(error).__name__}: {error}.") from error
