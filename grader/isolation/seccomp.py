"""A seccomp filter through ctypes: denies certain system calls to this process and its children.

See seccomp(2) and bpf(4). Calls that are not listed are allowed: JAX, XLA and Orbax use many, and other layers protect files,
processes and the network as well.
"""

import ctypes
import errno
import platform
import struct
import sys

from grader.isolation.libc import error, libc, no_new_privileges

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data, little-endian
_X32 = 0x40000000  # marks the calls of x86-64's x32 interface

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

# System call numbers on x86-64 and on aarch64; None where the call does not exist.
DENIED: dict[str, tuple[int | None, int | None]] = {
    # other processes, and their memory
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    # other programs
    "execve": (59, 221), "execveat": (322, 281),
    # other views of the system: mounts, namespaces, file handles
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "mknodat": (259, 33),
    "mknod": (133, 33), "quotactl": (179, 60),
    # the network, and memory that no limit counts
    "socket": (41, 198), "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    # large parts of the kernel that nothing here needs
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "personality": (135, 92), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "syslog": (103, 116),
    "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161),
    "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
}  # fmt: skip
_CLONE, _CLONE3 = (56, 220), 435
# NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NEW_NAMESPACES = 0x7E020000


def available() -> bool:
    """Whether the system call numbers of this machine are known here."""
    return sys.platform == "linux" and platform.machine() in _ARCHITECTURES


def restrict() -> None:
    """Denies the calling thread, and whatever it starts, the calls in DENIED and new namespaces. Raises OSError."""
    program = _program()
    instructions = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: a length, and, aligned, a pointer.
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(instructions))
    no_new_privileges()
    if libc().prctl(_PR_SET_SECCOMP, _MODE_FILTER, header, 0, 0):
        raise error("seccomp")


def _program() -> bytes:
    """The filter as 8-byte instructions of the kernel: a code, the jumps if true and if false, and a constant."""
    architecture, column = _ARCHITECTURES[platform.machine()]
    denied = {number for numbers in DENIED.values() if (number := numbers[column]) is not None}
    not_permitted, not_implemented = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, not_permitted),
    ]  # fmt: skip
    for number in sorted(denied):
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, not_permitted)]
    code += [
        # The arguments of clone3 are in memory, which a filter cannot read. If the call does not exist, libraries use clone.
        (_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, not_implemented),
        (_EQUAL, 0, 3, _CLONE[column]), (_LOAD, 0, 0, _FIRST_ARGUMENT), (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, not_permitted), (_RETURN, 0, 0, _ALLOW),
    ]  # fmt: skip
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
