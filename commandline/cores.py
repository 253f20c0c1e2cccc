"""The cores of this machine, and processes that share the work among them."""

import os
from typing import TYPE_CHECKING, Any

from commandline.errors import CommandError

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor


def usable_cores() -> int:
    """Returns the number of cores that this process may use, at least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pool(processes: int, **settings: Any) -> "ProcessPoolExecutor":
    """Returns a pool of processes. Raises CommandError where there is no shared memory, which the locks of a pool
    need."""
    from concurrent.futures import ProcessPoolExecutor  # takes long to import

    try:
        return ProcessPoolExecutor(processes, **settings)
    except (OSError, NotImplementedError):
        raise CommandError(
            "This command works with several processes, which need shared memory, and /dev/shm is missing or cannot be "
            "written. Mount it, or grade single files with `grade problem`."
        ) from None
