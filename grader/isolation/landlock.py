"""Linux Landlock through ctypes: limits this process and its children to certain files, and denies them TCP.

See landlock(7). Needs no privileges. It binds the calling thread and its later children, so this process must have only
one thread.
"""

import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

from grader.isolation.libc import call, libc, no_new_privileges

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_RULE_PATH_BENEATH = 1
_VERSION_FLAG = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | 1 << 15
# Rights known to each version of the interface; a kernel refuses a ruleset that names a right it does not know.
_FS_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_NET_RIGHTS = 0b11  # bind and connect TCP, since version 4
_SCOPES = 0b11  # abstract sockets of other processes, and signals to them, since version 6


def version() -> int:
    """Returns the version of the kernel's Landlock interface; 0 if the kernel has no Landlock."""
    if sys.platform != "linux":
        return 0
    return max(0, int(libc().syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)))


def restrict(readable: Iterable[Path], writable: Iterable[Path], listed: Iterable[Path] = ()) -> int:
    """Denies this process all file access except reading below `readable`, and everything but execution below
    `writable`.

    Below `listed`, names of files may be read, but not files.

    Paths that do not exist are skipped. Returns the interface version used. Raises OSError if the kernel refuses.
    """
    abi = version()
    if not abi:
        raise OSError("this kernel has no Landlock")
    rights = max(bits for since, bits in _FS_RIGHTS.items() if since <= abi)
    attributes = struct.pack("=QQQ", rights, _NET_RIGHTS if abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = call(_CREATE_RULESET, attributes, size, 0)
    try:
        for path in readable:
            _allow(ruleset, path, _READ_FILE | _READ_DIR)
        for path in listed:
            _allow(ruleset, path, _READ_DIR)
        for path in writable:
            _allow(ruleset, path, rights & ~_EXECUTE)
        no_new_privileges()
        call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return abi


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not path.is_dir():
            rights &= _FILE_RIGHTS
        call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, target), 0)
    finally:
        os.close(target)
