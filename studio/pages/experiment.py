"""An experiment: its claim, its runs with their curves, and its interval, verdict and score once there are any."""

import math
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from commandline.errors import UsageError
from grader.course import tasks
from grader.exhibits import Line, Lines
from grader.experiment import arms
from grader.experiment.arms import Lab, Planned
from grader.experiment.claim import ARMS, factor_of, flaws, folder_of
from grader.experiment.judging import Claimed, lab_of, report
from grader.experiment.report_file import verdict_in, verdict_of
from grader.report import exhibits_page
from grader.task import Experiment
from studio.view import render, task_at

_RECENT = 30.0  # seconds without a step after which a run counts as stopped


def page(request: Request) -> Response:
    """Returns what there is of the experiment, as far as it has come."""
    space, task = task_at(request, Experiment)
    values: dict[str, Any] = {"task": task, "factor": factor_of(space, task), "folder": folder_of(space, task)}
    values |= {"claim": None, "trouble": "", "runs": [], "chart": "", "result": None}
    try:
        claim = lab_of(space, task).claim
        values |= {"claim": claim, "flaws": list(flaws(claim)), "arms": ARMS}
        claimed = Claimed.find(space, task)
        lab = claimed.lab
        values |= {"runs": [_run(lab, each) for each in lab.planned()], "chart": _chart(lab)}
        values["result"] = _result(claimed) if claimed.opened else None
    except UsageError as error:
        values["trouble"] = str(error)
    best = tasks.best(task, space.entries())
    return render(request, "experiment.html", values | {"best": best})


def _run(lab: Lab, planned: Planned) -> dict[str, Any]:
    """Returns a run with its state and, once it is done, its validation loss."""
    folder = lab.folder / planned.name
    state = "done" if lab.is_done(planned) else "missing"
    if state == "missing" and folder.exists():
        file = folder / "metrics.jsonl"
        changed = (file if file.exists() else folder).stat().st_mtime
        state = "running" if time.time() - changed < _RECENT else "stopped"
    loss = f"{lab.validation_loss(planned):.4f}" if state == "done" else ""
    return {"planned": planned, "seed": lab.seed(planned.number), "state": state, "loss": loss}


def _chart(lab: Lab) -> str:
    """Returns the training losses of the arms as HTML, each the mean of its runs with the learning rate that it chose;
    before it chooses, of all its runs. Empty before the first step."""
    lines = []
    for name in ARMS:
        planned = [each for each in lab.planned() if each.arm == name]
        final = lab.final(name) if all(lab.is_done(each) for each in lab.tried()) else planned
        runs = [rows for each in final if (rows := arms.metrics(lab.folder / each.name))]
        steps = [row["step"] for row in min(runs, key=len, default=[])]
        if steps:
            of = f"{len(runs)} run{'s' * (len(runs) > 1)}"
            losses = [_mean([rows[place]["loss"] for rows in runs]) for place in range(len(steps))]
            lines.append(Line(f"{name}, {lab.claim.arms[name].value}, {of}", steps, losses))
    title = "Training loss of the arms"
    return exhibits_page.render(Lines(title, tuple(lines), "Means over runs.", y="nats per token")) if lines else ""


def _mean(values: list[float | None]) -> float:
    known = [math.nan if value is None else value for value in values]
    return math.fsum(known) / len(known) if all(map(math.isfinite, known)) else math.nan


def _result(claimed: Claimed) -> dict[str, str]:
    """Returns the difference, its interval, and the verdict that follows, beside that of the report."""
    found = claimed.found()
    known = found.values()
    stated = verdict_in(report(claimed.space, claimed.task))
    return {"difference": known["difference"], "interval": known["interval"], "stated": stated or "none yet"} | {
        "follows": verdict_of(claimed.lab.claim, found)
    }


routes = [Route("/tasks/{name:str}/experiment", page)]
