"""Grades new and changed submissions, in several processes or on a cluster, and stores the results."""

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from commandline import cores, invocation
from commandline.errors import CommandError, UsageError
from commandline.problem_name import ProblemName
from grader.batch import reader, similarity, tasks
from grader.batch.collect import IntakeItem
from grader.batch.faults import Faults
from grader.batch.intake import Intake
from grader.batch.records import StoredAttempt
from grader.batch.store import Settle, Store
from grader.batch.tasks import Graded, Task
from grader.course import catalog
from grader.isolation import child
from grader.isolation.level import Level
from grader.isolation.sandbox import ForkServer
from grader.judge import judge
from grader.judge.submission import Submission
from grader.judge.verdict import Verdict
from grader.report.json_report import PublicReport

_AHEAD = 2  # tasks handed to each process beyond the one it works on
# Processes that share a zygote. It forks one worker after another, 10 ms each, and a process asks for about ten a
# second.
_SHARING = 8


Slot = tuple[str, str]  # learner, problem
AttemptSlot = tuple[str, str, str]  # learner, problem, attempt


@dataclass(frozen=True)
class Plan:
    """The work of a batch.

    Attributes:
        tasks: The submissions to grade.
        settled: The attempts that need no grading.
        missing: The number of learners and problems without any submission.
        unchanged: The number of submissions whose stored results are still valid.
        same: For a task, the other attempts whose files hold the same code. They get its result.
        wanted: Every learner and problem of the batch.
        to_store: The attempts to grade, without their results.
    """

    tasks: list[Task]
    settled: list[StoredAttempt]
    missing: int
    unchanged: int
    same: dict[AttemptSlot, list[AttemptSlot]]
    wanted: set[Slot]
    to_store: dict[AttemptSlot, StoredAttempt]

    @property
    def repeated(self) -> int:
        """The number of submissions that repeat the code of another."""
        return sum(map(len, self.same.values()))

    @property
    def total(self) -> int:
        """The number of submissions that get a new result."""
        return len(self.tasks) + self.repeated

    @property
    def unreadable(self) -> int:
        """The number of submissions that cannot be read."""
        return sum(bool(attempt.attempt) for attempt in self.settled)


def plan(intake: Intake, store: Store, seed: int, timeout: float | None, least: Level) -> Plan:
    """Compares the submissions of a class, and the earlier ones that are stored, with the stored results."""
    items: dict[Slot, list[IntakeItem]] = {}
    for item in sorted(intake.items, key=lambda item: item.submitted.timestamp() if item.submitted else 0.0):
        items.setdefault((item.learner, item.problem), []).append(item)
    settled, missing, unchanged = list[StoredAttempt](), 0, 0
    to_store: dict[AttemptSlot, StoredAttempt] = {}
    for problem in intake.problems:
        for learner in intake.learners:
            own, attempts = items.get((learner, problem.name), []), store.attempts(learner, problem.name)
            latest = set[str]()
            if not own:
                missing += not attempts
                nothing = IntakeItem(learner, problem.name, refused=_nothing(intake, learner))
                settled.append(_not_run(nothing, attempted=False))
            for item in own:
                if item.submission is None:
                    settled.append(_not_run(item, attempted=True))
                    continue
                current = _attempt(item, item.submission)
                key = tasks.key(problem, current.sources, _name(current), seed, timeout)
                attempts = _with(store, attempts, current, key)
                latest.add(current.attempt)
            for attempt in attempts:
                if not attempt.sources:
                    continue  # it could not be read, and there is nothing to grade again
                key = tasks.key(problem, attempt.sources, _name(attempt), seed, timeout)
                if attempt.key == key:
                    unchanged += attempt.attempt in latest
                else:
                    to_store[learner, problem.name, attempt.attempt] = replace(attempt, key=key)
    to_grade, same = _tasks(to_store, seed, timeout, least)
    wanted: set[Slot] = {(learner, problem.name) for learner in intake.learners for problem in intake.problems}
    return Plan(to_grade, settled, missing, unchanged, same, wanted, to_store)


def _tasks(
    to_store: Mapping[AttemptSlot, StoredAttempt], seed: int, timeout: float | None, least: Level
) -> tuple[list[Task], dict[AttemptSlot, list[AttemptSlot]]]:
    """Returns a task for each code to grade, and, for a task, the other attempts with the same code."""
    texts: dict[str, dict[str, str]] = {}
    for (learner, _, _), attempt in to_store.items():
        texts.setdefault(learner, {}).update({similarity.digest(text): text for text in attempt.sources.values()})
    tokens = reader.tokens(texts)
    first: dict[str, Task] = {}
    same: dict[AttemptSlot, list[AttemptSlot]] = {}
    for slot, attempt in to_store.items():
        learner, name, sources = attempt.learner, attempt.problem, dict(attempt.sources)
        digests = {module: similarity.digest(text) for module, text in sources.items()}
        code = {module: tokens[one].code if one in tokens else one for module, one in digests.items()}
        key = tasks.key(catalog.load(name), code, _name(attempt), seed, timeout)
        if task := first.get(key):
            same.setdefault(_slot(task), []).append(slot)
        else:
            version = tasks.definition(name)
            first[key] = Task(learner, name, attempt.attempt, _name(attempt), sources, seed, timeout, least, version)
    return list(first.values()), same


