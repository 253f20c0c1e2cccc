"""The studio where the harness is installed: with runs to train and playgrounds."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from grader.course.workspace import Workspace
from studio.playground import Playgrounds
from studio.run_folders import RunFolders
from studio.studio import Studio
from studio.training import Trainings

_TICK = 1.0  # seconds between two looks at the folders of runs


class TrainingStudio(Studio):
    """A studio that also has the runs of the harness in the folder `runs`."""

    def __init__(self, space: Workspace, runs: Path) -> None:
        super().__init__(space, runs)
        self.runs = RunFolders(runs)
        self.trainings = Trainings(self.runs.root, self.events)
        self.playgrounds = Playgrounds(self.runs.root, self.events)

    def _background(self, stop: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
        return [*super()._background(stop), self._follow_runs()]

    def _closers(self) -> list[Callable[[], None]]:
        return [*super()._closers(), self.trainings.close, self.playgrounds.close]

    async def _follow_runs(self) -> None:
        """Sends the pages of runs an event when a folder has changed. Frees the memory of models that nobody uses
        anymore."""
        seen = dict[str, object]()
        while True:
            await asyncio.sleep(_TICK)
            open_runs = {topic.removeprefix("run ") for topic in self.events.topics() if topic.startswith("run ")}
            before, seen = seen, {}
            for name in open_runs:
                seen[name] = await asyncio.to_thread(self.runs.signature, name)
                if before.get(name) != seen[name]:  # so a page gets one more event a moment after it opened
                    self.events.publish(f"run {name}", "changed")
            await asyncio.to_thread(self.playgrounds.tidy)
