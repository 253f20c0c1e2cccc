"""The name of a problem, as both commands read it."""

from __future__ import annotations

import re


class ProblemName(str):
    """The name of a problem, such as `p07_next_token_loss`. Its folder, its reference and a learner's file have the
    same name."""

    PATTERN = re.compile(r"p(\d\d)_([a-z0-9_]+)")

    @classmethod
    def parse(cls, text: str) -> ProblemName | None:
        """Returns the text as a name; None if it does not have the form of one."""
        return cls(text) if cls.PATTERN.fullmatch(text) else None

    @property
    def number(self) -> int:
        return int(self.label)

    @property
    def label(self) -> str:
        """The number as two digits: `07`."""
        return self[1:3]

    @property
    def slug(self) -> str:
        """The name without its number: `next_token_loss`."""
        return self[4:]
