"""The state behind the page of a class: its results, which a batch may be writing, and the events on their changes."""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

from commandline.errors import CommandError, UsageError
from grader.batch import class_page, summary
from grader.batch.results import DATABASE, Results
from studio.events import Events

TOPIC = "class"
_TICK = 1.0  # seconds between two looks at the database
_REST = 4  # times as long as a page took to make: a batch on the same machine needs the cores


class ClassResults:
    """The results in a folder that `grade batch` writes. Raises UsageError if there are none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = Events()
        self._article: tuple[object, str] = (None, "")
        self._making = threading.Lock()
        Results(folder).close()

    def article(self) -> str:
        """Returns the page of the class as HTML. Raises CommandError if the results cannot be read."""
        with self._making:
            signature = self._signature()
            if signature != self._article[0]:
                self._article = (signature, self._made())
            return self._article[1]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Delivers events until the end of the context."""
        self.events.open()
        follow = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            self.events.close()
            follow.cancel()
            await asyncio.gather(follow, return_exceptions=True)

    async def _follow(self) -> None:
        seen = self._signature()
        while True:
            await asyncio.sleep(_TICK)
            now = self._signature()
            if now == seen or TOPIC not in self.events.topics():
                continue
            started, seen = time.monotonic(), now
            with contextlib.suppress(CommandError):  # the next reader of the page gets the error
                await asyncio.to_thread(self.article)
                self.events.publish(TOPIC, "changed")
            await asyncio.sleep(_REST * (time.monotonic() - started))

    def _signature(self) -> object:
        """Returns a value that changes when the database does."""
        with contextlib.suppress(OSError):
            status = (self.folder / DATABASE).stat()
            return status.st_mtime_ns, status.st_size
        return None

    def _made(self) -> str:
        try:
            with contextlib.closing(Results(self.folder)) as stored:
                return class_page.render(summary.of(stored))
        except sqlite3.Error as error:
            raise UsageError(f"{self.folder / DATABASE} cannot be read now: {error}.") from None
