"""The folder of a run: its config, its metrics a line a step, charts, samples, checkpoints."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from harness.config import Config
from harness.errors import UsageError

MEASURED = (
    "tokens_per_s",
    "mfu",
    "memory",
)  # differ from one execution to the next; all else is a function of the config


class Run:
    """`runs/NAME/`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.config_file = folder / "config.json"
        self.metrics_file = folder / "metrics.jsonl"
        self.checkpoints = folder / "checkpoints"
        self.samples = folder / "samples"
        self.pieces = folder / "pieces"

    @classmethod
    def find(cls, root: Path, name: str) -> "Run":
        """A run that is there, by name or by path. Raises UsageError naming those there are."""
        for folder in (root / name, Path(name)):
            if (folder / "config.json").exists():
                return cls(folder)
        known = sorted(path.parent.name for path in root.glob("*/config.json"))
        there = f"There are: {', '.join(known)}." if known else "There is none yet; `harness train` makes one."
        raise UsageError(f"There is no run {name!r} in {root}. {there}")

    def config(self) -> Config:
        """The settings it was made with."""
        return Config.load(self.config_file)

    def begin(self, config: Config) -> bool:
        """Makes the folder, or checks that it was made with the same settings; true if it was there.

        Raises UsageError with the differences if it was made with others.
        """
        if self.config_file.exists():
            if different := self.config().differences(config):
                raise UsageError(
                    f"Run {self.folder} was made with other settings (there -> asked for):\n  " + "\n  ".join(different)
                    + "\nRepeat them to go on with it, or choose another name with --run."
                )  # fmt: skip
            return True
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.config_file, config.to_json())
        return False

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps a second process from training the same run. Raises UsageError if one does already."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as file:
            try:
                import fcntl  # not on Windows, where the run goes unlocked

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except ImportError:
                pass
            except OSError as error:
                raise UsageError(f"Run {self.folder} is being trained by another process.") from error
            yield

    def metrics(self) -> list[dict[str, Any]]:
        """All whole lines of metrics.jsonl."""
        return list(_whole_lines(self.metrics_file))

    def keep_metrics(self, last_step: int) -> None:
        """Forgets the lines after `last_step`, and one that was cut off."""
        kept = [entry for entry in _whole_lines(self.metrics_file) if entry["step"] <= last_step]
        write_atomically(self.metrics_file, "".join(map(_line, kept)))


class MetricsWriter:
    """Appends lines to metrics.jsonl."""

    def __init__(self, path: Path):
        self._file: TextIO = path.open("a", encoding="utf-8")

    def write(self, entry: dict[str, Any]) -> None:
        """One step's line."""
        self._file.write(_line(entry))
        self._file.flush()

    def sync(self) -> None:
        """Returns when all lines are on disk: before a checkpoint, so that it never knows more steps than they."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry) + "\n"


def _whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                return
            try:
                yield json.loads(line)
            except ValueError:
                return


def write_atomically(path: Path, content: str | Callable[[Path], None]) -> None:
    """Replaces the file by `content`, or by what `content` writes at the path it is given, in one step."""
    unfinished = path.with_name(f".{path.name}")
    if callable(content):
        content(unfinished)
    else:
        unfinished.write_text(content, encoding="utf-8")
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(unfinished, path)
