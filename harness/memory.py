"""How the C library manages this process's memory."""

import ctypes
import mmap
import sys
from typing import Any

# Parameters of mallopt (malloc.h)
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
MOST = 2**31 - 1  # bytes
MADV_HUGEPAGE = 14  # of madvise (mman.h)
RESERVED = 2**31 - 2**24  # bytes of addresses, less than what is trimmed


def keep_freed_memory() -> None:
    """Lets malloc keep large blocks that are freed, for the next request. To call before any thread starts.

    A train step on a CPU allocates and frees its workspace. By default, glibc returns such blocks to the system, so
    that each step pays for a page fault every 4 KiB: a quarter of a step of `pocket`. Does nothing with other C
    libraries.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        for parameter, value in ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, MOST), (M_TRIM_THRESHOLD, MOST)):
            mallopt(parameter, value)
        _ask_for_large_pages(ctypes.CDLL(None))


def _ask_for_large_pages(libc: Any) -> None:
    """Asks Linux for pages of 2 MiB in the memory that malloc will use next. Uses none of it yet.

    A product reads many rows of the logits at once, each from another page of 4 KiB, which are more than the processor
    holds the addresses of. Changes nothing where pages are always large, or never.
    """
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.madvise.argtypes, libc.free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], [ctypes.c_void_p]
    if block := libc.malloc(RESERVED):
        start = -(-block // mmap.PAGESIZE) * mmap.PAGESIZE
        libc.madvise(start, block + RESERVED - start, MADV_HUGEPAGE)
        libc.free(block)
