"""A run that went wrong: its charts and texts, a place for the cause and the prediction, and what becomes of them."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from commandline import files
from commandline.errors import UsageError
from grader.course import forms
from grader.course.workspace import Workspace
from grader.diagnosis import case, judging
from grader.diagnosis.case import Case
from grader.diagnosis.form import FORM, MEND, Filed
from grader.exhibits import Line, Lines
from grader.report import exhibits_page
from grader.task import Diagnosis
from studio.view import read_json, render, sentences, task_at

_LARGEST_TEXT = 1 << 16  # bytes, of a sample or of the settings
_NORMS = ("weight", "gradient", "update", "logit")
_training = threading.Lock()  # one run at a time, as in a terminal


def page(request: Request) -> Response:
    """Returns the run that is under way, or a button that makes one."""
    space, task = task_at(request, Diagnosis)
    current = Case.under_way(space, task)
    ended = [each for each in Case.all(space, task) if each.ended]
    values: dict[str, Any] = {
        "task": task,
        "path": f"/tasks/{task.label}/diagnosis",
        "current": current if current and current.run.exists() else None,
        "ended": [(each, each.ended.number("score"), each.cause) for each in ended if each.ended],
    }
    if values["current"] and current:
        lines = case.figures(current.run)
        texts = [*sorted(current.run.glob("*.txt"), key=_by_step), current.run / "settings.json"]
        values |= {
            "charts": [exhibits_page.render(chart) for chart in _charts(lines)],
            "texts": {path.name: _text(path) for path in texts},
            "checkpoints": [path.name for path in sorted(current.run.glob("*.npz"), key=_by_step)],
            "quantities": list(lines[max(lines)]),
            "changes": (MEND, *task.changes),
            "filed": _written(current),
        }
    return render(request, "diagnosis.html", values)


async def begin(request: Request) -> Response:
    """Makes a run, which takes half a minute or more."""
    space, task = task_at(request, Diagnosis)
    await run_in_threadpool(_next, space, task, give_up=False)
    return Response(status_code=201)


async def file(request: Request) -> Response:
    """Writes a diagnosis into its file and puts it to the test, or gives the run up. Returns what is said of it."""
    space, task = task_at(request, Diagnosis)
    body = await read_json(request, give_up=bool)
    current = Case.under_way(space, task)
    if current is None:
        raise UsageError("This run is over. Reload the page.")
    if not body["give_up"]:
        body = await read_json(request, cause=str, step=int, change=str, quantity=str, at=int, low=str, high=str)
        given = {name: body[name] for name in ("cause", "step", "change", "quantity", "at")}
        filed = Filed(**given, interval=_interval(body))
        files.write(current.folder / FORM, filed.toml())
        if not filed.cause:
            raise UsageError("Name a cause first.")
    said = await run_in_threadpool(_next, space, task, give_up=body["give_up"])
    return JSONResponse({"lines": said, "ended": bool(Case.all(space, task)[current.number - 1].ended)})


def _next(space: Workspace, task: Diagnosis, *, give_up: bool) -> list[str]:
    if not _training.acquire(blocking=False):
        raise UsageError("A run is being trained. Wait until it is done.")
    try:
        return sentences(judging.step(space, task, give_up=give_up))
    finally:
        _training.release()


def _interval(body: dict[str, Any]) -> tuple[float, float]:
    try:
        return float(body["low"]), float(body["high"])
    except ValueError:
        raise UsageError("The interval is two numbers.") from None


def _charts(lines: case.Lines) -> Iterator[Lines]:
    """Yields the charts of the losses, of the gradient's norm, and of each norm by layer."""
    of_loss = ("loss", "validation_loss")
    yield Lines("Loss", tuple(_line(lines, name, name) for name in of_loss), y="nats per token")
    yield Lines("Norm of the gradient, before clipping", (_line(lines, "gradient_norm", "gradient_norm"),), y="norm")
    for norm in _NORMS:
        names = [name for name in next(iter(lines.values())) if name.endswith(f".{norm}")]
        title = "Largest attention logit" if norm == "logit" else f"Norm of the {norm}, by layer"
        shown = tuple(_line(lines, name, name.removesuffix(f".{norm}")) for name in names)
        yield Lines(title, shown, y="logit" if norm == "logit" else "norm", log=norm == "gradient")


def _line(lines: case.Lines, quantity: str, name: str) -> Line:
    steps = [step for step, known in sorted(lines.items()) if known.get(quantity) is not None]
    return Line(name, steps, [lines[step][quantity] for step in steps])


def _written(current: Case) -> dict[str, Any]:
    """Returns what the learner's file says now, as far as it can be read."""
    try:
        table = forms.read(current.folder / FORM, current.task).table
    except UsageError:
        table = {}
    found = {"cause": "", "step": 0, **table}
    given = found["prediction"] if isinstance(found.get("prediction"), dict) else {}
    prediction = {"change": MEND, "quantity": "loss", "step": current.task.steps, "interval": None, **given}
    if not isinstance(prediction["interval"], list) or len(prediction["interval"]) != 2:
        prediction["interval"] = ["", ""]
    return found | {"prediction": prediction}


def _text(path: Path) -> str:
    try:
        return files.read_regular(path, _LARGEST_TEXT).decode("utf-8", "replace")
    except (OSError, files.NotRegularFileError):
        return ""


def _by_step(path: Path) -> tuple[int, str]:
    return len(path.name), path.name


routes = [
    Route("/tasks/{name:str}/diagnosis", page),
    Route("/tasks/{name:str}/diagnosis", begin, methods=["POST"]),
    Route("/tasks/{name:str}/diagnosis/file", file, methods=["POST"]),
]
