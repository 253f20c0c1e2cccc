"""Carries the marks of the gradings to the learning platforms: who a learner is there, and which marks are to be sent.

A user of the hub is the user of a platform whom the hub has signed in by that name: the service asks the hub for what
the platform said then. Nothing that a learner sends decides it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from starlette.exceptions import HTTPException

from commandline.errors import CommandError
from grader.batch.results import DATABASE
from hosting.class_folder import ClassFolder, person_among
from hosting.inbox import Inbox
from hosting.lti.launch import RefusedLaunchError, accepted
from hosting.lti.tool import Tool

AGAIN = 60.0  # seconds until the Hub is asked again if it did not answer
_log = logging.getLogger(__name__)

# Returns the claims with which a user has signed in at the Hub; None if that was not from a platform. Raises
# HTTPException if the Hub does not say.
Claims = Callable[[str], Awaitable[Mapping[str, Any] | None]]


class Marks:
    """Puts the published marks of a class into the outbox of a tool, after each batch.

    Attributes:
        unknown: Why the marks of a user of the hub are sent nowhere, as a sentence.
        trouble: Why the hub was not asked, as a sentence; empty if it was.
    """

    def __init__(self, of: ClassFolder, inbox: Inbox, tool: Tool, claims: Claims) -> None:
        self._of, self.tool, self._claims = of, tool, claims
        self._woken = asyncio.Event()
        self._to_ask = {one.learner for one in inbox.all()} - set(tool.enrollments.enrolled())
        self._put_last: object = None  # what decided the marks that are in the outbox
        self.unknown: dict[str, str] = {}
        self.trouble = ""

    def handed_in(self, learner: str) -> None:
        """Says that somebody has handed in, perhaps from another course than before."""
        self._to_ask.add(learner)
        self.wake()

    def wake(self) -> None:
        """Says that there may be other marks."""
        self._woken.set()

    async def run(self) -> None:
        """Carries marks until it is cancelled."""
        while True:
            self._woken.clear()
            try:
                await self.carry()
            except CommandError as error:
                _log.error("the marks wait: %s", error)
            except Exception:  # whatever it is, later marks are sent
                _log.exception("the marks wait")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), AGAIN if self._to_ask else None)

    async def carry(self) -> None:
        """Asks the hub who has handed in, and puts the marks of all whom a platform knows. Raises CommandError."""
        self.trouble = ""
        for learner in sorted(self._to_ask):
            self._to_ask.discard(learner)
            try:
                await self._recognize(learner)
            except HTTPException as error:
                self.trouble = error.detail
                self._to_ask.add(learner)
                break
        await asyncio.to_thread(self._put)

    async def _recognize(self, learner: str) -> None:
        """Stores which user of which platform a user of the hub is."""
        claims = await self._claims(learner)
        try:
            if not claims:
                raise RefusedLaunchError("This user did not sign in from a course. Open a problem by its link there.")
            launch = accepted(claims, self.tool.platforms)
            if launch.user.lower() != learner:
                raise RefusedLaunchError(
                    f"The hub does not name this user by the platform's id, {launch.user!r}. Set the hub's "
                    '`username_key` to "sub".'
                )
            await asyncio.to_thread(self.tool.enrollments.remember, launch, learner)
        except RefusedLaunchError as error:
            self.unknown[learner] = str(error)
        else:
            self.unknown.pop(learner, None)

    def _put(self) -> None:
        holds, users = self._of.rules().policy.holds_marks, self.tool.enrollments.enrolled()
        with self._of.stored() as stored:
            decides = holds, users, (self._of.results / DATABASE).stat().st_mtime_ns if stored else 0
            if stored is None or decides == self._put_last:
                return
            people, rows = stored.people().values(), stored.to_send()
        by_learner: dict[str, list[tuple[str, float, str]]] = {}
        for learner, problem, mark, submitted in rows:
            by_learner.setdefault(learner, []).append((problem, mark, submitted))
        for user in users:
            for problem, mark, submitted in by_learner.get(person_among(people, user).learner, ()):
                received = datetime.fromisoformat(submitted) if submitted else None
                self.tool.outbox.put(user, problem, mark, received, hold=holds)
        self._put_last = decides
