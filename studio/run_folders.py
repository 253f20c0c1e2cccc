"""The runs folder as the studio reads it: runs by name only, never through a link."""

import contextlib
import json
import math
import os
import stat
import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from commandline import files
from commandline.chart import Point
from harness.config import Config
from harness.errors import UsageError
from harness.run.folder import Run

_LARGEST = 64 << 20  # bytes of a file of metrics
_LARGEST_CONFIG = 1 << 16
_LARGEST_SAMPLE = 1 << 16
_MOST_SAMPLES = 200
_RECENT = 30.0  # seconds without a step after which a run of another program counts as stopped
_STEPS_AVERAGED = 50
_MOST_ENTRIES = 100_000  # in the folder of a run

Entry = dict[str, Any]  # numbers; `step` and `tokens` are integers


@dataclass(frozen=True)
class Sample:
    """A text that the model wrote after a step."""

    step: int
    text: str


@dataclass(frozen=True)
class RunState:
    """The contents of a run's folder at one moment."""

    name: str
    config: Config
    metrics: list[Entry] = field(repr=False)
    baselines: dict[str, float]  # losses of the bigram and the unigram model, and of the base
    is_fresh: bool  # a step was finished a moment ago
    can_sample: bool  # it has a checkpoint

    @property
    def step(self) -> int:
        """The last finished step."""
        return self.metrics[-1]["step"] if self.metrics else 0

    @property
    def is_finished(self) -> bool:
        """Whether the last step is finished."""
        return self.step >= self.config.steps

    @property
    def validated(self) -> list[Point]:
        """The steps with a validation loss."""
        return self.series("validation_loss")

    @property
    def best(self) -> float | None:
        """The lowest validation loss."""
        return min((loss for _, loss in self.validated), default=None)

    @property
    def tokens_per_s(self) -> float:
        """The speed of the latest steps."""
        recent = [value for _, value in self.series("tokens_per_s")[-_STEPS_AVERAGED:]]
        return statistics.median(recent) if recent else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The time that the remaining steps take at the present speed."""
        recent = self.metrics[-_STEPS_AVERAGED:]
        if len(recent) < 2 or not self.tokens_per_s:
            return None
        tokens_per_step = (recent[-1]["tokens"] - recent[0]["tokens"]) / (len(recent) - 1)
        return float((self.config.steps - self.step) * tokens_per_step / self.tokens_per_s)

    def series(self, key: str) -> list[Point]:
        """Returns the finite values of a metric, by step."""
        return [(entry["step"], entry[key]) for entry in self.metrics if math.isfinite(entry.get(key, math.nan))]


class RunFolders:
    """Reads the runs of a folder, and caches them until a file changes. May be used from several threads."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._lock = threading.Lock()
        self._metrics: dict[str, tuple[tuple[int, int, int], list[Entry]]] = {}

    def names(self) -> list[str]:
        """Returns the runs, the one that changed last first."""
        times = dict[str, float]()
        with contextlib.suppress(OSError):
            for folder in self.root.iterdir():
                if _is_folder(folder) and _is_file(folder / "config.json"):
                    times[folder.name] = max(map(_changed_at, (folder / "config.json", folder / "metrics.jsonl")))
        return sorted(times, key=lambda name: -times[name])

    def has(self, name: str) -> bool:
        """Returns whether there is a run of this name, in a folder of its own without links."""
        folder = self.root / name
        own = "/" not in name and "\\" not in name and name not in ("", ".", "..") and "\0" not in name
        return own and _is_folder(folder) and _is_file(folder / "config.json")

    def state(self, name: str) -> RunState:
        """Reads the state of a run. Raises UsageError if its files are not those of a run."""
        if not self.has(name):
            raise UsageError(f"There is no run {name!r} in {self.root}.")
        run = Run(self.root / name)
        if run.config_file.lstat().st_size > _LARGEST_CONFIG:
            raise UsageError(f"{run.config_file} is not the config of a run: it is too large.")
        config, metrics = run.config(), self._read_metrics(run)
        is_fresh = time.time() - _changed_at(run.metrics_file) < _RECENT
        can_sample = _is_folder(run.checkpoints) and any(path.name.isdecimal() for path in run.checkpoints.iterdir())
        return RunState(name, config, metrics, _read_baselines(run), is_fresh, can_sample)

    def require_no_links(self, name: str) -> None:
        """Raises UsageError if anything in the run's folder is a symbolic link: the harness would follow it."""
        entries = 0
        for folder, folders, names in os.walk(self.root / name):
            for entry in (Path(folder, other) for other in [*folders, *names]):
                entries += 1
                if entry.is_symlink() or entries > _MOST_ENTRIES:
                    words = "is a symbolic link" if entry.is_symlink() else "is one file too many for a run"
                    raise UsageError(
                        f"{entry} {words}. The studio uses only runs whose files are all in their own folder."
                    )

    def signature(self, name: str) -> object:
        """Returns a value that changes when the run does. All runs together have the name ""."""
        if not name:
            return [(other, self.signature(other)) for other in self.names()]
        folder = self.root / name
        times = [_changed_at(folder / file) for file in ("config.json", "metrics.jsonl", "samples", "checkpoints")]
        return times, time.time() - times[1] < _RECENT

    def samples(self, name: str) -> list[Sample]:
        """Returns the samples that the model wrote before the first step and with each validation, in that order."""
        run = Run(self.root / name)
        if not self.has(name) or not _is_folder(run.samples):
            return []
        paths = sorted(path for path in run.samples.glob("*.txt") if path.stem.isdecimal())[-_MOST_SAMPLES:]
        samples = list[Sample]()
        for path in paths:
            with contextlib.suppress(OSError, files.NotRegularFileError):
                text = files.read_regular(path, _LARGEST_SAMPLE).decode("utf-8", "replace")
                samples.append(Sample(int(path.stem), text.strip()))
        return samples

    def _read_metrics(self, run: Run) -> list[Entry]:
        try:
            status = run.metrics_file.lstat()
            key = (status.st_ino, status.st_size, status.st_mtime_ns)
            with self._lock:
                known = self._metrics.get(run.folder.name)
            if known and known[0] == key:
                return known[1]
            data = files.read_regular(run.metrics_file, _LARGEST)
        except (OSError, files.NotRegularFileError):
            return []
        entries = _parse(data)
        with self._lock:
            self._metrics[run.folder.name] = (key, entries)
        return entries


def _parse(data: bytes) -> list[Entry]:
    entries = list[Entry]()
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        try:
            entry = json.loads(line)
            numbers = {key: float(value) for key, value in entry.items() if isinstance(value, int | float)}
            entries.append({**numbers, "step": int(entry["step"]), "tokens": int(entry["tokens"])})
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            break
    return entries


def _read_baselines(run: Run) -> dict[str, float]:
    try:
        values = json.loads(files.read_regular(run.baselines_file, 1000))
        return {name: float(values[name]) for name in ("bigram", "unigram", "base") if name in values}
    except (OSError, files.NotRegularFileError, ValueError, TypeError, KeyError):
        return {}


def _is_folder(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISDIR(path.lstat().st_mode)
    return False


def _is_file(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def _changed_at(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.lstat().st_mtime
    return 0.0
