"""Trainings that the studio has started. Each is a process that outlives the pages but not the studio."""

import collections
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

import click

from commandline.errors import UsageError
from commandline.text import printable
from harness.config import Config
from studio import harness_process
from studio.events import Events

_LINES, _LINE = 200, 500  # kept of what a training prints


@dataclass
class Training:
    """A training, running or ended."""

    name: str
    config: Config | None  # of a new run, until its folder has it
    process: "subprocess.Popen[str]"
    lines: "collections.deque[str]" = field(default_factory=lambda: collections.deque(maxlen=_LINES))
    is_stopping: bool = False

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def error(self) -> str:
        """The reason why the training failed; empty if it did not."""
        code = self.process.returncode
        if self.is_running or code == 0 or (self.is_stopping and code < 0):
            return ""
        if code < 0:
            return f"the process was killed by signal {-code}. The machine may be out of memory."
        last = next((line for line in reversed(self.lines) if line.strip()), "")
        return last.removeprefix("harness: ") or f"the process ended with exit code {code}."


class Trainings:
    """Starts and stops trainings, one at a time: they share this machine."""

    def __init__(self, root: Path, events: Events) -> None:
        self._root, self._events = root, events
        self._lock = threading.Lock()
        self._all: dict[str, Training] = {}

    def get(self, name: str) -> Training | None:
        """Returns the latest training of a run that this studio started."""
        return self._all.get(name)

    def start(self, name: str, config: Config | None, *options: str) -> None:
        """Starts or resumes a run. Raises UsageError while another training is running."""
        with self._lock:
            if running := next((other for other in self._all.values() if other.is_running), None):
                raise UsageError(f"The run {running.name} is training. Stop it first: one training at a time.")
            process = harness_process.start("train", f"--run={name}", f"--runs={self._root}", "--quiet", *options)
            training = self._all[name] = Training(name, config, process)
        threading.Thread(target=self._follow, args=(training,), daemon=True, name=f"training {name}").start()

    def stop(self, name: str) -> None:
        """Asks a training to save a checkpoint and stop. Does nothing if it has ended."""
        with self._lock:
            training = self._all.get(name)
            if training and training.is_running and not training.is_stopping:
                training.is_stopping = True
                harness_process.stop(training.process)

    def close(self) -> None:
        """Stops the trainings, prints a line on each, and waits for their checkpoints."""
        for training in [training for training in self._all.values() if training.is_running]:
            name = printable(training.name)
            click.echo(f"Stopping the run {name} after it has saved a checkpoint.", err=True)
            self.stop(training.name)
            if not harness_process.end(training.process):
                click.echo(f"The run {name} took too long and was killed. Its last checkpoint is kept.", err=True)

    def _follow(self, training: Training) -> None:
        assert training.process.stdout is not None  # noqa: S101  it is a pipe
        for line in training.process.stdout:
            training.lines.append(line.rstrip()[:_LINE])
            self._tell(training)
        training.process.wait()
        self._tell(training)

    def _tell(self, training: Training) -> None:
        for name in (training.name, ""):
            self._events.publish(topic(name), "changed")


def topic(name: str) -> str:
    """Returns the topic of the events of a run; of all runs if the name is empty."""
    return f"run {name}"
