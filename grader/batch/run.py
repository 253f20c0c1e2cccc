"""Grades what is not graded yet, in several processes or on a cluster, and stores the results."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from commandline.errors import UsageError
from grader.batch import tasks
from grader.batch.intake import Handed, Intake
from grader.batch.store import Record, Store
from grader.batch.tasks import Graded, Task
from grader.course import catalog
from grader.isolation.level import Level
from grader.judge import cache, judge
from grader.judge.verdict import Verdict
from grader.problem import Problem, ProblemName
from grader.report.json import PublicReport

_AHEAD = 2  # tasks handed to each process beyond the one it works on


Place = tuple[str, str]  # learner, problem


@dataclass(frozen=True)
class Plan:
    """The tasks to grade, and the records that need no grading."""

    tasks: list[Task]
    settled: list[Record]
    kept: int
    wanted: set[Place]
    keys: dict[Place, str]
    handed: dict[Place, Handed]


def plan(
    intake: Intake, problems: Sequence[Problem], store: Store, seed: int, timeout: float | None, least: Level
) -> Plan:
    """Compares the files of a class with the stored records."""
    handed = {(item.learner, item.problem): item for item in intake.handed}
    before, keys = store.keys(), dict[Place, str]()
    todo, settled, kept = list[Task](), list[Record](), 0
    for problem in problems:
        for learner in intake.learners:
            place: Place = (learner, problem.name)
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
    wanted: set[Place] = {(learner, problem.name) for learner in intake.learners for problem in problems}
    return Plan(todo, settled, kept, wanted, keys, handed)


def carry_out(
    made: Plan, store: Store, results: Iterator[tuple[Task, Graded | str]], advance: Callable[[int, str], None]
) -> None:
    """Stores the settled records, then each result as it arrives. A text in place of a result says why there is none."""
    store.remember("environment", cache.environment())
    store.keep_only(made.wanted)
    store.put(*made.settled)
    for task, graded in results:
        item = made.handed[task.learner, task.problem]
        if isinstance(graded, str):
            refused = Handed(task.learner, task.problem, item.file, refused=graded)
            store.put(_not_run(catalog.load(task.problem), refused, attempted=True))
        else:
            store.put(_record(graded, item, made.keys[task.learner, task.problem]))
        advance(1, f"{task.learner}, {ProblemName(task.problem).label}")


def here(todo: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Graded | str]]:
    """Grades in `jobs` processes of this machine.

    If a process crashes, the submissions that were being graded are graded again one by one. A submission whose process crashes
    twice gets a sentence in place of a result.
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
                    yield task, "its grading process crashed twice; the machine may be out of memory"
                else:
                    suspects += running.values()
            except BaseException:
                _stop(pool)
                raise


def on_cluster(todo: Sequence[Task], address: str) -> Iterator[tuple[Task, Graded | str]]:
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
        futures = {client.submit(tasks.grade, task, pure=False): task for task in todo}
        for future in distributed.as_completed(list(futures)):
            task = futures.pop(future)
            if isinstance(future.exception(), distributed.KilledWorker):
                yield task, "the workers that graded it crashed; their machines may be out of memory"
            else:
                yield task, future.result()


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_begin)


def _begin() -> None:
    """Prepares a process of the pool: it ignores Ctrl-C, which is for its parent, and ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tasks.end_with_parent()


def _stop(pool: ProcessPoolExecutor) -> None:
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)


def _not_run(problem: Problem, item: Handed, *, attempted: bool) -> Record:
    verdict = Verdict.ERROR if attempted else Verdict.NOT_ATTEMPTED
    report = PublicReport.of(judge.refused(problem, item.file, verdict, item.refused))
    return Record(
        item.learner, problem.name, "", item.file, str(verdict), 0, problem.points, message=item.refused,
        notes="; ".join(item.notes), report=report,
    )  # fmt: skip


def _record(graded: Graded, item: Handed, key: str) -> Record:
    report, first = graded.report, graded.report.first_failure
    return Record(
        graded.learner, graded.problem, key, item.file, str(report.verdict), report.score, report.points,
        misconception=report.misconception.name if report.misconception else "",
        message=f"{first.name}: {first.message}" if first else "", notes="; ".join(item.notes),
        source=item.submission.sources[graded.problem] if item.submission else "", report=report,
    )  # fmt: skip
