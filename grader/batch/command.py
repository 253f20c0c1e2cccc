"""`grade batch`: from the submissions of a class to tables, gradebooks and a summary."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from commandline.errors import Interrupted, UsageError
from commandline.progress import progress
from commandline.text import counted
from grader.batch import gradebook, intake, run, summary
from grader.batch.store import Store
from grader.course import catalog
from grader.course.seed import create_seed, read_seed
from grader.isolation import scratch
from grader.isolation.level import Level
from grader.judge import cache

SEED = "seed.txt"


@dataclass(frozen=True)
class BatchOptions:
    """How a class is graded.

    `problems` is a list such as `01-08,12`; without it, all problems that have a submission are graded. `jobs` is the number
    of processes, `timeout` the limit in seconds for each submission, and `least` the lowest level of isolation that is
    accepted. `scheduler` is the address of a Dask cluster. `formats` are the gradebooks and reports to write in addition to
    the tables.
    """

    problems: str | None = None
    seed_file: Path | None = None
    jobs: int | None = None
    timeout: float | None = None
    least: Level = Level.STRICT
    scheduler: str | None = None
    formats: tuple[str, ...] = ()


def batch(submissions: Path, results: Path, options: BatchOptions) -> Iterator[str]:
    """Grades new and changed submissions, writes the results, and yields lines for the terminal. Raises CommandError."""
    problems = catalog.select(options.problems) if options.problems else catalog.problems()
    intake_ = intake.read(submissions, problems)
    if not options.problems:
        problems = [catalog.load(name) for name in intake.submitted_problems(intake_)]
    if not problems:
        raise UsageError(
            f"No submission in {submissions} matches a problem; files must be named like {catalog.names()[0]}.py."
        )
    yield (
        f"{counted(len(intake_.learners), 'learner')} ({intake_.layout}), {counted(len(problems), 'problem')}, "
        f"{counted(len(intake_.items), 'file')}."
    )
    yield from (f"Note: {note}." for note in intake_.notes)
    store = Store(results)
    try:
        seed_file = options.seed_file or results / SEED
        if options.seed_file is None:
            create_seed(seed_file)
        earlier = store.fact("environment")
        plan = run.plan(intake_, problems, store, read_seed(seed_file), options.timeout, options.least)
        if earlier and earlier != cache.environment():
            yield "Note: existing results are from a different version of the course or its packages and will be regraded."
        repeated = sum(map(len, plan.same.values()))
        total = len(plan.tasks) + repeated
        how = f", of which {repeated} repeat the code of another" if repeated else ""
        yield f"To grade: {total}{how}. Unchanged: {plan.unchanged}. Missing or unreadable: {len(plan.settled)}."
        if options.scheduler:
            graded = run.on_cluster(plan.tasks, options.scheduler)
        else:
            graded = run.here(plan.tasks, options.jobs or _cores())
        with progress("grading", unit="submissions", total=total) as advance:
            try:
                run.carry_out(plan, store, graded, advance)
            except KeyboardInterrupt:
                raise Interrupted(
                    f"Interrupted with {len(store.keys())} of {len(plan.wanted)} results saved. Rerun the command to resume."
                ) from None
        records = store.records()
        yield str(store.write_table())
        for name in options.formats:
            write = gradebook.GRADEBOOKS.get(name)
            yield str(write(records, results) if write else gradebook.write_reports(records, results, name))
        summary_ = summary.summarize(records)
        yield from map(str, summary.write_all(summary_, results))
        yield ", ".join(f"{count} {verdict}" for verdict, count in sorted(summary_.verdicts.items())) + "."
    finally:
        store.close()
        scratch.sweep()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
