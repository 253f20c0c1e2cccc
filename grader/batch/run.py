"""Grades a class: what is not graded yet, in several processes or on a cluster, and keeps what came of it."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from commandline.errors import UsageError
from grader import cache, course, judge
from grader.batch import tasks
from grader.batch.intake import Handed, Intake
from grader.batch.store import Record, Store
from grader.batch.tasks import Graded, Task
from grader.problem import Problem
from grader.report import json as report_json
from grader.verdict import Verdict

_AHEAD = 2  # tasks handed to each process beyond the one it works on


@dataclass(frozen=True)
class Plan:
    """What is to be graded, and what is to be written down without that."""

    tasks: list[Task]
    settled: list[Record]
    kept: int
    wanted: set[tuple[str, str]]
    keys: dict[tuple[str, str], str]
    handed: dict[tuple[str, str], Handed]


def plan(
    intake: Intake, problems: Sequence[Problem], store: Store, seed: int, timeout: float | None, least: str
) -> Plan:
    """Compares what was handed in with the records that are there."""
    handed = {(item.learner, item.problem): item for item in intake.handed}
    before, keys = store.keys(), dict[tuple[str, str], str]()
    todo, settled, kept = list[Task](), list[Record](), 0
    for problem in problems:
        for learner in intake.learners:
            place = (learner, problem.name)
            item = handed.get(place)
            if item is None or item.submission is None:
                nothing = Handed(learner, problem.name, refused="nothing was handed in")
                settled.append(_not_run(problem, item or nothing, attempted=item is not None))
                continue
            name, sources = item.submission.filename, dict(item.submission.sources)
            keys[place] = tasks.key(problem, sources, name, seed, timeout)
            if before.get(place) == keys[place]:
                kept += 1
                continue
            version = tasks.definition(problem.name)
            todo.append(Task(learner, problem.name, name, sources, seed, timeout, least, version))
    wanted = {(learner, problem.name) for learner in intake.learners for problem in problems}
    return Plan(todo, settled, kept, wanted, keys, handed)


def carry_out(
    made: Plan, store: Store, results: Iterator[tuple[Task, Graded | str]], advance: Callable[[int, str], None]
) -> None:
    """Writes down what was settled, and each result as it comes. A text instead of a result says why there is none."""
    store.remember("environment", cache.environment())
    store.keep_only(made.wanted)
    store.put(*made.settled)
    for task, graded in results:
        item = made.handed[task.learner, task.problem]
        if isinstance(graded, str):
            refused = Handed(task.learner, task.problem, item.file, refused=graded)
            store.put(_not_run(course.load(task.problem), refused, attempted=True))
        else:
            store.put(_record(graded, item, made.keys[task.learner, task.problem]))
        advance(1, f"{task.learner}, {task.problem[1:3]}")


def here(todo: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Graded | str]]:
    """Grades in that many processes of this machine.

    Where one dies, those that were being graded then are graded again, one by one; one with which it dies again gets no result.
    """
    waiting, suspects = list(reversed(todo)), list[Task]()
    while waiting or suspects:
        alone = bool(suspects)
        running: dict[Future[Graded], Task] = {}
        with _pool(1 if alone else jobs) as pool:
            queue = [suspects.pop()] if alone else waiting
            try:
                while queue or running:
                    while queue and len(running) < jobs * (1 + _AHEAD):
                        task = queue.pop()
                        running[pool.submit(tasks.grade, task)] = task
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        result = future.result()
                        yield running.pop(future), result
            except BrokenProcessPool:
                if alone:
                    (task,) = running.values()
                    yield task, "the process that graded it ended twice, perhaps because this machine is out of memory"
                else:
                    suspects += running.values()
            except BaseException:
                _stop(pool)
                raise


def on_cluster(todo: Sequence[Task], address: str) -> Iterator[tuple[Task, Graded | str]]:
    """Grades on the workers of a Dask cluster. What a worker that dies had is graded by another. Raises UsageError."""
    try:
        import distributed
    except ImportError:
        raise UsageError(
            "--scheduler needs Dask: python3 -m pip install 'gpt-kata[cluster]' (here and on it)."
        ) from None
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise UsageError(f"There is no Dask scheduler at {address}: {error}.") from None
    with client:
        futures = {client.submit(tasks.grade, task, pure=False): task for task in todo}
        for future in distributed.as_completed(list(futures)):
            task = futures.pop(future)
            if isinstance(future.exception(), distributed.KilledWorker):
                yield task, "the machines that graded it ended, perhaps because they are out of memory"
            else:
                yield task, future.result()


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_begin)


def _begin() -> None:
    """In each process of a pool: Ctrl-C is for the one that started it, which it does not outlive."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tasks.end_with_parent()


def _stop(pool: ProcessPoolExecutor) -> None:
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)


def _not_run(problem: Problem, item: Handed, *, attempted: bool) -> Record:
    verdict = Verdict.ERROR if attempted else Verdict.NOT_ATTEMPTED
    report = report_json.as_object(judge.refused(problem, item.file, verdict, item.refused))
    return Record(
        item.learner, problem.name, "", item.file, str(verdict), 0, problem.points, message=item.refused,
        notes="; ".join(item.notes), report=report,
    )  # fmt: skip


def _record(graded: Graded, item: Handed, key: str) -> Record:
    report = graded.report
    first = next((check for check in report["checks"] if not check["passed"]), None)
    idea = report["misconception"]
    return Record(
        graded.learner, graded.problem, key, item.file, graded.verdict, graded.score, report["points"],
        misconception=idea["name"] if idea else "", message=f"{first['name']}: {first['message']}" if first else "",
        notes="; ".join(item.notes), source=item.submission.sources[graded.problem] if item.submission else "",
        report=report,
    )  # fmt: skip
