"""System calls that Python has no function for, through ctypes."""

import ctypes
import os
from functools import cache

DEATH_SIGNAL, DUMPABLE, SUBREAPER, NO_NEW_PRIVILEGES = 1, 4, 36, 38  # of prctl(2)


@cache
def libc() -> ctypes.CDLL:
    """Returns the C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def call(number: int, *args: int | bytes | None) -> int:
    """Makes the system call with that number and returns its result. Raises OSError."""
    result = int(libc().syscall(number, *args))
    if result < 0:
        raise error(f"system call {number}")
    return result


def prctl(option: int, value: int) -> None:
    """Sets an attribute of this process. Does nothing where the kernel does not know the attribute."""
    libc().prctl(option, value, 0, 0, 0)


def no_new_privileges() -> None:
    """Sets no_new_privs, which seccomp and Landlock require of unprivileged processes. Raises OSError."""
    if libc().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise error("prctl")


def error(what: str) -> OSError:
    """Returns an OSError for the errno of the last call."""
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
