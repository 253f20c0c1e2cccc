"""A problem: its page, the editor on the learner's file, the verdict, hints, and the history of attempts."""

import tokenize

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from commandline.errors import UsageError
from grader.course import bare_code, catalog, page, plays, predictions
from grader.course.log import Progress
from grader.exhibits import TEXT
from grader.practice import by_core
from grader.problem import Problem
from grader.report.markdown_html import to_html
from studio import attempt_files
from studio.hand_ins import HandIns
from studio.studio import Studio
from studio.view import page_html, problem_at, read_json, render

_ACTIVE_SECONDS = 30.0  # between two signs of life from a page; problem.js sends them


def problem_page(request: Request) -> Response:
    """Returns the page, with the learner's file and the last verdict in it."""
    studio, problem = _of(request)
    progress = _progress(studio, problem)
    cold = {"cold": True, "whole": False}.get(
        request.query_params.get("page", ""), catalog.is_cold(problem) and progress.verdict != "PASS"
    )
    title, text = (page.cold(problem) if cold else page.for_browser(problem)).split("\n", 1)
    problems = catalog.problems()
    place = problems.index(problem)
    try:
        file = attempt_files.read(studio.space, problem)
        state = {"text": file.text, "digest": file.digest, "refused": ""}
    except UsageError as error:
        state = {"text": "", "digest": "", "refused": str(error)}
    studio.grading.prepare(problem)
    studio.plays.prepare(problem)
    play = plays.find(problem)
    hints, predicted = page.hints(problem), studio.space.predicted(problem)
    values = {
        "problem": problem,
        "part": catalog.part_of(problem),
        "title": title.lstrip("# "),
        "page": page_html(request, text),
        "cold": cold,
        "hints": [to_html(hint) for hint in hints[: progress.hints]],
        "hint_count": len(hints),
        "before": problems[place - 1] if place else None,
        "after": problems[place + 1] if place + 1 < len(problems) else None,
        "builds_on": catalog.builds_on(problem),
        "filename": studio.space.file(problem).name,
        "progress": progress,
        "core": by_core.lines(studio.space, problem),
        "can_hand_in": studio.hand_ins is not None,
        "play": play,
        "most_text": TEXT,
        "state": state
        | {"label": problem.label, "passed": progress.verdict == "PASS", "plays": play is not None}
        | {
            "attempted": progress.attempted,
            "predicted": [question.id in predicted for question in predictions.of(problem)],
        },
    }
    return render(request, "problem.html", values)


def file(request: Request) -> Response:
    """Returns the learner's file, as it is now."""
    studio, problem = _of(request)
    return _file(attempt_files.read(studio.space, problem))


async def save(request: Request) -> Response:
    """Writes the learner's file and grades it. Answers 409 with the present text if it has changed since."""
    studio, problem = _of(request)
    body = await read_json(request, text=str, base=str)
    try:
        return _file(await run_in_threadpool(studio.save, problem, body["text"], body["base"]))
    except attempt_files.ConflictError as conflict:
        return _file(conflict.present, 409)


def grade(request: Request) -> Response:
    """Grades the file as it is."""
    studio, problem = _of(request)
    studio.grade(problem)
    return Response(status_code=202)


def stop(request: Request) -> Response:
    """Ends the grading that is running."""
    studio, problem = _of(request)
    studio.grading.stop(problem)
    return Response(status_code=202)


async def play(request: Request) -> Response:
    """Plays the file as it is saved, with a text if the play takes one. An empty text means the play's own."""
    studio, problem = _of(request)
    body = await read_json(request, text=str)
    await run_in_threadpool(studio.plays.request, problem, body["text"][:TEXT])
    return Response(status_code=202)


def stop_play(request: Request) -> Response:
    """Ends the play that is running."""
    studio, _ = _of(request)
    studio.plays.stop()
    return Response(status_code=202)


def cost(request: Request) -> Response:
    """Counts what the file costs, as it is saved. Returns the statement as HTML."""
    studio, problem = _of(request)
    return JSONResponse({"html": studio.costs.count(problem)})


def handed_in(request: Request) -> Response:
    """Returns what was handed in, and its results as far as the learner may read them."""
    studio, problem = _of(request)
    return JSONResponse(_hand_ins(studio).state(problem))


def hand_in(request: Request) -> Response:
    """Hands in the file as it is saved. Returns what the service of the class says."""
    studio, problem = _of(request)
    return JSONResponse(_hand_ins(studio).hand_in(problem))


def test_out(request: Request) -> Response:
    """Replaces the learner's file by the reference without its core. The page hears of it as of any change on disk."""
    studio, problem = _of(request)
    kept, _ = by_core.begin(studio.space, problem)
    return JSONResponse({"kept": kept.name if kept else ""})


def write_trial(request: Request) -> Response:
    """Writes the script that runs the file on the smallest failing case of the last verdict."""
    studio, problem = _of(request)
    report = studio.grading.report(problem)
    if report is None:
        raise UsageError("Save and grade the file first.")
    name, said = studio.trials.write(problem, report)
    return JSONResponse({"name": name, "text": studio.trials.text(problem), "said": said})


def run_trial(request: Request) -> Response:
    """Runs that script as it is now."""
    studio, problem = _of(request)
    text = studio.trials.text(problem)
    printed, said = studio.trials.run(problem)
    return JSONResponse({"text": text, "printed": printed, "said": said})


def stop_trial(request: Request) -> Response:
    """Ends the script that is running."""
    studio, _ = _of(request)
    studio.trials.stop()
    return Response(status_code=202)


