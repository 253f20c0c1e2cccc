"""The options of a grading: the same for a command, an editor and a class. Imports nothing that takes time."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True)
class GradeOptions:
    """The options of one grading. They are values, so that they can be sent to another process.

    Attributes:
        seed: Draws the cases; 0 draws the public ones.
        timeout: The total time limit of the submission's own code, in seconds of computing; None means the problem's.
        show: Whether the learner may see the cases. Only then does the report hold a counterexample, and only then may
            the code be run on it again to explain the failure.
        shrink: Whether to search for the smallest failing case.
        grade_imports: Whether to grade, after a failure, the course modules that the file imports.
    """

    seed: int = 0
    timeout: float | None = None
    show: bool = True
    shrink: bool = True
    grade_imports: bool = True

    def encode(self) -> dict[str, Any]:
        """Returns the options as JSON values."""
        return asdict(self)

    @classmethod
    def decode(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the options from JSON values. Raises TypeError on anything that `encode` did not make."""
        return cls(**fields)
