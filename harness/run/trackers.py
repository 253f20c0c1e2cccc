"""Trackers: TensorBoard, and Weights & Biases. Each follows metrics.jsonl in a thread of its own, so training never
waits.

A tracker reads the file from its first line in every execution of a run, and replaces what an earlier execution left.
The curves are therefore those of metrics.jsonl after a kill and a resume, and when a tracker is turned on in the middle
of a run.
"""

import contextlib
import dataclasses
import importlib.util
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from commandline import files, invocation
from harness.config import Config
from harness.errors import HarnessError, UsageError
from harness.run.folder import Run

POLL_SECONDS = 1.0  # between two looks at metrics.jsonl
DRAIN_SECONDS = 60.0  # at the end of a training, for what the trackers have not written

Entry = dict[str, Any]  # a line of metrics.jsonl
Log = Callable[[str], None]


def require_installed(config: Config) -> None:
    """Raises UsageError if the library of a tracker of this run is not installed."""
    for name in config.trackers:
        # A folder called `wandb` in the working directory is found as a namespace, which has no origin.
        if getattr(importlib.util.find_spec(name), "origin", None) is None:
            raise UsageError(f"--log {name} needs a library: run `{invocation.install(name)}`.")


@contextlib.contextmanager
def tracking(run: Run, config: Config, log: Log) -> Iterator[None]:
    """Passes the metrics and samples that the run writes to its trackers, until the block ends and all have been
    passed.

    A tracker that fails is turned off and reported once through `log`.
    """
    finished = threading.Event()
    threads = [
        threading.Thread(target=_follow, args=(name, run, config, finished, log), name=name, daemon=True)
        for name in config.trackers
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        finished.set()
        deadline = time.monotonic() + DRAIN_SECONDS
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0))
            if thread.is_alive():
                log(f"{thread.name} stopped: it did not finish within {DRAIN_SECONDS:.0f} seconds of the last step.")


def _follow(name: str, run: Run, config: Config, finished: threading.Event, log: Log) -> None:
    try:
        with contextlib.closing(TRACKERS[name](run, config)) as tracker:
            times: dict[int, Entry] = {}
            passed: set[Path] = set()
            for entry in _entries(run.metrics_file, finished):
                if entry is None:
                    _pass_samples(tracker, run, times, passed)
                    tracker.flush()
                else:
                    tracker.metrics(entry)
                    times[entry["step"]] = {"step": entry["step"], "time": entry["time"]}
    except Exception as error:  # whatever a library raises
        reason = (str(error).strip().splitlines() or [""])[0].rstrip(".") or type(error).__name__
        log(f"{name} stopped: {reason}. Training and metrics.jsonl are not affected.")


def _entries(path: Path, finished: threading.Event) -> Iterator[Entry | None]:
    """The lines of metrics.jsonl, also those written until `finished` is set. None whenever there is no further one
    yet."""
    with path.open(encoding="utf-8") as file:
        line = ""
        while True:
            is_last = finished.is_set()
            while part := file.readline():
                line += part
                if line.endswith("\n"):
                    yield json.loads(line)
                    line = ""
            yield None
            if is_last:
                return
            finished.wait(POLL_SECONDS)


def _pass_samples(tracker: Any, run: Run, times: dict[int, Entry], passed: set[Path]) -> None:
    """Passes the new samples of steps that have been passed. A sample may be written after the metrics of later
    steps."""
    for file in sorted(set(run.samples.glob("*.txt")) - passed):
        if entry := times.get(int(file.stem)):
            tracker.sample(entry, file.read_text("utf-8"))
            passed.add(file)


def _values(entry: Entry) -> Iterator[tuple[str, float]]:
    """The curves that have a value at this step."""
    return ((key, value) for key, value in entry.items() if value is not None and key not in ("step", "time"))


