"""The system calls that a worker may make: those of Python, NumPy, JAX, XLA, Orbax, Grain and the course's other
packages.

`tests/grader/isolation/test_seccomp.py` runs these packages and names a call that is missing here.
"""

# Numbers on x86-64 and on aarch64; None where the call does not exist.
Numbers = tuple[int | None, int | None]

# Allowed with any arguments.
ALLOWED: dict[str, Numbers] = {
    # memory
    "brk": (12, 214), "get_mempolicy": (239, 236), "madvise": (28, 233), "mbind": (237, 235), "membarrier": (324, 283),
    "mincore": (27, 232), "mmap": (9, 222), "mprotect": (10, 226), "mremap": (25, 216), "msync": (26, 227),
    "munmap": (11, 215), "set_mempolicy": (238, 237),
    # threads, and processes of the submission's own
    "arch_prctl": (158, None), "capget": (125, 90), "exit": (60, 93), "exit_group": (231, 94), "fork": (57, None),
    "futex": (202, 98), "get_robust_list": (274, 100), "getcpu": (309, 168), "getegid": (108, 177),
    "geteuid": (107, 175), "getgid": (104, 176), "getgroups": (115, 158), "getpgid": (121, 155), "getpgrp": (111, None),
    "getpid": (39, 172), "getppid": (110, 173), "getpriority": (140, 141), "getresgid": (120, 150),
    "getresuid": (118, 148), "getrlimit": (97, 163), "getrusage": (98, 165), "getsid": (124, 156), "gettid": (186, 178),
    "getuid": (102, 174), "rseq": (334, 293), "sched_get_priority_max": (146, 125),
    "sched_get_priority_min": (147, 126), "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "sched_yield": (24, 124), "set_robust_list": (273, 99),
    "set_tid_address": (218, 96), "setpgid": (109, 154), "setsid": (112, 157), "sysinfo": (99, 179), "uname": (63, 160),
    "vfork": (58, None), "wait4": (61, 260), "waitid": (247, 95),
    # signals
    "alarm": (37, None), "getitimer": (36, 102), "pause": (34, None), "restart_syscall": (219, 128),
    "rt_sigpending": (127, 136), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigsuspend": (130, 133),
    "rt_sigtimedwait": (128, 137), "setitimer": (38, 103), "sigaltstack": (131, 132),
    # time
    "clock_getres": (229, 114), "clock_gettime": (228, 113), "clock_nanosleep": (230, 115), "gettimeofday": (96, 169),
    "nanosleep": (35, 101), "time": (201, None), "times": (100, 153),
    # descriptors
    "close": (3, 57), "close_range": (436, 436), "copy_file_range": (326, 285), "dup": (32, 23), "dup2": (33, None),
    "dup3": (292, 24), "epoll_create": (213, None), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
    "epoll_pwait": (281, 22), "epoll_pwait2": (441, 441), "epoll_wait": (232, None), "eventfd2": (290, 19),
    "lseek": (8, 62), "pipe": (22, None), "pipe2": (293, 59), "poll": (7, None), "ppoll": (271, 73),
    "pread64": (17, 67), "preadv": (295, 69), "preadv2": (327, 286), "pselect6": (270, 72), "pwrite64": (18, 68),
    "pwritev": (296, 70), "pwritev2": (328, 287), "read": (0, 63), "readv": (19, 65), "select": (23, None),
    "sendfile": (40, 71), "write": (1, 64), "writev": (20, 66),
    # files
    "access": (21, None), "chdir": (80, 49), "chmod": (90, None), "creat": (85, None), "faccessat": (269, 48),
    "faccessat2": (439, 439), "fadvise64": (221, 223), "fallocate": (285, 47), "fchdir": (81, 50), "fchmod": (91, 52),
    "fchmodat": (268, 53), "fdatasync": (75, 83), "fgetxattr": (193, 10), "flistxattr": (196, 13), "flock": (73, 32),
    "fstat": (5, 80), "fstatfs": (138, 44), "fsync": (74, 82), "ftruncate": (77, 46), "futimesat": (261, None),
    "getcwd": (79, 17), "getdents": (78, None), "getdents64": (217, 61), "getxattr": (191, 8), "lgetxattr": (192, 9),
    "link": (86, None), "linkat": (265, 37), "listxattr": (194, 11), "llistxattr": (195, 12), "lstat": (6, None),
    "mkdir": (83, None), "mkdirat": (258, 34), "newfstatat": (262, 79), "open": (2, None), "openat": (257, 56),
    "readlink": (89, None), "readlinkat": (267, 78), "rename": (82, None), "renameat": (264, 38),
    "renameat2": (316, 276), "rmdir": (84, None), "stat": (4, None), "statfs": (137, 43), "statx": (332, 291),
    "symlink": (88, None), "symlinkat": (266, 36), "sync_file_range": (277, 84), "truncate": (76, 45),
    "umask": (95, 166), "unlink": (87, None), "unlinkat": (263, 35), "utime": (132, None), "utimensat": (280, 88),
    "utimes": (235, None),
    # the judge's socket
    "getpeername": (52, 205), "getsockname": (51, 204), "getsockopt": (55, 209), "recvfrom": (45, 207),
    "recvmsg": (47, 212), "sendmsg": (46, 211), "sendto": (44, 206), "setsockopt": (54, 208), "shutdown": (48, 210),
    # others
    "getrandom": (318, 278),
}  # fmt: skip

# Allowed with some arguments only; see `grader.isolation.seccomp`.
CLONE: Numbers = (56, 220)
FCNTL: Numbers = (72, 25)
IOCTL: Numbers = (16, 29)
KILL: Numbers = (62, 129)
PRCTL: Numbers = (157, 167)
PRLIMIT: Numbers = (302, 261)
RT_SIGACTION: Numbers = (13, 134)
SOCKETPAIR: Numbers = (53, 199)
TGKILL: Numbers = (234, 131)
