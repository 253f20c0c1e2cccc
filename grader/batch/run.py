"""Grades new and changed submissions, in several processes or on a cluster, and stores the results."""

import contextlib
import multiprocessing
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from grader.batch import tasks
from grader.batch.intake import Intake, IntakeItem
from grader.batch.store import Record, Store
from grader.batch.tasks import Graded, Task
from grader.course import catalog
from grader.isolation.level import Level
from grader.isolation.sandbox import ForkServer
from grader.judge import cache, judge
from grader.judge.verdict import Verdict
from grader.problem import Problem
from grader.report.json import PublicReport

_AHEAD = 2  # tasks handed to each process beyond the one it works on
# Processes that share a zygote. It forks one worker after another, 10 ms each, and a process asks for about ten a second.
_SHARING = 8


Slot = tuple[str, str]  # learner, problem


@dataclass(frozen=True)
class Plan:
    """The work of a batch.

    `tasks` are the submissions to grade, `settled` the records that need no grading, and `unchanged` the number of stored
    records that are still valid. `same` has, for a task, the others whose files hold the same code: its result is theirs, too.
    `wanted` has every learner and problem, `items` what was submitted for them, and `keys` the hashes of what decides the
    results.
    """

    tasks: list[Task]
    settled: list[Record]
    unchanged: int
    same: dict[Slot, list[Slot]]
    wanted: set[Slot]
    keys: dict[Slot, str]
    items: dict[Slot, IntakeItem]


def plan(
    intake: Intake, problems: Sequence[Problem], store: Store, seed: int, timeout: float | None, least: Level
) -> Plan:
    """Compares the submissions of a class with the stored records."""
    items: dict[Slot, IntakeItem] = {(item.learner, item.problem): item for item in intake.items}
    stored, keys = store.keys(), dict[Slot, str]()
    to_grade, settled, unchanged = dict[str, Task](), list[Record](), 0
    same: dict[Slot, list[Slot]] = {}
    for problem in problems:
        for learner in intake.learners:
            slot: Slot = (learner, problem.name)
            item = items.get(slot)
            if item is None or item.submission is None:
                nothing = IntakeItem(learner, problem.name, refused="nothing was submitted")
                settled.append(_not_run(problem, item or nothing, attempted=item is not None))
                continue
            name, sources = item.submission.filename, dict(item.submission.sources)
            keys[slot] = tasks.key(problem, sources, name, seed, timeout)
            if stored.get(slot) == keys[slot]:
                unchanged += 1
                continue
            code = {module: tasks.without_comments(text) for module, text in sources.items()}
            code_key = tasks.key(problem, code, name, seed, timeout)
            if first := to_grade.get(code_key):
                same.setdefault((first.learner, first.problem), []).append(slot)
                continue
            version = tasks.definition(problem.name)
            to_grade[code_key] = Task(learner, problem.name, name, sources, seed, timeout, least, version)
    wanted: set[Slot] = {(learner, problem.name) for learner in intake.learners for problem in problems}
    return Plan(list(to_grade.values()), settled, unchanged, same, wanted, keys, items)


def carry_out(
    plan: Plan, store: Store, results: Iterator[tuple[Task, Graded | str]], advance: Callable[[int, str], None]
) -> None:
    """Stores the settled records, then each result as it arrives.

    The result of a submission that could not be graded is a text that says why.
    """
    store.remember("environment", cache.environment())
    store.keep_only(plan.wanted)
    store.put(*plan.settled)
    for task, graded in results:
        slots = [(task.learner, task.problem), *plan.same.get((task.learner, task.problem), [])]
        store.put(*(_of_task(graded, plan.items[slot], plan.keys[slot]) for slot in slots))
        advance(len(slots), f"{task.learner}, {ProblemName(task.problem).label}")


