"""The score of a submission to an open task, for a terminal and as JSON."""

import json
from collections.abc import Iterator, Sequence

import click

from commandline.terminal import PLAIN, wrap
from commandline.text import sentence
from grader.judge.verdict import Verdict
from grader.task import Task
from grader.tasks.grading import Score
from grader.tasks.offer import Weighed

SCHEMA = 1  # of the JSON: an incompatible change increases it
_LEAST_SHARE = 0.005  # of a piece that is listed


def render(score: Score, width: int = PLAIN, earlier: Sequence[int] = ()) -> str:
    """Returns the report in lines of at most `width` columns, with ANSI colors. `earlier` are the scores of the
    learner's attempts before."""
    return "\n".join(_lines(score, width, earlier))


def _lines(score: Score, width: int, earlier: Sequence[int]) -> Iterator[str]:
    task, color = score.task, "green" if score.standard else "yellow"
    yield f"{task.title}: {click.style(_headline(score), fg='red' if score.failure else color, bold=True)}"
    if score.failure:
        yield ""
        yield from wrap(sentence(score.failure.sentence()), width)
        if frames := score.failure.frames_text():
            yield from ("", *(f"  {line}" for line in frames.splitlines()))
    elif score.missed:
        yield from wrap(sentence(score.missed), width)
    if score.runs:
        yield ""
    for number, run in enumerate(score.runs, 1):
        figures = "".join(f", {value:g} {name}" for name, value in run.figures.items())
        yield from wrap(f"  seed {number}: {run.score:,} {task.unit}{figures}", width)
    if score.runs and score.runs[-1].pieces:
        yield from ("", "Where the work goes:", *_pieces(score.runs[-1]))
    if score.runs:
        yield from ("", "Classes:", *_classes(task, score))
    if score.value is not None and earlier and score.value < min(earlier):
        yield from ("", *wrap(f"Your best so far. It was {min(earlier):,} before.", width))
    if score.value is not None and len(score.runs) < score.of:
        yield from ("", *wrap(f"A quick run has no class: `grade task {task.label}` takes {score.of} seeds.", width))
    if score.stdout.strip():
        yield from ("", "It printed:", *(f"  {line}" for line in score.stdout.strip().splitlines()[-8:]))


def _headline(score: Score) -> str:
    if score.failure:
        return str(score.failure.verdict if score.failure.verdict is not Verdict.PASS else Verdict.ERROR)
    if score.value is None:
        return "no score"
    return f"{score.standard}{', ' if score.standard else ''}{score.value:,} {score.task.unit}"


def _pieces(run: Weighed) -> Iterator[str]:
    total = sum(run.pieces.values()) or 1
    for name, size in sorted(run.pieces.items(), key=lambda item: -item[1]):
        if size / total >= _LEAST_SHARE:
            yield f"  {size / total:4.0%}  {name}"


def _classes(task: Task, score: Score) -> Iterator[str]:
    for standard in task.standards:
        mark = "*" if standard.name == score.standard else " "
        yield f"  {mark} {standard.name:18} at most {standard.most:,.0f}"


def dumps(score: Score) -> str:
    """Returns the report as one JSON object."""
    failure = score.failure
    return json.dumps(
        {
            "schema": SCHEMA,
            "task": score.task.label,
            "score": score.value,
            "unit": score.task.unit,
            "class": score.standard or None,
            "error": failure.sentence() if failure else score.missed or None,
            "runs": [dict(vars(run)) for run in score.runs],
            "seeds": score.of,
            "isolation": score.isolation.encode(),
            "seconds": round(score.seconds, 1),
        },
        ensure_ascii=False,
    )