def _nothing(intake: Intake, learner: str) -> str:
    """Returns the reason why a learner has no file for a problem."""
    others = [file for file in intake.unused if file.learner == learner and file.may_be_a_submission]
    return f"no file for it: {others[0].file} {others[0].reason}" if others else "nothing was submitted"


def _with(store: Store, attempts: list[StoredAttempt], current: StoredAttempt, key: str) -> list[StoredAttempt]:
    """Returns the stored attempts and the current one, which becomes the newest. The same code keeps its result at
    another time."""
    if any(attempt.attempt == current.attempt for attempt in attempts):
        store.make_newest(current.learner, current.problem, current.attempt)
        return attempts
    if equal := next((attempt for attempt in attempts if attempt.key == key), None):
        store.copy_result(equal, current)
        return [*attempts, replace(current, key=key)]
    return [*attempts, current]


def carry_out(
    plan: Plan,
    store: Store,
    settle: Settle,
    results: Iterator[tuple[Task, Graded | str]],
    advance: Callable[[int, str], None],
    faults: Faults,
) -> None:
    """Stores the settled attempts, then each result as it arrives.

    The result of a submission that could not be graded is a text that says why. An error that storing a result raises
    becomes that learner's result.
    """
    problems = [catalog.load(problem) for problem in sorted({problem for _, problem in plan.wanted})]
    store.apply_points({each.name: {check.name: check.points for check in each.checks} for each in problems})
    store.put(settle, *plan.settled)
    store.settle(settle, sorted({learner for learner, _ in plan.wanted}))
    some_checks = store.of_some_checks()
    for task, graded in results:
        slots = [_slot(task), *plan.same.get(_slot(task), [])]
        for slot in slots:
            attempt = plan.to_store[slot]
            try:
                store.put(settle, _graded(attempt, _of_checks(graded, some_checks.get(slot))))
            except CommandError:
                raise
            except Exception as error:  # whatever it is, the rest of the class is graded
                store.put(settle, _graded(attempt, faults.add(task.learner, error)))
        advance(len(slots), f"{task.learner}, {ProblemName(task.problem).label}")


def _slot(task: Task) -> AttemptSlot:
    return task.learner, task.problem, task.attempt


def _attempt(item: IntakeItem, source: Submission | None) -> StoredAttempt:
    """Returns the attempt that an item is, without a result."""
    return StoredAttempt(
        item.learner, item.problem, "", "", item.file, "", 0, catalog.load(item.problem).points, message=item.refused,
        notes="; ".join(item.notes), sources=dict(source.sources) if source else {},
        submitted=item.submitted.isoformat() if item.submitted else "", marked_late=item.late, members=item.members,
    ).identified()  # fmt: skip


def _name(attempt: StoredAttempt) -> str:
    """Returns the name of an attempt's file in reports."""
    return PurePosixPath(attempt.file).name


def here(to_grade: Sequence[Task], jobs: int, faults: Faults) -> Iterator[tuple[Task, Graded | str]]:
    """Grades in `jobs` processes of this machine.

    If a process crashes, the submissions that were being graded are graded again one by one. A submission whose process
    crashes twice gets a text instead of a result, and so does one whose grading raises an internal error. A submission
    that timed out beside others is graded once more at the end, alone: a busy machine is not the learner's fault.
    """
    pending, suspects, late = list(reversed(to_grade)), list[Task](), list[Task]()
    fork_server = ForkServer() if to_grade and jobs <= _SHARING else None
    try:
        while pending or suspects or late:
            alone = bool(suspects)
            queue = [suspects.pop()] if alone else pending or late
            at_once = jobs if queue is pending else 1
            running: dict[Future[Graded], Task] = {}
            try:
                for task, result in _grade(queue, running, at_once, fork_server, faults):
                    if at_once > 1 and _timed_out(result):
                        late.append(task)
                    else:
                        yield task, result
            except BrokenProcessPool:
                if alone:
                    (task,) = running.values()
                    yield task, "its grading process crashed twice; the machine may be out of memory"
                else:
                    suspects += running.values()
    finally:
        if fork_server:
            fork_server.close()


