"""The cores of this machine."""

import os


def usable_cores() -> int:
    """How many cores this process may use, at least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