def here(to_grade: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Graded | str]]:
    """Grades in `jobs` processes of this machine.

    If a process crashes, the submissions that were being graded are graded again one by one. A submission whose process
    crashes twice gets a text instead of a result.
    """
    pending, suspects = list(reversed(to_grade)), list[Task]()
    fork_server = ForkServer() if to_grade and jobs <= _SHARING else None
    try:
        while pending or suspects:
            alone = bool(suspects)
            queue = [suspects.pop()] if alone else pending
            running: dict[Future[Graded], Task] = {}
            try:
                yield from _grade(queue, running, 1 if alone else jobs, fork_server)
            except BrokenProcessPool:
                if alone:
                    (task,) = running.values()
                    yield task, "its grading process crashed twice; the machine may be out of memory"
                else:
                    suspects += running.values()
    finally:
        if fork_server:
            fork_server.close()


def _grade(
    queue: list[Task], running: dict[Future[Graded], Task], jobs: int, fork_server: ForkServer | None
) -> Iterator[tuple[Task, Graded]]:
    """Grades the tasks of a queue in a pool of processes. Those being graded stay in `running`. Raises BrokenProcessPool."""
    with _pool(jobs, fork_server) as pool:
        try:
            while queue or running:
                with _interrupted_later():
                    while queue and len(running) < jobs * (1 + _AHEAD):
                        task = queue.pop()
                        running[pool.submit(tasks.grade, task)] = task
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    result = future.result()
                    yield running.pop(future), result
        except BrokenProcessPool:
            raise
        except BaseException:
            _stop(pool)
            raise


def on_cluster(to_grade: Sequence[Task], address: str) -> Iterator[tuple[Task, Graded | str]]:
    """Grades on the workers of a Dask cluster. If a worker dies, another one grades its submissions. Raises UsageError."""
    try:
        import distributed
    except ImportError:
        raise UsageError(
            "--scheduler needs Dask: run python3 -m pip install 'gpt-kata[cluster]' here and on the cluster."
        ) from None
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise UsageError(f"No Dask scheduler answers at {address}: {error}.") from None
    with client:
        futures = {client.submit(tasks.grade, task, pure=False): task for task in to_grade}
        for future in distributed.as_completed(list(futures)):
            task = futures.pop(future)
            if isinstance(future.exception(), distributed.KilledWorker):
                yield task, "the workers that graded it crashed; their machines may be out of memory"
            else:
                yield task, future.result()


def _pool(jobs: int, fork_server: ForkServer | None) -> ProcessPoolExecutor:
    control = fork_server.control if fork_server else None
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(control,))


def _begin(control: socket.socket | None) -> None:
    """Prepares a process of the pool: it leaves Ctrl-C to its parent, ends when the parent does, and uses the parent's zygote."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    tasks.end_with_parent()
    tasks.BatchGrader.control = control


@contextlib.contextmanager
def _interrupted_later() -> Iterator[None]:
    """Inside the context, Ctrl-C waits, also for processes that are started there: they would print a traceback of their imports.

    Raises KeyboardInterrupt at the end.
    """
    received: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, previous)
    if received:
        raise KeyboardInterrupt


def _stop(pool: ProcessPoolExecutor) -> None:
    manager: Any = pool._executor_manager_thread  # a thread, or None
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)
    if manager is not None:
        manager.join(timeout=5)  # otherwise the exit of Python may write to a pipe that this thread is closing


def _not_run(problem: Problem, item: IntakeItem, *, attempted: bool) -> Record:
    verdict = Verdict.ERROR if attempted else Verdict.NOT_ATTEMPTED
    report = PublicReport.of(judge.refused(problem, item.file, verdict, item.refused))
    return Record(
        item.learner, problem.name, "", item.file, str(verdict), 0, problem.points, message=item.refused,
        notes="; ".join(item.notes), report=report,
    )  # fmt: skip


def _of_task(graded: Graded | str, item: IntakeItem, key: str) -> Record:
    """The record of a graded file, or of one that could not be graded."""
    if isinstance(graded, str):
        refused = IntakeItem(item.learner, item.problem, item.file, refused=graded)
        return _not_run(catalog.load(item.problem), refused, attempted=True)
    report, failed = graded.report, graded.report.first_failure
    return Record(
        item.learner, item.problem, key, item.file, str(report.verdict), report.score, report.points,
        misconception=report.misconception.name if report.misconception else "",
        message=f"{failed.name}: {failed.message}" if failed else "", notes="; ".join(item.notes),
        source=item.submission.sources[item.problem] if item.submission else "", report=report,
    )  # fmt: skip
