"""The service that learners hand in to: `PUT attempts/ID` hands in, `GET attempts?problem=NAME` returns the results.

A request carries a token of the Hub, which names the user. Nothing in the request can name another one. Teachers have a
page, for which their browsers sign in at the Hub. Below `lti/` is the tool of learning platforms, if the class has one.
"""

import asyncio
import collections
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from commandline.errors import CommandError
from commandline.problem_name import ProblemName
from commandline.text import counted
from grader.batch import hand_ins
from grader.batch.deadlines import Deadlines
from grader.batch.hand_ins import HandIn
from grader.course import catalog
from grader.judge.submission import MAX_SIZE
from hosting import decisions, forms, teachers, told
from hosting.class_folder import ClassFolder, Dates
from hosting.grading import Grading
from hosting.inbox import Inbox
from hosting.lti import roster
from hosting.lti.tool import Tool
from hosting.marks import Claims, Marks
from hosting.sessions import Session, Sessions, SignIn, User

LARGEST_BODY = 4 << 20  # bytes
_TOKEN = re.compile(r"(?:token|bearer) +(\S+)", re.IGNORECASE)

# Returns the user of the Hub whom a token names; None if it names none who may use the service. Raises HTTPException.
Identify = Callable[[str], Awaitable[User | None]]


@dataclass(frozen=True)
class Service:
    """The state that all requests share."""

    of: ClassFolder
    inbox: Inbox
    grading: Grading
    identify: Identify
    sessions: Sessions
    marks: Marks | None


def application(
    of: ClassFolder,
    identify: Identify,
    sign_in: SignIn,
    prefix: str = "/",
    options: Sequence[str] = (),
    lti: tuple[Tool, Claims] | None = None,
) -> Starlette:
    """Returns the service as an ASGI application below the prefix. It grades, with these options of `grade batch`, and
    sends the marks with a tool, if there is one."""
    inbox, sessions = Inbox(of.hand_ins), Sessions(sign_in, prefix)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as running:
            marks = Marks(of, inbox, *lti) if lti else None
            if marks:
                await running.enter_async_context(marks.tool.running())
            grading = Grading(of, inbox, options, marks.wake if marks else lambda: None)
            app.state.service = Service(of, inbox, grading, identify, sessions, marks)
            for work in (grading.run(), *([marks.run()] if marks else [])):
                running.push_async_callback(_ended, asyncio.create_task(work))
            yield

    routes: list[BaseRoute] = [
        Route("/", class_page),
        Route("/regrade", regrade, methods=["POST"]),
        Route("/extend", extend, methods=["POST"]),
        Route("/send", send, methods=["POST"]),
        Route("/roster", replace_roster, methods=["POST"]),
        Route("/files/{name}", class_file),
        Route("/oauth_callback", signed_in),
        Route("/attempts", attempts),
        Route("/attempts/{id}", hand_in, methods=["PUT"]),
    ]
    if lti:
        routes.append(Mount("/lti", routes=lti[0].routes))
    errors: Any = {HTTPException: _http_error, CommandError: _command_error, OSError: _full}
    return Starlette(routes=[Mount(prefix.rstrip("/"), routes=routes)], exception_handlers=errors, lifespan=lifespan)


async def hand_in(request: Request) -> Response:
    """Stores an attempt of the user, once for each id, and returns its receipt."""
    service, user = _service(request), await _user(request)
    attempt_id = request.path_params["id"]
    if not hand_ins.ID.fullmatch(attempt_id):
        raise HTTPException(400, "The id of an attempt has 32 hexadecimal digits.")
    problem, files = _decoded(await _body(request))
    received = await run_in_threadpool(_receive, service, user, problem, attempt_id, files)
    service.grading.wake()
    if service.marks:
        service.marks.handed_in(user)
    return JSONResponse(received)


async def attempts(request: Request) -> Response:
    """Returns the attempts of the user at a problem, with as much of their results as the teacher wants."""
    service, user = _service(request), await _user(request)
    problem = request.query_params.get("problem", "")
    if problem not in catalog.names():
        raise HTTPException(404, "There is no such problem in this course.")
    dates = await run_in_threadpool(service.of.dates, user)
    return JSONResponse(await run_in_threadpool(told.attempts, service.of, service.inbox, user, problem, dates))


async def class_page(request: Request) -> Response:
    """Returns the page for teachers, or sends the browser to the Hub to sign in."""
    service = _service(request)
    session = service.sessions.of(request)
    user = await service.identify(session.token) if session else None
    if session is None or user is None:
        return service.sessions.begin(request)
    _require_teacher(user)
    if request.headers.get("sec-fetch-mode", "navigate") != "navigate":
        raise HTTPException(403, "Only a browser's window opens this page, and no script.")
    said, session.said = session.said, ""
    waiting = await run_in_threadpool(service.grading.waiting)
    return await run_in_threadpool(
        teachers.page, service.of, service.inbox, waiting, service.marks,
        prefix=service.sessions.prefix, form=session.form, said=said,
    )  # fmt: skip


async def class_file(request: Request) -> Response:
    """Returns a file of the results, for teachers."""
    service = _service(request)
    session = service.sessions.of(request)
    _require_teacher(await service.identify(session.token) if session else None)
    return await run_in_threadpool(teachers.file, service.of, request.path_params["name"])


async def regrade(request: Request) -> Response:
    """Grades again what a learner, or everybody, has handed in for a problem."""
    service, session, user, values = await _form(request)
    asked = decisions.Regrade(values["learner"], values["problem"], user.name, values["because"])
    said = await _said(decisions.ask_regrade, service.of, service.inbox, asked)
    service.grading.wake()
    return _back(service, session, said)


