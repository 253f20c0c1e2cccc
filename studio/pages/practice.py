"""Practice: due reviews, hunts by part, the days of the last year; and a hunt, with its program in the editor."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from commandline.errors import UsageError
from grader.course import catalog, log
from grader.isolation.sandbox import ForkServer
from grader.practice import first_look, hunt_soundness, hunting, reminders, run_program, schedule, symptoms
from grader.practice.hunting import LETTERS, HuntSpace, UnderWay
from grader.practice.hunts import Program
from grader.practice.review import clock_text
from grader.practice.schedule import Memory
from grader.problem import Problem
from studio import attempt_files
from studio.studio import Studio
from studio.view import problem_at, read_json, render


def practice(request: Request) -> Response:
    """Returns the page of all practice."""
    studio: Studio = request.app.state.studio
    entries, names = studio.space.entries(), set(catalog.names())
    memories = {name: each for name, each in schedule.memories(entries).items() if name in names}
    ordered = sorted(memories.values(), key=lambda each: (each.due, each.problem))
    begun = hunting.recorded_hunts([entry for entry in entries if entry.problem in names])
    weeks = reminders.calendar(entries)
    values = {
        "reviews": [_review(memory) for memory in ordered],
        "due": len(schedule.due(memories.values())),
        "parts": _hunts_by_part(HuntSpace.of(studio.space), begun),
        "weeks": [
            [(f"{day:%B} {day.day}, {day.year}", count, reminders.level(count)) for day, count in week]
            for week in weeks
        ],
        "active": sum(count > 0 for week in weeks for _, count in week),
    }
    return render(request, "practice.html", values)


def _review(memory: Memory) -> dict[str, Any]:
    """Returns a passed problem in the table of reviews."""
    days = (memory.due - log.now().date()).days
    year = f", {memory.due.year}" if memory.due.year != log.now().year else ""
    when = "today" if days <= 0 else "tomorrow" if days == 1 else f"{memory.due:%B} {memory.due.day}{year}"
    times = [clock_text(each.seconds) for each in memory.reviews if not each.first]
    return {
        "problem": catalog.load(memory.problem), "due": days <= 0, "when": when, "times": ", ".join(times[-3:]),
        "form": memory.form,
    }  # fmt: skip


def _hunts_by_part(space: HuntSpace, begun: list[UnderWay]) -> dict[str, list[dict[str, Any]]]:
    """Returns the passed problems by part, each with the hunts that ended and whether one is under way."""
    ended = Counter(each.problem for each in begun if each.ended)
    open_ = {each.problem for each in begun if not each.ended}
    parts: dict[str, list[dict[str, Any]]] = {}
    for problem in space.passed():
        row = {"problem": problem, "ended": ended[problem.name], "open": problem.name in open_}
        parts.setdefault(catalog.part_of(problem), []).append(row)
    return parts


def hunt_page(request: Request) -> Response:
    """Returns the hunt of a problem that is under way, or a button that begins one."""
    space, problem = _of(request)
    current = space.under_way(problem)
    values: dict[str, Any] = {"problem": problem, "current": current, "state": {"label": problem.label}}
    if current:
        program = space.program(current)
        if not space.file(problem).exists():
            space.put(problem, program.text)
        file = attempt_files.read(space, problem)
        values["state"] |= _state(current, program) | {"text": file.text, "digest": file.digest}
        values["symptom"] = current.symptom.split("`")  # every second part is code
        values["questions"] = current.kind.questions[: current.hints]
    return render(request, "hunt.html", values)


def _state(current: UnderWay, program: Program) -> dict[str, Any]:
    """Returns the state of a hunt that the page may know: the ideas only after the line was found."""
    line, idea = hunting.solved_line(current, program), hunting.solved_idea(current, program)
    ideas = [{"letter": letter, "name": name} for letter, name in zip(LETTERS, program.ideas, strict=False)]
    return {
        "line": line, "idea": idea, "ideas": ideas if line else [], "hints": current.hints,
        "more": current.hints < len(current.kind.questions),
    }  # fmt: skip


async def begin(request: Request) -> Response:
    """Begins a hunt, which takes some seconds: its program is run."""
    space, problem = _of(request)
    if not space.under_way(problem):
        await run_in_threadpool(_begin, space, problem)
    return Response(status_code=201)


def _begin(space: HuntSpace, problem: Problem) -> None:
    seed = os.urandom(4).hex()
    with _workers() as workers:
        for program, failed in hunt_soundness.offered(space.candidates(problem), seed, workers):
            space.begin(program, seed, first_look.symptom(program, failed, workers))
            return
    raise UsageError(f"There is no further hunt in problem {problem.label}.")


async def answer(request: Request) -> Response:
    """Takes an answer: a line, an idea, a mended program, a wish for a question, or giving up."""
    space, problem = _of(request)
    current = space.under_way(problem)
    if current is None:
        raise UsageError("No hunt is under way here. Begin one.")
    body = await read_json(request)
    kinds: dict[str, Callable[[], dict[str, Any]]] = {
        "line": lambda: _line(space, current, body["line"]),
        "idea": lambda: _idea(space, current, body["idea"]),
        "hint": lambda: {"question": space.next_question(current)},
        "mend": lambda: _mend(space, current, body["mend"], str(body.get("base"))),
        "give_up": lambda: _end(space, current, mended=False),
    }
    types = {"line": int, "idea": int, "hint": bool, "mend": str, "give_up": bool}
    kind = next((name for name in kinds if type(body.get(name)) is types[name]), "")
    if not kind:
        raise HTTPException(400, "The request is not what the studio's pages send.")
    said = await run_in_threadpool(kinds[kind])
    if not said.get("ended"):
        said |= _state(current, space.program(current))
    return JSONResponse(said)


def _line(space: HuntSpace, current: UnderWay, line: int) -> dict[str, Any]:
    right = space.answer_line(current, line)
    return {"right": right, "says": f"Line {line} is {'wrong, yes' if right else 'right'}."}


def _idea(space: HuntSpace, current: UnderWay, number: int) -> dict[str, Any]:
    right = space.answer_idea(current, number)
    return {"right": right, "says": "Yes. Now mend the program." if right else "No, that would look different."}


def _mend(space: HuntSpace, current: UnderWay, text: str, base: str) -> dict[str, Any]:
    """Saves the learner's text in the file of the hunt, and grades it."""
    problem, program = catalog.load(current.problem), space.program(current)
    saved, source = attempt_files.submit(space, problem, text, base)
    digest = {"digest": saved.digest}
    with _workers() as workers:
        failed = next(run_program.failures(problem, source, workers), None)
    space.note_trial(current, str(failed.result.verdict) if failed else "PASS")
    if failed:
        return digest | {"right": False, "says": f"Not yet. {symptoms.of(failed.result).text}"}
    if hunting.is_rewrite(program, text):
        return digest | {"right": False, "says": "It passes, but it is a rewrite. Change only what is wrong."}
    return digest | _end(space, current, mended=True)


def _end(space: HuntSpace, current: UnderWay, *, mended: bool) -> dict[str, Any]:
    program = space.program(current)
    space.note_end(current, mended=mended)
    says = "It passes. The program is mended." if mended else "The hunt has ended."
    return {"ended": True, "right": mended, "says": says, "lesson": hunting.lesson(current, program)}


@contextmanager
def _workers() -> Iterator[ForkServer]:
    """Yields a fork server for one answer. Gradings use the resident's."""
    server = ForkServer()
    try:
        yield server
    finally:
        server.close()


def _of(request: Request) -> tuple[HuntSpace, Problem]:
    """Returns the space of hunts, and the passed problem that the address names."""
    studio: Studio = request.app.state.studio
    space, problem = HuntSpace.of(studio.space), problem_at(request)
    if problem not in space.passed():
        raise UsageError(f"You have not passed problem {problem.label} yet. Hunts come from passed problems.")
    return space, problem


routes = [
    Route("/practice", practice),
    Route("/practice/hunts/{number:number}", hunt_page),
    Route("/practice/hunts/{number:number}", begin, methods=["POST"]),
    Route("/practice/hunts/{number:number}/answer", answer, methods=["POST"]),
]
