"""`metrics.jsonl`: one line of JSON for each step."""

import json
import math
import os
import time
from pathlib import Path
from typing import Any, TextIO

from commandline import files

FLUSH_SECONDS = 0.5  # the studio draws the lines while they come


class MetricsWriter:
    """Appends lines to metrics.jsonl, which readers see within `FLUSH_SECONDS`."""

    def __init__(self, path: Path):
        self._file: TextIO = path.open("a", encoding="utf-8")
        self._flushed = time.monotonic()

    def write(self, entry: dict[str, Any]) -> None:
        """Appends the line of one step."""
        self._file.write(_line(entry))
        if (now := time.monotonic()) - self._flushed >= FLUSH_SECONDS:
            self._file.flush()
            self._flushed = now

    def sync(self) -> None:
        """Waits until all lines are on disk. Called before a checkpoint, so that no checkpoint is ahead of the
        metrics."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def complete_lines(path: Path) -> list[dict[str, Any]]:
    """The lines up to the first that is not complete; none if there is no file."""
    entries: list[dict[str, Any]] = []
    if not path.exists():
        return entries
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                break
            try:
                entries.append(json.loads(line))
            except ValueError:
                break
    return entries


def truncate(path: Path, last_step: int) -> None:
    """Removes the lines after `last_step`, and a line that is incomplete."""
    kept = [entry for entry in complete_lines(path) if entry["step"] <= last_step]
    files.replace(path, "".join(map(_line, kept)), durable=True)


def training_seconds(metrics: list[dict[str, Any]]) -> float:
    """The time of all steps, without validations, checkpoints and interruptions."""
    tokens = [0, *(entry["tokens"] for entry in metrics)]
    speeds = [entry["tokens_per_s"] for entry in metrics]
    steps = zip(tokens, tokens[1:], speeds, strict=False)
    return round(sum(((after - before) / speed for before, after, speed in steps if speed), 0.0), 1)


def _line(entry: dict[str, Any]) -> str:
    """A line of JSON, which has no NaN and no infinity: they become null."""
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in entry.items()
    }
    return json.dumps(finite, allow_nan=False) + "\n"
