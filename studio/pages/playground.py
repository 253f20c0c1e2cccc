"""The playground of a run: its model continues a text, and shows how likely each token was and where attention goes."""

import contextlib
import math
import re
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from commandline.errors import CommandError
from studio.playground import topic
from studio.run_folders import RunState
from studio.training_studio import TrainingStudio
from studio.view import read_json, render

_PROMPT = "Once upon a time, there was"
_LONGEST_PROMPT, _MOST_TOKENS = 20_000, 4096
_KINDS = ("read", "sample", "settings", "stop", "attention")
_PAGE = re.compile(r"[0-9a-f]{16}")


def playground(request: Request) -> Response:
    """Returns the page."""
    studio, run = _of(request)
    studio.runs.require_no_links(run.name)
    return render(request, "playground.html", {"run": run, "prompt": _PROMPT, "names": _trained(studio)})


async def events(request: Request) -> Response:
    """Returns the answers to the requests of one page."""
    studio, run = await run_in_threadpool(_of, request)
    page = request.query_params.get("page", "")
    if not _PAGE.fullmatch(page):
        raise HTTPException(404)
    return studio.events.stream(topic(run.name, page), ("ready", {}))


async def ask(request: Request) -> Response:
    """Takes a request of a page. Its answers are sent as events."""
    studio, run = await run_in_threadpool(_of, request)
    body = await read_json(request, page=str, kind=str, prompt=str)
    if not _PAGE.fullmatch(body["page"]) or body["kind"] not in _KINDS:
        raise HTTPException(400, "The request is not what the studio's pages send.")
    if not run.can_sample:
        raise HTTPException(409, "This run has no checkpoint yet.")
    await run_in_threadpool(studio.runs.require_no_links, run.name)
    version = int(run.validated[-1][0]) if run.validated else 0
    await run_in_threadpool(studio.playgrounds.ask, run.name, version, body["page"], _checked(body))
    return Response(status_code=202)


def _checked(body: dict[str, Any]) -> dict[str, Any]:
    """Returns the request with values of the right kind, in bounds. Raises 400 for others."""
    try:
        ids, temperature, top_p = body.get("ids"), float(body.get("temperature", 1.0)), float(body.get("top_p", 1.0))
        if math.isnan(temperature) or math.isnan(top_p):
            raise ValueError
        request = {
            "kind": body["kind"],
            "prompt": body["prompt"][:_LONGEST_PROMPT],
            "ids": None if ids is None else [int(token_id) for token_id in ids][:_MOST_TOKENS],
            "temperature": min(max(temperature, 0.0), 5.0),
            "top_k": min(max(int(body.get("top_k", 0)), 0), 1_000_000),
            "top_p": min(max(top_p, 0.01), 1.0),
            "seed": int(body.get("seed", 0)) % 2**32,
            "max_tokens": min(max(int(body.get("max_tokens", 100)), 1), _MOST_TOKENS),
            "layer": min(max(int(body.get("layer", 0)), 0), 1000),
            "head": min(max(int(body.get("head", 0)), 0), 1000),
        }
    except (TypeError, ValueError, OverflowError):
        raise HTTPException(400, "The request is not what the studio's pages send.") from None
    return request


def _of(request: Request) -> tuple[TrainingStudio, RunState]:
    studio: TrainingStudio = request.app.state.studio
    name = request.path_params["name"]
    if not studio.runs.has(name):
        raise HTTPException(404)
    return studio, studio.runs.state(name)


def _trained(studio: TrainingStudio) -> list[str]:
    """Returns the runs that can be sampled."""
    names = list[str]()
    for name in studio.runs.names():
        with contextlib.suppress(CommandError):  # the list of runs says why
            if studio.runs.state(name).can_sample:
                names.append(name)
    return names


_AT = "/runs/{name}/playground"
routes = [Route(_AT, playground), Route(_AT, ask, methods=["POST"]), Route(f"{_AT}/events", events)]
