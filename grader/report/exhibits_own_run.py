"""Exhibits of the best training run of a learner's own pieces, for the end of a play."""

import re

from grader.exhibits import POINTS, TOKENS, Exhibit, Line, Lines, Story, Token
from grader.report.own_run import Curve, OwnRun

_LEVEL = 60  # parts of a level line, which then looks like one
_WORD = re.compile(r"\S{1,40}\s*|\s+")


def exhibits(run: OwnRun | None) -> list[Exhibit]:
    """Returns the losses of a run beside its bigram model, and the story that it told when its loss was lowest; nothing
    without a run."""
    if run is None:
        return []
    step, loss = run.best
    curves = {"training": _thinned(run.training), "validation": _thinned(run.validation)}
    lines = [Line(name, [x for x, _ in points], [y for _, y in points]) for name, points in curves.items() if points]
    last = max(x for line in lines for x in line.x)
    shown: list[Exhibit] = [
        Lines(
            f"The loss of your run {run.name}",
            (
                *lines,
                Line(
                    "a bigram model",
                    [last * place / _LEVEL for place in range(_LEVEL + 1)],
                    [run.bigram] * (_LEVEL + 1),
                ),
            ),
            f"The lowest validation loss is {loss:.2f} nats per token, after {step:,.0f} steps. A bigram model, which "
            f"knows only the token before, has {run.bigram:.2f}.",
            y="nats per token",
            log=True,
        )
    ]
    if words := _WORD.findall(run.story)[:TOKENS]:
        shown.append(
            Story(
                f"A story from your best run, {run.name}",
                tuple(map(Token, words)),
                f"Your pieces wrote it after {step:,.0f} steps. `harness sample {run.name}` tells another one.",
            )
        )
    return shown


def _thinned(points: Curve) -> Curve:
    """Returns as many points of a curve as an exhibit may have, the last one included."""
    gap = -(-len(points) // POINTS) or 1
    return points[::-1][::gap][::-1]
