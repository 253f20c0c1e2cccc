"""Deep linking: a teacher picks problems, and the platform adds a link and a column of the gradebook for each."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jwt

from grader.batch.gradebook import Assignment
from grader.course import catalog
from grader.problem import Problem
from hosting.lti import claims as names
from hosting.lti.keys import Keys
from hosting.lti.launch import Launch, RefusedLaunchError
from hosting.lti.registration import Platform
from hosting.lti.services import TAG

_PATIENCE = 3600.0  # seconds for a teacher to choose
_VALID = 300.0  # seconds for the platform to take the choice
_WINDOW = {"window": {"targetName": "_blank"}}  # neither the hub nor the studio shows itself in another's frame


@dataclass(frozen=True)
class Choice:
    """A choice on its way back to the platform: the address, and the signed message for it."""

    address: str
    message: str


def by_part() -> dict[str, list[Problem]]:
    """Returns the problems of the course by its parts, in order."""
    parts: dict[str, list[Problem]] = {}
    for problem in catalog.problems():
        parts.setdefault(catalog.part_of(problem), []).append(problem)
    return parts


def ticket(launch: Launch, keys: Keys, audience: str) -> str:
    """Returns the request of a launch as a token, which the page of problems sends back with the choice."""
    assert launch.selection is not None  # noqa: S101  the caller has looked
    request = {"platform": launch.platform.name, "deployment": launch.deployment, **asdict(launch.selection)}
    return keys.sign({"aud": audience, **request}, _PATIENCE)


def choose(
    token: str, chosen: Sequence[str], keys: Keys, audience: str, platforms: Mapping[str, Platform],
    link: Callable[[Problem], str],
) -> Choice:  # fmt: skip
    """Returns the message for the platform with the chosen problems. `link` gives the address that opens a problem.

    Raises RefusedLaunchError if the token is not of `ticket`, or if a problem does not exist.
    """
    try:
        request = keys.own(token, audience)
        platform = platforms[request["platform"]]
    except (jwt.PyJWTError, KeyError):
        raise RefusedLaunchError("This choice is too old. Add the problems from your course again.") from None
    known = {problem.name: problem for problem in catalog.problems()}
    if not chosen or not set(chosen) <= known.keys() or (len(chosen) > 1 and not request["several"]):
        raise RefusedLaunchError("Choose at least one problem, and only one where your course has room for one.")
    claims = {
        "iss": platform.client_id,
        "aud": platform.issuer,
        "nonce": secrets.token_urlsafe(16),
        names.DEPLOYMENT: request["deployment"],
        names.MESSAGE: names.CHOSEN_LINKS,
        names.VERSION: names.LTI_VERSION,
        names.CONTENT_ITEMS: [
            _item(problem, link(problem)) | (_WINDOW if request["windows"] else {})
            for name, problem in known.items()
            if name in chosen
        ],
    }
    if request["data"] is not None:
        claims[names.DATA] = request["data"]
    return Choice(request["return_url"], keys.sign(claims, _VALID))


def _item(problem: Problem, address: str) -> dict[str, Any]:
    column = Assignment.of(problem)
    return {
        "type": "ltiResourceLink",
        "title": column.title,
        "url": address,
        "custom": {"problem": problem.name},
        "lineItem": {"label": column.title, "scoreMaximum": column.points, "resourceId": problem.name, "tag": TAG},
    }
