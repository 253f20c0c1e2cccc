"""What learners have handed in: a folder for each attempt, written whole and never changed. It survives a power cut.

The folders are the queue of the gradings, too: nothing else has to be kept in step with them.
"""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

from grader.batch import hand_ins
from grader.batch.hand_ins import HandIn

_UNFINISHED = ".new-"
Accept = Callable[[datetime, Sequence[HandIn]], None]


class Inbox:
    """The attempts of a class. Only one process at a time may use a folder.

    `now` returns the time in UTC.
    """

    def __init__(self, folder: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.folder, self._now = folder, now
        self._lock = threading.Lock()
        folder.mkdir(0o700, parents=True, exist_ok=True)
        (folder / hand_ins.MARK).touch()
        for left in folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left)
        found = (hand_ins.parse(PurePosixPath(path.relative_to(folder))) for path in folder.glob("*/*/*"))
        self._known: dict[str, dict[str, HandIn]] = {}
        for hand_in in sorted(filter(None, found), key=lambda one: one.received):
            self._known.setdefault(hand_in.learner, {})[hand_in.id] = hand_in

    def all(self) -> list[HandIn]:
        """Returns the attempts of all learners."""
        with self._lock:
            return [hand_in for own in self._known.values() for hand_in in own.values()]

    def of(self, learner: str, problem: str) -> list[HandIn]:
        """Returns the attempts of a learner at a problem, in order."""
        with self._lock:
            own = self._known.get(learner, {}).values()
            return [hand_in for hand_in in own if hand_in.problem == problem]

    def receive(self, learner: str, problem: str, attempt_id: str, files: Mapping[str, str], accept: Accept) -> HandIn:
        """Stores an attempt with the time of its arrival, unless it has been stored before, and returns it.

        `files` are the texts by module. `accept` is called first, with that time and the learner's attempts at the
        problem, and may raise to refuse it. Raises OSError if it cannot be stored.
        """
        with self._lock:
            own = self._known.get(learner, {})
            if earlier := own.get(attempt_id):
                return earlier
            latest = max((one.received for known in self._known.values() for one in known.values()), default=None)
            # Later than all others, also if the clock was set back: the time tells two attempts apart.
            received = max(self._now(), latest + timedelta(microseconds=1)) if latest else self._now()
            accept(received, [one for one in own.values() if one.problem == problem])
            hand_in = HandIn(learner, problem, received, attempt_id)
            self._write(self.folder / hand_in.folder, files)
            self._known.setdefault(learner, {})[attempt_id] = hand_in
            return hand_in

    def _write(self, target: Path, files: Mapping[str, str]) -> None:
        unfinished = Path(tempfile.mkdtemp(dir=self.folder, prefix=_UNFINISHED))
        try:
            for module, text in files.items():
                with (unfinished / f"{module}.py").open("w", encoding="utf-8", newline="") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
            _sync(unfinished)
            target.parent.mkdir(0o700, parents=True, exist_ok=True)
            unfinished.rename(target)
            for folder in (target.parent, target.parent.parent, self.folder):
                _sync(folder)
        finally:
            with suppress(FileNotFoundError):
                shutil.rmtree(unfinished)


def _sync(folder: Path) -> None:
    """Makes the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
