"""A seccomp filter through ctypes: allows this process and its children only the calls of `system_calls`.

See seccomp(2) and bpf(4). A denied call fails with EPERM, so Python raises PermissionError. A denied call with a number
from 424 on fails with ENOSYS, as on a kernel that is older than the call: C libraries and Python try an older call
after ENOSYS, but not after EPERM. These numbers belong to calls added since Linux 5.1, so every program has such an
alternative.
"""

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from collections.abc import Collection
from dataclasses import dataclass

from grader.isolation.libc import DEATH_SIGNAL, NO_NEW_PRIVILEGES, error, libc, no_new_privileges
from grader.isolation.system_calls import (
    ALLOWED,
    CLONE,
    FCNTL,
    IOCTL,
    KILL,
    PRCTL,
    PRLIMIT,
    RT_SIGACTION,
    SOCKETPAIR,
    TGKILL,
    Numbers,
)

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NOT_PERMITTED, _NOT_IMPLEMENTED = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data, little-endian
_X32 = 0x40000000  # marks the calls of x86-64's x32 interface
_RECENT = 424  # the first of the numbers that are the same on all architectures

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

# NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NEW_NAMESPACES = 0x7E020000
_ALL_BITS = 0xFFFFFFFF
# SET_NAME, GET_NAME, GET_DUMPABLE, GET_SECCOMP, CAPBSET_READ, SET_VMA. Not SET_DUMPABLE: it would hide the process's
# memory from the watchdog.
_PRCTLS = (DEATH_SIGNAL, NO_NEW_PRIVILEGES, 15, 16, 3, 21, 23, 0x53564D41)
# TCGETS (isatty), TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# Descriptors, flags, locks and the size of a pipe. Not SETOWN and SETSIG: they send signals to other processes.
_FCNTLS = (*range(8), 36, 37, 38, 1030, 1031, 1032)
_UNIX, _STREAM, _TYPE_BITS = 1, 1, 0xF
_MOST_SIGNALS = 64


@dataclass(frozen=True)
class _Condition:
    """One argument of a call, by its position, must have one of these values in the bits of `mask`."""

    argument: int
    values: Collection[int]
    mask: int = _ALL_BITS


def available() -> bool:
    """Returns whether the system call numbers of this machine are known here."""
    return sys.platform == "linux" and platform.machine() in _ARCHITECTURES


def restrict() -> None:
    """Denies the calling thread, and whatever it starts, all calls that are not allowed. Raises OSError."""
    program = _program()
    instructions = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: a length, and, aligned, a pointer.
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(instructions))
    no_new_privileges()
    if libc().prctl(_PR_SET_SECCOMP, _MODE_FILTER, header, 0, 0):
        raise error("seccomp")


def _conditions() -> list[tuple[Numbers, list[_Condition]]]:
    """Returns the calls that are allowed with some arguments only."""
    own = _Condition(0, [os.getpid()])
    return [
        (CLONE, [_Condition(0, [0], _NEW_NAMESPACES)]),
        (FCNTL, [_Condition(1, _FCNTLS)]),
        (IOCTL, [_Condition(1, _IOCTLS)]),
        (PRCTL, [_Condition(0, _PRCTLS)]),
        (PRLIMIT, [_Condition(0, [0])]),  # its own limits, not the judge's
        (KILL, [own]),
        (TGKILL, [own]),  # abort() uses it
        # Where SIGCHLD is ignored, the kernel does not add the computing time of a child that has ended to its
        # parent's.
        (RT_SIGACTION, [_Condition(0, set(range(1, _MOST_SIGNALS + 1)) - {signal.SIGCHLD})]),
        # A pair of datagram sockets could send to any other socket.
        (SOCKETPAIR, [_Condition(0, [_UNIX]), _Condition(1, [_STREAM], _TYPE_BITS)]),
    ]


def _program() -> bytes:
    """Returns the filter as 8-byte instructions of the kernel: a code, the jumps if true and if false, and a
    constant."""
    architecture, column = _ARCHITECTURES[platform.machine()]
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _NOT_PERMITTED),
    ]  # fmt: skip
    for numbers in ALLOWED.values():
        if (number := numbers[column]) is not None:
            code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    for numbers, conditions in _conditions():
        body = [instruction for condition in conditions for instruction in _unless(condition)]
        code += [(_EQUAL, 0, len(body) + 1, numbers[column] or 0), *body, (_RETURN, 0, 0, _ALLOW)]
    # clone3 is one of the recent calls: its flags are in memory, which a filter cannot read, and libraries use clone
    # instead.
    code += [(_AT_LEAST, 0, 1, _RECENT), (_RETURN, 0, 0, _NOT_IMPLEMENTED), (_RETURN, 0, 0, _NOT_PERMITTED)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _unless(condition: _Condition) -> list[tuple[int, int, int, int]]:
    """Returns the instructions that deny the call unless the condition holds."""
    last = len(condition.values)
    tests = [(_EQUAL, last - position, 0, value) for position, value in enumerate(condition.values)]
    return [
        (_LOAD, 0, 0, _ARGUMENTS + 8 * condition.argument),
        (_AND, 0, 0, condition.mask),
        *tests,
        (_RETURN, 0, 0, _NOT_PERMITTED),
    ]
