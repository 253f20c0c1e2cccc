"""Spare workers: started, confined and warmed up before there is a submission for them."""

from __future__ import annotations

import threading
from collections import deque

from grader.isolation.job import Job
from grader.isolation.sandbox import ForkServer, WorkerProcess


class Spares:
    """A fork server with spare workers for one job. Each is handed out once, and is confined like any other worker."""

    def __init__(self, fork_server: ForkServer) -> None:
        self._fork_server = fork_server
        self._job: Job | None = None
        self._ready: deque[WorkerProcess] = deque()
        self._lock = threading.Lock()

    def worker(self, job: Job) -> WorkerProcess:
        """A spare worker, or a new one if there is none for this job."""
        with self._lock:
            spare = self._ready.popleft() if job == self._job and self._ready else None
        if spare is None:
            return self._fork_server.worker(job)
        spare.watch()
        return spare

    def fill(self, job: Job, count: int) -> None:
        """Starts spare workers until there are `count` for a job, and ends those for another."""
        with self._lock:
            former = list(self._ready) if job != self._job else []
            if former:
                self._ready.clear()
            self._job = job
            for _ in range(count - len(self._ready)):
                self._ready.append(self._fork_server.worker(job, spare=True))
        for spare in former:
            spare.close()

    def close(self) -> None:
        """Ends the spare workers."""
        with self._lock:
            former = list(self._ready)
            self._ready.clear()
        for spare in former:
            spare.close()
