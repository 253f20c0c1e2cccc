"""The best training run of a learner's own pieces, from the files that the harness keeps in `runs/NAME/`."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commandline import files

_LARGEST = 64 << 20  # bytes of a file
_UNREADABLE = (OSError, files.NotRegularFileError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
_END = "<|endoftext|>"

Curve = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class OwnRun:
    """A run made of pieces. Losses are in nats a token.

    Attributes:
        name: The name of the run.
        training: The training loss by step.
        validation: The validation loss by step; at least one.
        bigram: The validation loss of the bigram model on the same data.
        story: The text that the model wrote after its best validation, or the last text before; may be empty.
    """

    name: str
    training: Curve
    validation: Curve
    bigram: float
    story: str

    @property
    def best(self) -> tuple[float, float]:
        """The step of the lowest validation loss, and that loss."""
        return min(self.validation, key=lambda point: point[1])

    @property
    def standing(self) -> str:
        """A sentence on the best loss, beside that of the bigram model."""
        step, loss = self.best
        return (
            f"Your best run: {self.name}, with a validation loss of {loss:.2f} at step {step:,.0f}; a bigram model has "
            f"{self.bigram:.2f}."
        )


def best(root: Path) -> OwnRun | None:
    """Returns the run of a folder of runs that is furthest below its bigram model; None if there is no run of pieces
    with a validation loss. Leaves out what cannot be read."""
    return min(_runs(root), key=lambda run: run.best[1] - run.bigram, default=None)


def _runs(root: Path) -> Iterator[OwnRun]:
    for config in sorted(root.glob("*/config.json")):
        try:
            run = _read(config.parent)
        except _UNREADABLE:
            continue
        if run:
            yield run


def _read(folder: Path) -> OwnRun | None:
    """Reads one run. Returns None if it has no pieces, or no validation loss. Raises what `_UNREADABLE` lists."""
    if not json.loads(_text(folder / "config.json"))["pieces"]:
        return None
    lines = _text(folder / "metrics.jsonl").rpartition("\n")[0].splitlines()
    entries = [json.loads(line) for line in lines]
    validation = _curve(entries, "validation_loss")
    if not validation:
        return None
    bigram = float(json.loads(_text(folder / "baselines.json"))["bigram"])
    step, _ = min(validation, key=lambda point: point[1])
    return OwnRun(folder.name, _curve(entries, "loss"), validation, bigram, _story(folder / "samples", step))


def _curve(entries: list[dict[str, Any]], name: str) -> Curve:
    values = ((float(entry["step"]), entry.get(name)) for entry in entries)
    return tuple((step, float(value)) for step, value in values if value is not None and math.isfinite(value))


def _story(samples: Path, step: float) -> str:
    """Returns the last text that was written up to a step."""
    paths = sorted(path for path in samples.glob("*.txt") if path.stem.isdecimal() and int(path.stem) <= step)
    return _text(paths[-1]).replace(_END, "").strip() if paths else ""


def _text(path: Path) -> str:
    return files.read_regular(path, _LARGEST).decode("utf-8", "replace")
