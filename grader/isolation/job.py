"""The job of a worker, and the message that starts the worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Limits:
    """The resources that one worker and everything it starts may use. Memory is in bytes, above what its imports
    hold."""

    memory: int = 2 << 30
    file_size: int = 256 << 20
    processes: int = 32


@dataclass(frozen=True)
class Job:
    """The work that a worker is started for.

    Attributes:
        folder: The folder of the problem's definition.
        devices: The number of devices.
        limits: The limits of resources.
        hidden: The folders that no process that runs a submission can read.
        extension: The name of a module. Its `prepare(problem)` returns the function that answers requests of the kind
            `stream`.
    """

    folder: Path
    devices: int = 1
    limits: Limits = field(default_factory=Limits)
    hidden: tuple[Path, ...] = ()
    extension: str = ""


@dataclass(frozen=True)
class Launch:
    """The first message to a worker: its job, and the processes and folders around it.

    Attributes:
        job: The job.
        scratch: The scratch folder.
        judge: The judge's process id.
        without: The layers of isolation to leave out, for tests of what the others stop.
        cgroup_files: The files to which a process writes 0 to join the cgroup.
        controllers: The controllers that are active in the cgroup.
        number: Differs between workers that run at the same time.
        spare: Whether the worker warms up before its first request.
    """

    job: Job
    scratch: Path
    judge: int
    without: frozenset[str] = frozenset()
    cgroup_files: tuple[Path, ...] = ()
    controllers: tuple[str, ...] = ()
    number: int = 0
    spare: bool = False

    def encode(self) -> dict[str, Any]:
        """Returns the message as JSON values."""
        return {
            "job": {
                **asdict(self.job),
                "folder": str(self.job.folder),
                "hidden": [str(path) for path in self.job.hidden],
            },
            "scratch": str(self.scratch),
            "judge": self.judge,
            "without": sorted(self.without),
            "cgroup_files": [str(path) for path in self.cgroup_files],
            "controllers": list(self.controllers),
            "number": self.number,
            "spare": self.spare,
        }

    @classmethod
    def decode(cls, fields: Mapping[str, Any]) -> Launch:
        """Returns the message from JSON values. Raises KeyError or TypeError on anything that `encode` did not make."""
        job = fields["job"]
        return cls(
            Job(**{
                **job, "folder": Path(job["folder"]), "limits": Limits(**job["limits"]),
                "hidden": tuple(map(Path, job["hidden"])),
            }),
            Path(fields["scratch"]), fields["judge"], frozenset(fields["without"]),
            tuple(map(Path, fields["cgroup_files"])), tuple(fields["controllers"]), fields["number"],
            fields["spare"],
        )  # fmt: skip