async def events(request: Request) -> Response:
    """Streams the events of this problem: first its present state, then each change."""
    studio, problem = _of(request)
    first = [("file", {"digest": await run_in_threadpool(_digest, studio, problem)}), *studio.grading.state(problem)]
    first += studio.plays.state(problem)
    return studio.events.stream(problem.name, *first)


def hint(request: Request) -> Response:
    """Returns the next hint, and remembers that it was shown."""
    studio, problem = _of(request)
    hints = page.hints(problem)
    number = min(_progress(studio, problem).hints + 1, len(hints))
    studio.space.remember(problem, hints=number)
    return JSONResponse({"html": to_html(hints[number - 1]), "number": number, "left": len(hints) - number})


def mend(request: Request) -> Response:
    """Notes that the learner has read how to mend the misconception of the last verdict."""
    studio, problem = _of(request)
    report = studio.grading.report(problem)
    if report is not None and report.misconception:
        studio.space.remember(problem, fix=report.misconception.name)
    return Response(status_code=204)


async def predict(request: Request) -> Response:
    """Takes the answer to a prediction of the page, and tells whether it is right, and why. Answers with a sentence
    as `error` if it is no answer."""
    studio, problem = _of(request)
    body = await read_json(request, number=int, text=str)
    questions = predictions.of(problem)
    if not 1 <= body["number"] <= len(questions):
        raise HTTPException(404)
    question = questions[body["number"] - 1]
    try:
        right = await run_in_threadpool(studio.space.predict, problem, question, body["text"])
    except ValueError as error:
        return JSONResponse({"error": str(error)})
    return JSONResponse({"right": right, "html": to_html(f"**{question.reply(right=right)}** {question.why}")})


def attempts(request: Request) -> Response:
    """Returns the history of this problem, the newest attempt first."""
    studio, problem = _of(request)
    rows = [
        {
            "id": attempt.id, "saved_at": attempt.saved_at.isoformat(), "verdict": attempt.verdict,
            "score": attempt.score, "points": attempt.points, "cause": attempt.cause,
        }
        for attempt in studio.history.attempts(problem.name)
    ]  # fmt: skip
    return JSONResponse(rows)


def attempt(request: Request) -> Response:
    """Returns the text of one attempt."""
    studio, problem = _of(request)
    text = studio.history.text(problem.name, request.path_params["attempt"])
    if text is None:
        raise HTTPException(404)
    return JSONResponse({"text": text})


async def reference(request: Request) -> Response:
    """Takes the learner's text as it is typed. Returns the reference, and why it is written so, for those who have
    passed or given up. Adds both texts as they are compared, without docstrings, comments and imports, unless the
    learner's is not valid Python."""
    studio, problem = _of(request)
    body = await read_json(request, text=str)
    progress = _progress(studio, problem)
    if progress.verdict != "PASS" and not progress.given_up:
        raise HTTPException(403, f"You have not passed problem {problem.label} yet.")
    text = catalog.solution_for_learners(problem)
    try:
        bare = {"bare": [_bare(body["text"]), _bare(text)]}
    except (SyntaxError, tokenize.TokenError, ValueError, RecursionError):
        bare = {}
    return JSONResponse({"text": text, "why": to_html(catalog.why(problem)), **bare})


def _bare(text: str) -> str:
    return bare_code.without_imports(bare_code.without_comments(text))


def active(request: Request) -> Response:
    """Counts the time that a page waits between two of these requests as time spent on the problem."""
    studio, problem = _of(request)
    studio.history.spend(problem.name, _ACTIVE_SECONDS)
    return Response(status_code=204)


def _of(request: Request) -> tuple[Studio, Problem]:
    """Returns the studio, and the problem that the path names by its two digits."""
    return request.app.state.studio, problem_at(request)


def _hand_ins(studio: Studio) -> HandIns:
    if studio.hand_ins is None:
        raise HTTPException(404)
    return studio.hand_ins


def _progress(studio: Studio, problem: Problem) -> Progress:
    return studio.space.progress().get(problem.name, Progress())


def _file(file: attempt_files.AttemptFile, status: int = 200) -> Response:
    return JSONResponse({"text": file.text, "digest": file.digest}, status)


def _digest(studio: Studio, problem: Problem) -> str:
    try:
        return attempt_files.read(studio.space, problem).digest
    except UsageError:
        return ""


_AT = "/problems/{number:number}"
routes = [
    Route(_AT, problem_page),
    Route(f"{_AT}/file", file),
    Route(f"{_AT}/file", save, methods=["PUT"]),
    Route(f"{_AT}/grade", grade, methods=["POST"]),
    Route(f"{_AT}/grade/stop", stop, methods=["POST"]),
    Route(f"{_AT}/play", play, methods=["POST"]),
    Route(f"{_AT}/play/stop", stop_play, methods=["POST"]),
    Route(f"{_AT}/cost", cost, methods=["POST"]),
    Route(f"{_AT}/hand-in", handed_in),
    Route(f"{_AT}/hand-in", hand_in, methods=["POST"]),
    Route(f"{_AT}/test-out", test_out, methods=["POST"]),
    Route(f"{_AT}/trial", write_trial, methods=["POST"]),
    Route(f"{_AT}/trial/run", run_trial, methods=["POST"]),
    Route(f"{_AT}/trial/stop", stop_trial, methods=["POST"]),
    Route(f"{_AT}/events", events),
    Route(f"{_AT}/hint", hint, methods=["POST"]),
    Route(f"{_AT}/mend", mend, methods=["POST"]),
    Route(f"{_AT}/predict", predict, methods=["POST"]),
    Route(f"{_AT}/attempts", attempts),
    Route(f"{_AT}/attempts/{{attempt:number}}", attempt),
    Route(f"{_AT}/reference", reference, methods=["POST"]),
    Route(f"{_AT}/active", active, methods=["POST"]),
]
