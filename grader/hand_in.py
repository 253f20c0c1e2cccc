"""Handing in to the service of a hub: sends a learner's file, and keeps it in the workspace until it has arrived.

The learner's server on the hub knows the address and has a token, which says who the learner is.
"""

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from commandline import files
from commandline.errors import CommandError, UsageError
from commandline.http_json import NoAnswerError, ask
from grader.course import catalog
from grader.course.workspace import Workspace
from grader.judge import submission
from grader.problem import Problem

ADDRESS, TOKEN = "GPT_KATA_HAND_IN", "JUPYTERHUB_API_TOKEN"
FOLDER = ".handing-in"  # in the workspace: what has not arrived
_PATIENCE = 20.0  # seconds
_MOST_KEPT = 16 << 20  # bytes of a file
_REFUSED = (400, 413, 429)  # statuses of an attempt that would be refused again; others can change
_SILENT = "The service of your class does not answer."
KEPT = "Your file is kept in your workspace, and an open studio sends it as soon as it can."


class NotArrivedError(CommandError):
    """The service did not answer, or could not store an attempt. What was to be sent is kept."""

    exit_code = 1


@dataclass(frozen=True)
class Service:
    """The service of a hub, and the token of the learner."""

    address: str
    token: str

    def hand_in(self, attempt_id: str, attempt: Mapping[str, Any]) -> dict[str, Any]:
        """Sends an attempt, also one that may have arrived before, and returns the receipt. Raises UsageError if it is
        refused, NotArrivedError if it has not arrived."""
        receipt: dict[str, Any] = self._ask("PUT", f"attempts/{attempt_id}", attempt)
        return receipt

    def attempts(self, problem: Problem) -> list[dict[str, Any]]:
        """Returns the receipts of the learner's attempts at a problem, each with its `result` as far as the learner may
        read it. Raises UsageError and NotArrivedError."""
        found: list[dict[str, Any]] = self._ask("GET", f"attempts?problem={quote(problem.name)}")
        return found

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        text = None if body is None else json.dumps(body)
        try:
            status, said = ask(method, f"{self.address.rstrip('/')}/{path}", self.token, text, seconds=_PATIENCE)
        except NoAnswerError:
            raise NotArrivedError(_SILENT) from None
        if status == 200:
            return said
        words = said.get("error") if isinstance(said, dict) else None
        if status in _REFUSED and isinstance(words, str):
            raise UsageError(words)
        raise NotArrivedError(words if isinstance(words, str) else _SILENT)


def service() -> Service | None:
    """Returns the service to hand in to; None if this is no learner's server of a hub. Raises UsageError if the
    environment has an address that is none."""
    address, token = os.environ.get(ADDRESS, ""), os.environ.get(TOKEN, "")
    if address and not address.startswith(("http://", "https://")):
        raise UsageError(f"{ADDRESS}={address} is not the address of a service; ask who runs the hub.")
    return Service(address, token) if address and token else None


@dataclass(frozen=True)
class Sent:
    """An attempt that the service has answered: what it says, and whether it has received the attempt or refused it."""

    problem: Problem
    said: str
    is_received: bool


class Outbox:
    """What a learner has handed in and the service has not answered yet: a file of the workspace for each attempt."""

    def __init__(self, space: Workspace, to: Service) -> None:
        self._space, self._to = space, to
        self._folder = space.folder / FOLDER

    def put(self, problem: Problem) -> None:
        """Keeps the learner's file for a problem as it is now, with the course modules that it imports, to be sent.

        Raises UsageError if there is nothing to send.
        """
        try:
            source = submission.read(problem, self._space.file(problem), self._space.modules)
        except submission.UnreadableSubmissionError as error:
            raise UsageError(str(error)) from None
        attempt = {"problem": problem.name, "files": dict(source.sources)}
        # The id is chosen once, so that an attempt whose answer was lost is not received twice.
        files.write(self._folder / f"{secrets.token_hex(16)}.json", json.dumps(attempt), durable=True)

    def waiting(self) -> set[str]:
        """Returns the names of the problems with attempts that the service has not answered."""
        return {attempt["problem"] for _, attempt in self._attempts()}

    def send(self) -> Iterator[Sent]:
        """Sends what the service has not answered, in order, and yields each answer. Raises NotArrivedError at the
        first attempt without one; it is kept, and so are those after it."""
        for path, attempt in self._attempts():
            problem = catalog.load(attempt["problem"])
            try:
                sent = Sent(problem, str(self._to.hand_in(path.stem, attempt)["said"]), is_received=True)
            except UsageError as error:
                sent = Sent(problem, str(error), is_received=False)
            path.unlink(missing_ok=True)
            yield sent

    def _attempts(self) -> list[tuple[Path, dict[str, Any]]]:
        """Returns the files of the attempts, the oldest first, with their content. Skips files that
        hold no attempt at a problem of this course."""
        paths = [(path.stat().st_mtime_ns, path) for path in self._folder.glob("*.json")]
        read = [(path, _read(path)) for _, path in sorted(paths)]
        return [(path, attempt) for path, attempt in read if attempt.get("problem") in catalog.names()]


def _read(path: Path) -> dict[str, Any]:
    try:
        attempt = json.loads(files.read_regular(path, _MOST_KEPT))
    except (OSError, files.NotRegularFileError, ValueError):
        return {}
    return attempt if isinstance(attempt, dict) else {}
