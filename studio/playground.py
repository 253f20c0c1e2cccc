"""Playgrounds: processes that have loaded a run's model and answer the pages that ask about it."""

import contextlib
import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from studio import harness_process
from studio.events import Events

_MOST = 2  # models in memory
_IDLE = 600.0  # seconds without a request after which a model leaves the memory


class Playgrounds:
    """Sends requests to the process of a run, which it starts, and publishes the answers to the page that asked."""

    def __init__(self, root: Path, events: Events) -> None:
        self._root, self._events = root, events
        self._lock = threading.Lock()
        self._processes: dict[str, _Process] = {}

    def ask(self, name: str, version: int, page: str, request: dict[str, Any]) -> None:
        """Sends a request of a page. A process that loaded another `version` of the run is replaced."""
        with self._lock:
            process = self._processes.pop(name, None)
            is_old = process is not None and process.version != version and request["kind"] in ("read", "sample")
            if process is None or is_old or not process.is_running:
                if process:
                    process.close()
                process = _Process(self._root, name, version, self._events)
            self._processes[name] = process  # in the order of their last use
            for idle in list(self._processes)[:-_MOST]:
                self._processes.pop(idle).close()
        process.ask(page, request)

    def tidy(self) -> None:
        """Ends the processes that nobody has used for long."""
        with self._lock:
            for name in [name for name, process in self._processes.items() if process.idle_for() > _IDLE]:
                self._processes.pop(name).close()

    def close(self) -> None:
        """Ends all processes."""
        with self._lock:
            for process in self._processes.values():
                process.close()
            self._processes.clear()


class _Process:
    def __init__(self, root: Path, name: str, version: int, events: Events) -> None:
        self.version = version
        self._name, self._events = name, events
        self._process = harness_process.start(
            "playground", f"--runs={root}", "--", name, stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._used = time.monotonic()
        self._writing = threading.Lock()
        self._pages = set[str]()
        self._errors = list[str]()
        reading = threading.Thread(target=self._read_errors, daemon=True)
        reading.start()
        threading.Thread(target=self._read, args=(reading,), daemon=True).start()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def idle_for(self) -> float:
        """Returns the seconds since the last request or answer."""
        return time.monotonic() - self._used

    def ask(self, page: str, request: dict[str, Any]) -> None:
        self._used = time.monotonic()
        self._pages.add(page)
        assert self._process.stdin is not None  # noqa: S101  it is a pipe
        with self._writing, contextlib.suppress(OSError):  # it has ended; `_read` says why
            print(json.dumps(request | {"page": page}), file=self._process.stdin, flush=True)

    def close(self) -> None:
        """Ends the process. It holds nothing that could be lost."""
        harness_process.kill(self._process)

    def _read(self, errors: threading.Thread) -> None:
        assert self._process.stdout is not None  # noqa: S101
        for line in self._process.stdout:
            self._used = time.monotonic()
            answer = json.loads(line)
            page, kind = answer.pop("page"), answer.pop("kind")
            self._events.publish(topic(self._name, page), kind, **answer)
        code = self._process.wait()
        errors.join()
        words = next((line.strip() for line in reversed(self._errors) if line.strip()), f"exit code {code}")
        for page in self._pages:
            if code > 0:
                self._events.publish(topic(self._name, page), "failed", words=words.removeprefix("harness: "))
            self._events.publish(topic(self._name, page), "end")

    def _read_errors(self) -> None:
        assert self._process.stderr is not None  # noqa: S101
        for line in self._process.stderr:
            self._errors[:] = [*self._errors[-20:], line[:1000]]


def topic(name: str, page: str) -> str:
    """Returns the topic of the events of one page about a run."""
    return f"playground {name} {page}"
