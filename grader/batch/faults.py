"""Logs and counts internal errors that affect a single learner, so that the rest of the class is still graded."""

import traceback
from datetime import UTC, datetime
from pathlib import Path

from commandline import files

MESSAGE = "internal error of the grader (not your fault)"


class Faults:
    """The internal errors of a batch. `log` is the file that gets their tracebacks."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.count = 0

    def add(self, learner: str, error: BaseException) -> str:
        """Logs an error that was raised while this learner's files were handled. Returns the sentence for the
        record."""
        return self.add_text(learner, "".join(traceback.format_exception(error)), type(error).__name__)

    def add_text(self, learner: str, text: str, error: str) -> str:
        """Logs the traceback of an error that was raised in another process. `error` is its type."""
        self.count += 1
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.touch(files.private_mode(self.log.parent))  # a traceback may hold numbers of secret cases
        with self.log.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {learner}\n{text}\n")
        return f"{MESSAGE}: {error}"
