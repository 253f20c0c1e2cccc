"""The layout of what learners hand in to a hub: `LEARNER/PROBLEM/TIME_ID/`, a folder for each attempt.

It holds the file and the course modules that it imports. The service of the hub writes it, with the time of its own
clock. The mark at the top says so: in a folder that learners made, such names would be claims.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

MARK = "handed-in-to-a-hub.txt"
ID = re.compile(r"[0-9a-f]{32}")
_TIME = "%Y%m%dT%H%M%S.%fZ"
_ATTEMPT = re.compile(rf"(\d{{8}}T\d{{6}}\.\d{{6}}Z)_({ID.pattern})")


@dataclass(frozen=True)
class HandIn:
    """An attempt that a learner handed in.

    Attributes:
        learner: The name of the user of the hub.
        problem: The problem's name.
        received: The time in UTC.
        id: 32 hexadecimal digits, which the learner's program chose: the same attempt, sent again, has the same id.
    """

    learner: str
    problem: str
    received: datetime
    id: str

    @property
    def folder(self) -> PurePosixPath:
        """The path of its folder below the mark's."""
        return PurePosixPath(of_learner(self.learner), self.problem, f"{self.received:{_TIME}}_{self.id}")


def of_learner(learner: str) -> str:
    """Returns the name of a learner's folder. A name may begin with a dot, as hidden files do, or have a slash."""
    text = quote(learner, safe="@+, ")
    return f"%{ord('.'):02X}{text[1:]}" if text.startswith(".") else text


def parse(folder: PurePosixPath) -> HandIn | None:
    """Returns the attempt that a folder of this layout holds; None if its path is another."""
    if len(folder.parts) != 3 or not (match := _ATTEMPT.fullmatch(folder.name)):
        return None
    learner, problem, _ = folder.parts
    try:
        received = datetime.strptime(match[1], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return HandIn(unquote(learner), problem, received, match[2])