class TensorBoard:
    """One event file in `tensorboard/`: a scalar per metric, as float32, and the samples as text."""

    def __init__(self, run: Run, config: Config):
        from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
        from tensorboard.plugins.text.metadata import create_summary_metadata
        from tensorboard.summary.writer.record_writer import RecordWriter

        self.event, self.summary, self.text = (
            event_pb2.Event,
            summary_pb2.Summary,
            create_summary_metadata("sample", None),
        )
        self.tensor = lambda text: tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[text.encode()])
        folder = run.folder / "tensorboard"
        folder.mkdir(exist_ok=True)
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        # The library's own EventFileWriter prints the traceback of an error from a second thread.
        self.file = RecordWriter((folder / f"events.out.tfevents.{time.time_ns()}").open("wb"))
        self._write(wall_time=time.time(), file_version="brain.Event:2")
        # An open TensorBoard drops the steps from this one on, which it read from an earlier file.
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._write(wall_time=time.time(), step=1, session_log=start)

    def metrics(self, entry: Entry) -> None:
        """Writes one event with all scalars of the step."""
        self._summary(entry, *(self.summary.Value(tag=key, simple_value=value) for key, value in _values(entry)))

    def sample(self, entry: Entry, text: str) -> None:
        """Writes an event with the text."""
        self._summary(entry, self.summary.Value(tag="sample", metadata=self.text, tensor=self.tensor(text)))

    def flush(self) -> None:
        """Writes the buffer to the file."""
        self.file.flush()

    def close(self) -> None:
        """Closes the file."""
        self.file.close()

    def _summary(self, entry: Entry, *values: Any) -> None:
        self._write(wall_time=entry["time"], step=entry["step"], summary=self.summary(value=values))

    def _write(self, **fields: Any) -> None:
        self.file.write(self.event(**fields).SerializeToString())


class WandB:
    """A run of Weights & Biases, which resumes with the run. The project is $WANDB_PROJECT, or `gpt-kata`."""

    def __init__(self, run: Run, config: Config):
        import wandb

        self.teardown = wandb.teardown
        # Otherwise wandb would ask for a key on the terminal.
        if wandb.setup().settings.mode == "online" and not wandb.login(prompt=False, verify=False):
            raise HarnessError("there is no API key; run `wandb login`, or set WANDB_MODE=offline")
        id_file = run.folder / "wandb" / "id"
        if not id_file.exists():
            files.replace(id_file, secrets.token_hex(8))
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "gpt-kata"),
            name=run.folder.name,
            id=id_file.read_text(),
            resume="allow",
            dir=run.folder,
            config=dataclasses.asdict(config),
            settings=wandb.Settings(silent=True, console="off"),
        )
        self.first_step = self.run.step  # after a resume, the first that the server does not have
        self.time = 0.0  # of the current step

    def metrics(self, entry: Entry) -> None:
        """Logs the values of the step, unless the server has them."""
        self.time = entry["time"]
        if entry["step"] >= self.first_step:
            self.run.log({**dict(_values(entry)), "_timestamp": self.time}, step=entry["step"])

    def sample(self, entry: Entry, text: str) -> None:
        """Logs the text with the values of the current step, because wandb accepts no earlier one."""
        if entry["step"] >= self.first_step:
            values = {"sample": text, "sample_step": entry["step"], "_timestamp": self.time}
            self.run.log(values, commit=False)

    def flush(self) -> None:
        """Does nothing: wandb uploads in its own process."""

    def close(self) -> None:
        """Waits until everything is uploaded, or in offline mode on disk."""
        self.run.finish()
        self.teardown()  # or the process that writes might end with lines that are not in the file


# A tracker takes the metrics of each step, in their order; the sample of a step, perhaps after the metrics of later
# ones; makes everything so far visible to others by `flush`; and finishes by `close`. What it raises turns it off.
TRACKERS: dict[str, Callable[[Run, Config], TensorBoard | WandB]] = {"tensorboard": TensorBoard, "wandb": WandB}