async def extend(request: Request) -> Response:
    """Gives a learner more time."""
    service, session, user, values = await _form(request)
    names = ("learner", "problems", "time")
    said = await _said(
        decisions.extend, service.of, service.inbox, *(values[name] for name in names), user.name, values["because"]
    )  # fmt: skip
    service.grading.wake()
    return _back(service, session, said)


async def send(request: Request) -> Response:
    """Sends the marks that have not arrived."""
    service, session, _, _ = await _form(request)
    marks = _marks(service)
    await marks.carry()
    count = await run_in_threadpool(marks.tool.outbox.release)
    return _back(service, session, f"{counted(count, 'mark')} to send.")


async def replace_roster(request: Request) -> Response:
    """Replaces the roster by the members of a course."""
    service, session, _, values = await _form(request)
    tool = _marks(service).tool
    course = next((one for one in tool.enrollments.courses() if str(one.id) == values["course"]), None)
    if course is None:
        raise HTTPException(404, "There is no such course.")
    try:
        count = await roster.write(service.of.roster, course, tool.services, tool.enrollments)
    except CommandError as error:
        return _back(service, session, str(error))
    service.grading.wake(to_count=True)
    return _back(service, session, f"roster.csv has {counted(count, 'learner')} of {course.title}.")


async def signed_in(request: Request) -> Response:
    """Takes a browser that comes back from the Hub."""
    return await _service(request).sessions.finish(request)


async def _form(request: Request) -> tuple[Service, Session, User, dict[str, str]]:
    """Returns the session of a form on the page for teachers, who sent it, and its fields, which are empty if the
    browser left them out. Raises HTTPException."""
    service, values = _service(request), collections.defaultdict(str, await forms.fields(request))
    session = service.sessions.of_form(values["form"])
    user = await service.identify(session.token) if session else None
    if session is None or user is None:
        raise HTTPException(403, "The page is too old. Open it again, and repeat what you did.")
    _require_teacher(user)
    return service, session, user, values


async def _said(act: Callable[..., str], *arguments: Any) -> str:
    """Returns the sentence with which an action ends, or why it is not possible."""
    try:
        return await run_in_threadpool(act, *arguments)
    except CommandError as error:
        return str(error)


def _back(service: Service, session: Session, said: str) -> Response:
    """Sends the browser to the page, which shows a sentence."""
    session.said = said
    return RedirectResponse(service.sessions.prefix, 303)


def _marks(service: Service) -> Marks:
    if service.marks is None:
        raise HTTPException(404, "This class has no learning platform.")
    return service.marks


def _require_teacher(user: User | None) -> None:
    if user is None:
        raise HTTPException(403, "This page is for teachers.")
    if not user.is_teacher:
        raise HTTPException(403, f"This page is for teachers, and {user.name!r} is not one of this hub's HUB_TEACHERS.")


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _receive(service: Service, user: str, problem: str, attempt_id: str, files: dict[str, str]) -> dict[str, Any]:
    """Stores an attempt and returns its receipt. Raises HTTPException if it is one too many."""
    try:
        dates = service.of.dates(user)
    except CommandError:  # the attempt arrives now, whatever the teacher has to repair
        dates = Dates(Deadlines(), (user,))

    def accept(received: datetime, earlier: Sequence[HandIn]) -> None:
        zone, most = dates.rules.timezone, dates.rules.policy.attempts_a_day
        today = received.astimezone(zone).date()
        if sum(one.received.astimezone(zone).date() == today for one in earlier) >= most:
            label = ProblemName(problem).label
            raise HTTPException(
                429, f"You have handed in {counted(most, 'attempt')} at problem {label} today; hand in again tomorrow."
            )

    received = service.inbox.receive(user, problem, attempt_id, files, accept)
    return told.receipt(received, service.inbox, dates)


def _decoded(body: bytes) -> tuple[str, dict[str, str]]:
    """Returns the problem and the texts by module. Raises HTTPException if the body has anything else."""
    try:
        match json.loads(body):
            case {"problem": str(problem), "files": dict(files)} if problem in files:
                names = set(catalog.names())
                if files.keys() <= names and all(len(text.encode()) <= MAX_SIZE for text in files.values()):
                    return problem, files
    except (ValueError, RecursionError, AttributeError):  # a text that is none, or that is not Unicode
        pass
    raise HTTPException(400, f"An attempt is the text of a problem of this course, of at most {MAX_SIZE >> 20} MiB.")


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            raise HTTPException(413, f"An attempt has at most {LARGEST_BODY >> 20} MiB.")
    return body


async def _user(request: Request) -> str:
    """Returns the user of the Hub whom the token names. Raises HTTPException 403 if there is none."""
    match = _TOKEN.fullmatch(request.headers.get("authorization", ""))
    user = await _service(request).identify(match[1]) if match else None
    if user is None:
        raise HTTPException(403, "Hand in from your own server on the hub.")
    return user.name


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  registered for nothing else
    return _refusal(request, error.detail, error.status_code)


async def _command_error(request: Request, error: Exception) -> Response:
    """Answers with what is wrong on the teacher's side."""
    return _refusal(request, f"The service of your class has an error: {error}", 503)


async def _full(request: Request, error: Exception) -> Response:
    assert isinstance(error, OSError)  # noqa: S101  registered for nothing else
    return _refusal(request, f"The service of your class cannot store attempts: {error.strerror}.", 503)


def _refusal(request: Request, words: str, status: int) -> Response:
    """Answers a program with JSON, and a person with a sentence."""
    if "text/html" in request.headers.get("accept", ""):
        return PlainTextResponse(f"{words}\n", status)
    return JSONResponse({"error": words}, status)
