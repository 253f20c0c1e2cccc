"""A review: a passed problem written again in the editor, against the clock, which the page counts while it is
visible."""

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from commandline.errors import UsageError
from grader.course import page
from grader.course.log import CORE, WHOLE
from grader.practice import short_form
from grader.practice.review import Clock, ReviewSpace, summary
from grader.practice.schedule import RATINGS
from grader.problem import Problem
from grader.report.markdown_html import to_html
from grader.resident import grade_file
from studio import attempt_files
from studio.grading import encode
from studio.studio import Studio
from studio.view import page_html, problem_at, read_json, render

LONGEST = 24 * 3600  # seconds of a review that a page may count


def review_page(request: Request) -> Response:
    """Returns the review that is under way, or the buttons that begin one."""
    studio, space, problem = _of(request)
    memory, current = space.memory(problem), space.under_way(problem)
    hints = page.hints(problem)
    values: dict[str, Any] = {
        "problem": problem, "current": current, "form": memory.form, "ratings": RATINGS,
        "lines": short_form.after(problem, memory.frame).count if short_form.is_offered(problem) else 0,
        "state": {"label": problem.label},
    }  # fmt: skip
    if current:
        studio.grading.prepare(problem)
        file = attempt_files.read(space, problem)
        values |= {
            "task": to_html(page.sections(problem)["The problem"]),
            "page": page_html(request, page.for_browser(problem).split("\n", 1)[1]),
            "hints": [to_html(hint) for hint in hints[: current.hints]],
            "hint_count": len(hints),
            "state": {
                "label": problem.label, "text": file.text, "digest": file.digest, "seconds": current.seconds,
                "filename": space.file(problem).name,
            },
        }  # fmt: skip
    return render(request, "review.html", values)


async def begin(request: Request) -> Response:
    """Begins a review of the core or the whole."""
    _, space, problem = _of(request)
    form = (await read_json(request, form=str))["form"]
    if form not in (CORE, WHOLE):
        raise HTTPException(400, "The request is not what the studio's pages send.")
    if space.under_way(problem) is None:
        await run_in_threadpool(ReviewSpace.of(space.home, form).add, problem)
    return Response(status_code=201)


async def grade(request: Request) -> Response:
    """Saves the text in the review's file and grades it. A pass ends the review."""
    studio, space, problem = _of(request)
    body = await _counted(request, space, problem, text=str, base=str)
    saved, source = await run_in_threadpool(attempt_files.submit, space, problem, body["text"], body["base"])
    report = await run_in_threadpool(studio.grading.resident.grade, problem, source)
    await run_in_threadpool(grade_file.remember, space, report)
    return JSONResponse(encode(report) | {"digest": saved.digest} | _ending(space, problem))


async def clock(request: Request) -> Response:
    """Notes the time."""
    _, space, problem = _of(request)
    await _counted(request, space, problem)
    await run_in_threadpool(space.remember, problem)
    return Response(status_code=204)


async def hint(request: Request) -> Response:
    """Returns the next hint, which counts for the rating."""
    _, space, problem = _of(request)
    await _counted(request, space, problem)
    hints, current = page.hints(problem), space.under_way(problem)
    number = min((current.hints if current else 0) + 1, len(hints))
    await run_in_threadpool(lambda: space.remember(problem, hints=number))
    return JSONResponse({"html": to_html(hints[number - 1]), "left": len(hints) - number})


async def give_up(request: Request) -> Response:
    """Ends the review without a pass."""
    _, space, problem = _of(request)
    await _counted(request, space, problem)
    await run_in_threadpool(lambda: space.remember(problem, given_up=True))
    return JSONResponse(_ending(space, problem))


async def rate(request: Request) -> Response:
    """Corrects the rating of the last review."""
    _, space, problem = _of(request)
    rating = (await read_json(request, rating=int))["rating"]
    if rating not in RATINGS:
        raise HTTPException(400, "The request is not what the studio's pages send.")
    await run_in_threadpool(space.correct, problem, rating)
    return JSONResponse(_ending(space, problem))


async def _counted(request: Request, space: ReviewSpace, problem: Problem, **kinds: type) -> dict[str, Any]:
    """Returns the body, with the time that the page has counted taken over. Raises UsageError if no review is under
    way."""
    body = await read_json(request, seconds=int, **kinds)
    current = space.under_way(problem)
    if current is None:
        raise UsageError("This review has ended. Reload the page.")
    space.clocks[problem.name] = Clock(max(current.seconds, min(body["seconds"], LONGEST)))
    return body


def _ending(space: ReviewSpace, problem: Problem) -> dict[str, Any]:
    """Returns the values that the page shows at the end of a review; none while it is under way."""
    if space.under_way(problem) is not None:
        return {"ended": False}
    memory = space.memory(problem)
    return {
        "ended": True,
        "summary": summary(memory, space, problem, commands=False),
        "rating": memory.reviews[-1].rating,
    }


def _of(request: Request) -> tuple[Studio, ReviewSpace, Problem]:
    """Returns the studio, the space of reviews, and the problem that the address names, which was passed."""
    studio: Studio = request.app.state.studio
    space, problem = ReviewSpace.of(studio.space), problem_at(request)
    space.memory(problem)
    return studio, space, problem


_AT = "/practice/reviews/{number:number}"
routes = [
    Route(_AT, review_page),
    Route(_AT, begin, methods=["POST"]),
    Route(f"{_AT}/file", grade, methods=["PUT"]),
    Route(f"{_AT}/clock", clock, methods=["POST"]),
    Route(f"{_AT}/hint", hint, methods=["POST"]),
    Route(f"{_AT}/end", give_up, methods=["POST"]),
    Route(f"{_AT}/rating", rate, methods=["POST"]),
]
