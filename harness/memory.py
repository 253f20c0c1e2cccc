"""How the C library manages this process's memory."""

import ctypes
import sys

# Parameters of mallopt (malloc.h)
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
MOST = 2**31 - 1  # bytes


def keep_freed_memory() -> None:
    """Lets malloc keep large blocks that are freed, for the next request. To call before any thread starts.

    A train step on a CPU allocates and frees its workspace. By default, glibc returns such blocks to the system, so
    that each step pays for a page fault every 4 KiB: a quarter of a step of `pocket`. Does nothing with other C
    libraries.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        for parameter, value in ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, MOST), (M_TRIM_THRESHOLD, MOST)):
            mallopt(parameter, value)