def _timed_out(result: Graded | str) -> bool:
    return isinstance(result, Graded) and result.report.verdict is Verdict.TIMEOUT


def _grade(
    queue: list[Task], running: dict[Future[Graded], Task], jobs: int, fork_server: ForkServer | None, faults: Faults
) -> Iterator[tuple[Task, Graded | str]]:
    """Grades the tasks of a queue in a pool of processes. Those being graded stay in `running`. Raises
    BrokenProcessPool."""
    with _pool(jobs, fork_server) as pool:
        try:
            while queue or running:
                with _interrupted_later():
                    while queue and len(running) < jobs * (1 + _AHEAD):
                        task = queue.pop()
                        running[pool.submit(tasks.grade, task)] = task
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    result = _result(future, running[future].learner, faults)
                    yield running.pop(future), result
        except BrokenProcessPool:
            raise
        except BaseException:
            _stop(pool)
            raise


def _result(future: Future[Graded], learner: str, faults: Faults) -> Graded | str:
    """Returns a result, or the sentence on an internal error. Raises CommandError, which concerns the class, and
    BrokenProcessPool."""
    try:
        return future.result()
    except (CommandError, BrokenProcessPool):
        raise
    except Exception as error:
        return faults.add(learner, error)


def on_cluster(to_grade: Sequence[Task], address: str, faults: Faults) -> Iterator[tuple[Task, Graded | str]]:
    """Grades on the workers of a Dask cluster. If a worker dies, another one grades its submissions. Raises
    UsageError."""
    try:
        import distributed
    except ImportError:
        raise UsageError(
            f"--scheduler needs Dask: run `{invocation.install('distributed')}` here and on the cluster."
        ) from None
    import dask.utils

    # Dask tries again until then, also where nothing listens. Its own default is 30 s.
    patience = min(10, dask.utils.parse_timedelta(dask.config.get("distributed.comm.timeouts.connect")))
    try:
        client = distributed.Client(address, timeout=patience)
    except (OSError, ValueError) as error:
        raise UsageError(f"No Dask scheduler answers at {address}: {error}.") from None
    with client:
        futures = {client.submit(tasks.grade, task, pure=False): task for task in to_grade}
        for future in distributed.as_completed(list(futures)):
            task = futures.pop(future)
            if isinstance(future.exception(), distributed.KilledWorker):
                yield task, "the workers that graded it crashed; their machines may be out of memory"
            else:
                yield task, _result(future, task.learner, faults)


def _pool(jobs: int, fork_server: ForkServer | None) -> ProcessPoolExecutor:
    control = fork_server.control if fork_server else None
    spawn = multiprocessing.get_context("spawn")
    return cores.pool(jobs, mp_context=spawn, initializer=_begin, initargs=(control,))


def _begin(control: socket.socket | None) -> None:
    """Prepares a process of the pool: it leaves Ctrl-C to its parent, ends when the parent does, and uses the parent's
    zygote."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    child.end_with(os.getppid())
    tasks.BatchGrader.control = control


@contextlib.contextmanager
def _interrupted_later() -> Iterator[None]:
    """Delays Ctrl-C until the end of the context, also in processes that start within it: those would print a traceback
    of their imports.

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


def _not_run(item: IntakeItem, *, attempted: bool) -> StoredAttempt:
    """Returns the attempt for a file that could not be read, or for a missing one."""
    attempt = _attempt(item, None) if attempted else replace(_attempt(item, None), attempt="")
    return _refused(attempt, Verdict.ERROR if attempted else Verdict.NOT_ATTEMPTED, item.refused)


def _refused(attempt: StoredAttempt, verdict: Verdict, reason: str) -> StoredAttempt:
    report = judge.refused(catalog.load(attempt.problem), attempt.file, verdict, reason)
    return replace(attempt, key="", verdict=str(verdict), score=0, message=reason, report=PublicReport.of(report))


def _of_checks(graded: Graded | str, kept: tuple[list[str], PublicReport] | None) -> Graded | str:
    """Returns the result, with only these checks replaced, where only some were to be graded again."""
    if kept is None or isinstance(graded, str):
        return graded
    names, report = kept
    for name in names:
        report = report.with_check(name, graded.report)
    return replace(graded, report=report)


def _graded(attempt: StoredAttempt, graded: Graded | str) -> StoredAttempt:
    """Returns the attempt with its result, or with the reason why it could not be graded."""
    if isinstance(graded, str):
        return _refused(attempt, Verdict.ERROR, graded)
    report = graded.report
    return replace(
        attempt, verdict=str(report.verdict), score=report.score, points=report.points,
        misconception=report.misconception.name if report.misconception else "",
        message=report.summary(), report=report,
    )  # fmt: skip
