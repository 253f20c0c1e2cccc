"""Problem 81: a verifier. The page is in pages/p81_verifier.md."""

from collections.abc import Callable, Sequence
from typing import Any

Test = tuple[list[Any], Any]
Run = Callable[[str, float], tuple[int | None, str]]


def verify(answer: str, truth: str) -> bool:
    """Whether an answer gives the number `truth`, and no other one."""
    raise NotImplementedError


def run_tests(code: str, tests: Sequence[Test], seconds: float, run: Run) -> bool:
    """Whether `solve` of the program `code` returns what each test (arguments,
    expected) says, and the program ends in time.

    `run(source, seconds)` runs the text of a program in a new process, and
    returns its exit code and what it printed. The exit code is None if the
    process was killed at its limit.
    """
    raise NotImplementedError
