"""Server-sent events: the changes while a page is open, for every page about the same topic."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

_WAITING = (
    1000  # events that a page may lag behind; a slower one is cut off, connects again and receives the present state
)
_SILENCE = 15.0  # seconds after which a comment shows that the connection is alive

_Queue = asyncio.Queue[str | None]


class Events:
    """Sends events to subscribers. `publish` may be called from any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._subscribers: dict[_Queue, str] = {}

    def open(self) -> None:
        """Begins to deliver, in the running event loop."""
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """Ends all streams. Can be called from a signal handler."""
        if self._loop:
            self._loop.call_soon_threadsafe(self._end_all)
            self._loop = None

    def publish(self, topic: str, kind: str, **data: Any) -> None:
        """Sends an event to the subscribers of a topic. `data` must be JSON values."""
        if loop := self._loop:
            loop.call_soon_threadsafe(self._deliver, topic, _encode(kind, data))

    def topics(self) -> set[str]:
        """Returns the topics of the pages that are open."""
        return set(self._subscribers.values())

    def stream(self, topic: str, *first: tuple[str, dict[str, Any]]) -> StreamingResponse:
        """Returns a response that sends the given events first, then each new event of the topic."""
        queue: _Queue = asyncio.Queue(_WAITING)
        self._subscribers[queue] = topic
        for kind, data in first:
            queue.put_nowait(_encode(kind, data))
        return StreamingResponse(self._events(queue), media_type="text/event-stream")

    async def _events(self, queue: _Queue) -> AsyncIterator[str]:
        try:
            while self._loop:
                try:
                    event = await asyncio.wait_for(queue.get(), _SILENCE)
                except TimeoutError:
                    event = ": still here\n\n"
                if event is None:
                    return
                yield event
        finally:
            self._subscribers.pop(queue, None)

    def _deliver(self, topic: str, event: str) -> None:
        for queue, subscribed in list(self._subscribers.items()):
            if subscribed == topic:
                self._put(queue, event)

    def _end_all(self) -> None:
        for queue in list(self._subscribers):
            self._put(queue, None)

    def _put(self, queue: _Queue, event: str | None) -> None:
        if queue.full():
            while not queue.empty():
                queue.get_nowait()
            event = None
        queue.put_nowait(event)


def _encode(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"
