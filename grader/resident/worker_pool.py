"""Spare workers: started, confined and warmed up before there is a submission for them."""

import threading
from collections import deque

from grader.errors import ClosedError
from grader.isolation.job import Job
from grader.isolation.sandbox import ForkServer, WorkerProcess


class WorkerPool:
    """A fork server with spare workers for one job. Each is handed out once, and is confined like any other worker."""

    def __init__(self, fork_server: ForkServer) -> None:
        self._fork_server = fork_server
        self._job: Job | None = None
        self._ready: deque[WorkerProcess] = deque()
        self._used: list[WorkerProcess] = []
        self._closed = self._ended = False
        self._lock = threading.Lock()

    def worker(self, job: Job) -> WorkerProcess:
        """Returns a spare worker, or a new one if there is none for this job. Raises ClosedError, also between `end`
        and `resume`."""
        with self._lock:
            if self._closed or self._ended:
                raise ClosedError
            if job == self._job and self._ready:
                worker = self._ready.popleft()
                worker.watch()
            else:
                worker = self._fork_server.worker(job)
            self._used = [used for used in self._used if not used.closed] + [worker]
            return worker

    def fill(self, job: Job, count: int) -> None:
        """Starts spare workers until there are `count` for a job, and ends those for another."""
        with self._lock:
            if self._closed:
                return
            former = list(self._ready) if job != self._job else []
            if former:
                self._ready.clear()
            self._job = job
            for _ in range(count - len(self._ready)):
                self._ready.append(self._fork_server.worker(job, spare=True))
        for worker in former:
            worker.close()

    def end(self) -> None:
        """Ends the workers in use, and hands out none until `resume`."""
        with self._lock:
            self._ended = True
            used = list(self._used)
        for worker in used:
            worker.close()

    def resume(self) -> None:
        """Allows `worker` to return workers again."""
        with self._lock:
            self._ended = False

    def close(self) -> None:
        """Ends all workers, those in use included."""
        with self._lock:
            self._closed = True
        for worker in (*self._ready, *self._used):
            worker.close()
