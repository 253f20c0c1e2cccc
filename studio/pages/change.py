"""A change to review: its hunks, each with a place for the verdict and the test, and what is found of them."""

import os
from contextlib import closing
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from commandline.errors import UsageError
from grader.changes import reviewing
from grader.changes.drawing import Proofs
from grader.changes.reviewing import FAULTY, SOUND, ReviewSpace, UnderWay
from grader.changes.testing import Judged
from grader.course import tasks
from grader.isolation.sandbox import ForkServer
from grader.judge.submission import MAX_SIZE
from grader.report.markdown_html import to_html
from grader.task import Review
from studio.studio import Studio
from studio.view import read_json, render

_KINDS = {"-": "removed", "+": "added", " ": "same"}


def page(request: Request) -> Response:
    """Returns the change that is under way, or a button that draws one."""
    space = _of(request)
    current = space.under_way()
    values: dict[str, Any] = {"task": space.task, "current": current, "path": f"/tasks/{space.task.label}/change"}
    if current:
        change = space.change(current)
        space.write(current)
        written = space.written(current)
        values |= {
            "description": to_html(reviewing.description(space.task, change)),
            "hunks": [
                {
                    "number": hunk.number,
                    "file": file.name,
                    "rows": [(_KINDS[sign], sign, line) for sign, line in file.rows(hunk)],
                    "verdict": current.verdicts.get(hunk.number) or written.verdicts.get(hunk.number, ""),
                    "test": written.tests.get(hunk.number, ""),
                }
                for file, hunk in change.hunks
            ],
            "verdicts": (SOUND, FAULTY),
            "size": change.size,
            "folder": space.folder(current),
            "state": reviewing.as_json(space, current, change, {}),
        }
    return render(request, "change.html", values)


async def begin(request: Request) -> Response:
    """Draws a change, which takes some seconds: its faults are run."""
    space = _of(request)
    if not space.under_way():
        await run_in_threadpool(_begin, space)
    return Response(status_code=201)


def _begin(space: ReviewSpace) -> None:
    with closing(ForkServer()) as workers, Proofs(workers) as proofs:
        space.begin(os.urandom(4).hex(), proofs)


async def keep(request: Request) -> Response:
    """Writes a verdict or a test into the folder of the change. It is not handed in."""
    space, current = _under_way(request)
    body = await read_json(request, number=int)
    number: int = body["number"]
    verdict, test = body.get("verdict"), body.get("test")
    if verdict not in (None, "", SOUND, FAULTY) or not (test is None or (type(test) is str and len(test) < MAX_SIZE)):
        raise HTTPException(400, "The request is not what the studio's pages send.")
    verdicts = {} if verdict is None else {number: verdict}
    await run_in_threadpool(space.keep, current, verdicts, {} if test is None else {number: test})
    return Response(status_code=204)


async def hand_in(request: Request) -> Response:
    """Hands in what is new in the folder, and returns what is found; or ends the change."""
    space, current = _under_way(request)
    body = await read_json(request, give_up=bool)
    runs = current.runs
    judged = await run_in_threadpool(_end if body["give_up"] else _run, space, current)
    change = current.plan.change()
    said = "The change has ended." if current.ended else "Judged."
    more = {
        "says": said if current.ended or current.runs > runs else "Nothing here is new, so this was no run.",
        # Each hunk shows its own line, and a button draws the next change.
        "lines": [
            line for line in reviewing.lines(space, current, change, judged) if line[:5] not in ("Hunk ", "`grad")
        ],
    }
    return JSONResponse(reviewing.as_json(space, current, change, judged) | more)


def _run(space: ReviewSpace, current: UnderWay) -> dict[int, Judged]:
    new = space.new(current)
    if not new.verdicts and not new.tests:
        return {}
    with closing(ForkServer()) as workers:
        return space.run(current, new, workers)


def _end(space: ReviewSpace, current: UnderWay) -> dict[int, Judged]:
    space.end(current)
    return {}


def _under_way(request: Request) -> tuple[ReviewSpace, UnderWay]:
    space = _of(request)
    current = space.under_way()
    if current is None:
        raise UsageError("This change has ended. Reload the page.")
    return space, current


def _of(request: Request) -> ReviewSpace:
    """Returns the changes of the task that the address names. Raises HTTPException 404 if it has none."""
    studio: Studio = request.app.state.studio
    name = request.path_params["name"]
    task = tasks.find(name) if name in tasks.names() else None
    if not isinstance(task, Review):
        raise HTTPException(404)
    return ReviewSpace(studio.space, task)


routes = [
    Route("/tasks/{name:str}/change", page),
    Route("/tasks/{name:str}/change", begin, methods=["POST"]),
    Route("/tasks/{name:str}/change/keep", keep, methods=["POST"]),
    Route("/tasks/{name:str}/change/run", hand_in, methods=["POST"]),
]
