"""A change to review: its hunks, each with a place for the verdict and the test, and what is found of them."""

import threading
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from commandline.errors import UsageError
from grader.changes import reviewing
from grader.changes.reviewing import FAULTY, SOUND, ChangeReview
from grader.judge.submission import MAX_SIZE
from grader.report.markdown_html import to_html
from grader.task import Review
from studio.view import read_json, render, sentences, task_at

_KINDS = {"-": "removed", "+": "added", " ": "same"}


def page(request: Request) -> Response:
    """Returns the change that is under way, or a button that draws one."""
    space, task = task_at(request, Review)
    review = ChangeReview.under_way(space, task)
    values: dict[str, Any] = {"task": task, "current": review, "path": f"/tasks/{task.label}/change"}
    if review:
        review.write()
        change, written = review.change, review.written()
        values |= {
            "description": to_html(reviewing.description(task, change)),
            "hunks": [
                {
                    "number": hunk.number,
                    "file": file.name,
                    "rows": [(_KINDS[sign], sign, line) for sign, line in file.rows(hunk)],
                    "verdict": review.verdicts.get(hunk.number) or written.verdicts.get(hunk.number, ""),
                    "test": written.tests.get(hunk.number, ""),
                }
                for file, hunk in change.hunks
            ],
            "verdicts": (SOUND, FAULTY),
            "size": change.size,
            "folder": review.folder,
            "state": reviewing.as_json(review, {}),
        }
    return render(request, "change.html", values)


async def begin(request: Request) -> Response:
    """Draws a change, which takes some seconds: its faults are run."""
    space, task = task_at(request, Review)
    if not ChangeReview.under_way(space, task):
        await run_in_threadpool(reviewing.drawn, space, task)
    return Response(status_code=201)


async def keep(request: Request) -> Response:
    """Writes a verdict or a test into the folder of the change. It is not handed in."""
    review = _under_way(request)
    body = await read_json(request, number=int)
    number: int = body["number"]
    verdict, test = body.get("verdict"), body.get("test")
    if verdict not in (None, "", SOUND, FAULTY) or not (test is None or (type(test) is str and len(test) < MAX_SIZE)):
        raise HTTPException(400, "The request is not what the studio's pages send.")
    verdicts = {} if verdict is None else {number: verdict}
    await run_in_threadpool(_keep, review, verdicts, {} if test is None else {number: test})
    return Response(status_code=204)


_keeping = threading.Lock()  # all verdicts are in one file


def _keep(review: ChangeReview, verdicts: dict[int, str], tests: dict[int, str]) -> None:
    with _keeping:
        review.keep(verdicts, tests)


async def hand_in(request: Request) -> Response:
    """Hands in what is new in the folder, and returns what is found; or ends the change."""
    before = _under_way(request)
    body = await read_json(request, give_up=bool)
    review, told = await run_in_threadpool(lambda: reviewing.hand_in(before, give_up=body["give_up"]))
    is_judged = "The change has ended." if review.ended else "Judged."
    more = {
        "says": is_judged if review.ended or review.runs > before.runs else "Nothing here is new, so this was no run.",
        # Each hunk shows its own line, and a button draws the next change.
        "lines": [line for line in sentences(told) if line[:5] not in ("Hunk ", "`grad")],
    }
    return JSONResponse({**told.facts, **more})


def _under_way(request: Request) -> ChangeReview:
    review = ChangeReview.under_way(*task_at(request, Review))
    if review is None:
        raise UsageError("This change has ended. Reload the page.")
    return review


routes = [
    Route("/tasks/{name:str}/change", page),
    Route("/tasks/{name:str}/change", begin, methods=["POST"]),
    Route("/tasks/{name:str}/change/keep", keep, methods=["POST"]),
    Route("/tasks/{name:str}/change/run", hand_in, methods=["POST"]),
]
