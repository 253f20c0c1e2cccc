"""Linux namespaces and a separate root folder, through ctypes: a process sees no files, processes or network but its
own.

See namespaces(7), user_namespaces(7), mount_namespaces(7), pivot_root(2). Root needs no user namespace. Any other user
creates one too, if the system allows it.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Iterable
from pathlib import Path

from grader.isolation.libc import call, error, libc, prctl

_NEW_MOUNTS, _NEW_CGROUP, _NEW_UTS, _NEW_IPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
_NEW_USER, _NEW_PIDS, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_ALL = _NEW_MOUNTS | _NEW_CGROUP | _NEW_UTS | _NEW_IPC | _NEW_PIDS | _NEW_NETWORK

_READ_ONLY, _NO_SUID, _NO_DEVICES, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
_DETACH = 2
_MOUNT_SETATTR, _PIVOT_ROOT = (442, 41 if platform.machine() == "aarch64" else 155)
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_CAPSET, _CAPABILITIES = 91 if platform.machine() == "aarch64" else 126, 0x20080522
_PR_CAPBSET_DROP, _LAST_CAPABILITY = 24, 63

SCRATCH = "/scratch"


def unshare() -> bool:
    """Moves this process into new namespaces. Its next child becomes the first process of the new process namespace.

    Returns False if the system does not allow it.
    """
    user, group = os.geteuid(), os.getegid()
    if user == 0 and libc().unshare(_ALL) == 0:
        return True
    if libc().unshare(_ALL | _NEW_USER):
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError:
        return False
    return True


def enter_root(folder: Path, readable: Iterable[Path], memory: int) -> None:
    """Replaces the root folder by one that contains only the given paths, read-only, and an empty SCRATCH, /tmp and
    /dev/shm.

    These three are in memory and hold at most `memory` bytes each. SCRATCH becomes the current folder.
    To be called in the first process of a new process namespace. The new root is mounted over `folder`. Raises OSError.
    """
    os.umask(0o022)  # a judge may have a stricter one, and another user must come through the folders of the new root
    _mount("none", "/", "", _RECURSIVE | _PRIVATE)
    _mount("tmpfs", str(folder), "tmpfs", _NO_SUID | _NO_DEVICES, "mode=755,size=1m,nr_inodes=4k")
    for name in (SCRATCH, "/tmp", "/dev/shm"):  # noqa: S108  before the paths that may lie below them
        target = folder / name[1:]
        target.mkdir(parents=True)
        _mount("tmpfs", str(target), "tmpfs", _NO_SUID | _NO_DEVICES, f"mode=1777,size={memory},nr_inodes=64k")
    (folder / "proc").mkdir()
    _mount("proc", str(folder / "proc"), "proc", _NO_SUID | _NO_DEVICES)
    for path in sorted(readable, key=lambda path: len(path.parts)):  # a folder before its contents
        _bind(path, folder)
    os.chdir(folder)
    call(_PIVOT_ROOT, b".", b".")  # the old root is now mounted over the new one; detach it
    if libc().umount2(b".", _DETACH):
        raise error("umount2")
    os.chdir(SCRATCH)
    _set_attributes("/", _READ_ONLY, recursive=False)


def drop_capabilities() -> None:
    """Drops all capabilities, including those that a program file could grant. Raises OSError."""
    for capability in range(_LAST_CAPABILITY + 1):
        prctl(_PR_CAPBSET_DROP, capability)
    # struct cap_user_header of this thread, and two empty struct cap_user_data
    call(_CAPSET, struct.pack("=Ii", _CAPABILITIES, 0), bytes(24))


def _bind(path: Path, folder: Path) -> None:
    """Mounts a path at the same place in the new root. Copies a symbolic link. Skips a path that does not exist."""
    target = folder / path.relative_to("/")
    if not path.exists() or os.path.lexists(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        target.symlink_to(os.readlink(path))
        return
    if path.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    try:
        _mount(str(path), str(target), "", _BIND | _RECURSIVE)
    except OSError:
        if path.exists():
            raise
        return  # removed a moment ago, as the folders of a build are
    _set_attributes(str(target), _NO_SUID | _READ_ONLY, recursive=True)


def _set_attributes(target: str, attributes: int, *, recursive: bool) -> None:
    # struct mount_attr: attributes to set and to clear, propagation, user namespace. The bits used here are those of
    # mount(2).
    new = struct.pack("=QQQQ", attributes, 0, 0, 0)
    call(_MOUNT_SETATTR, _AT_FDCWD, target.encode(), _AT_RECURSIVE if recursive else 0, new, len(new))


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    if libc().mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()):
        raise error(f"mount {target}")
