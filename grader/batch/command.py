"""`grade batch`: from what a class handed in to what a teacher needs, told in lines."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from commandline.errors import UsageError
from commandline.progress import progress
from grader import cache, course, scratch, secret
from grader.batch import gradebook, intake, run, summary
from grader.batch.store import Store

SEED = "seed.txt"


def batch(
    submissions: Path,
    results: Path,
    chosen: str | None,
    seed_file: Path | None,
    jobs: int | None,
    timeout: float | None,
    accepts: str | None,
    scheduler: str | None,
    formats: Sequence[str],
) -> Iterator[str]:
    """Grades what is not graded yet and writes everything down; says how it goes in lines. Raises CommandError."""
    problems = course.select(chosen) if chosen else course.problems()
    read = intake.read(submissions, problems)
    if not chosen:
        problems = [course.load(name) for name in intake.handed_problems(read)]
    if not problems:
        raise UsageError(
            f"Nobody in {submissions} handed in a file of this course: they are called {course.names()[0]}.py and so on."
        )
    yield f"{len(read.learners)} learners ({read.layout}), {len(problems)} problems, {len(read.handed)} files."
    yield from (f"Note: {note}." for note in read.notes)
    store = Store(results)
    try:
        if seed_file is None:
            seed_file = results / SEED
            secret.make(seed_file)
        seed = secret.number(seed_file)
        before = store.fact("environment")
        made = run.plan(read, problems, store, seed, timeout, accepts or "strict")
        if before and before != cache.environment():
            yield "Note: the results there are of another version of the course or of its packages; they are made again."
        yield f"To grade: {len(made.tasks)}. Unchanged: {made.kept}. Nothing to grade: {len(made.settled)}."
        graded = run.on_cluster(made.tasks, scheduler) if scheduler else run.here(made.tasks, jobs or _cores())
        with progress("grading", unit="submissions", total=len(made.tasks)) as advance:
            try:
                run.carry_out(made, store, graded, advance)
            except KeyboardInterrupt:
                raise UsageError(
                    f"Stopped; {len(store.keys())} of {len(made.wanted)} records are there. The same command goes on."
                ) from None
        records = store.records()
        yield str(store.write_table())
        for name in formats:
            making = gradebook.GRADEBOOKS.get(name)
            yield str(making(records, results) if making else gradebook.write_reports(records, results, name))
        found = summary.summarise(records)
        yield from map(str, summary.write_all(found, results))
        yield ", ".join(f"{count} {verdict}" for verdict, count in sorted(found.verdicts.items())) + "."
    finally:
        store.close()
        scratch.sweep()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
