"""A request to a service that answers with JSON."""

import contextlib
import http.client
import json
from typing import Any
from urllib.parse import urlsplit

_LONGEST_ANSWER = 16 << 20  # bytes


class NoAnswerError(Exception):
    """No answer arrived, or it was not JSON."""


def ask(
    method: str, address: str, token: str, body: str | None = None, *, kind: str = "application/json", seconds: float
) -> tuple[int, Any]:
    """Sends a request with a token and a body of this media type. Returns the status and the JSON of the answer.

    Waits at most these seconds for each step. Raises NoAnswerError.
    """
    place = urlsplit(address)
    connect = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    headers = {"Authorization": f"token {token}", "Content-Type": kind}
    try:
        with contextlib.closing(connect(place.hostname or "", place.port, timeout=seconds)) as connection:
            connection.request(method, f"{place.path}?{place.query}" if place.query else place.path, body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read(_LONGEST_ANSWER) or "null")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswerError from error
