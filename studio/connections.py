"""Connections to the studio's port. Every program on the machine can open them, so they must soon send a valid
request."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

_PATIENCE = 10.0  # seconds for a first valid request: a browser sends it at once, or opens another connection
_STRANGERS = 256  # connections without a valid request; the oldest make room. A process may have 1,024 files open.
BACKLOG = 64  # connections accepted in one step: far fewer than that, so that each has time to send its request


class Connection(H11Protocol):
    """A connection that is closed unless `admit` is called in time. Requests find it in
    `scope["state"]["connection"]`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.app_state = {**self.app_state, "connection": self}
        self._is_admitted = False
        self._opened = self.loop.time()
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._end = self.loop.call_later(_PATIENCE, transport.abort)
        strangers = [each for each in self.connections if isinstance(each, Connection) and not each._is_admitted]
        if len(strangers) > _STRANGERS:
            oldest = min(strangers, key=lambda each: each._opened)
            self.connections.discard(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_end()
        super().connection_lost(exc)

    def admit(self) -> None:
        """Lets the connection stay: a request on it has shown the studio's secrets."""
        self._is_admitted = True
        self._forget_end()

    def _forget_end(self) -> None:
        if self._end:
            self._end.cancel()
            self._end = None
