"""The seccomp filter allows what the course's packages need, and nothing else."""

import errno
import subprocess
import sys

import pytest

from grader.isolation import seccomp, system_calls
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(not seccomp.available(), reason="the system call numbers of this machine are not known")

# A denied call ends the program, which then names the call. Calls that fail with ENOSYS are left alone: libraries try
# another.
TRAP = """
import ctypes, errno, os, struct, sys
sys.path[:0] = [{root!r}, {root!r} + "/solutions"]
from grader.isolation import libc, seccomp

@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def report(signal, info, context):
    number = ctypes.c_int.from_address(info + 24).value  # si_syscall of siginfo_t
    os.write(2, f"system call {{number}} is not allowed\\n".encode())
    os._exit(1)

SA_SIGINFO, SIGSYS = 4, 31
action = struct.pack("P128xi4xP", ctypes.cast(report, ctypes.c_void_p).value, SA_SIGINFO, 0)
assert libc.libc().sigaction(SIGSYS, action, None) == 0

def trap():
    seccomp._NOT_PERMITTED = 0x00030000  # SECCOMP_RET_TRAP
    seccomp.restrict()
"""

# Examples of the pages: models, tiktoken, Grain, meshes of eight devices, Orbax, safetensors.
PAGES = ("p06_mini_gpt", "p15_tokenize_and_pack", "p16_data_pipeline", "p21_sharded_train_step",
         "p25_checkpoint_restore", "p28_hf_export")  # fmt: skip

PROGRAMS = {
    "pages": f"""
from pathlib import Path
import jax
from grader.worker import main as worker
jax.config.update("jax_num_cpu_devices", 8)
trap()
for page in {PAGES}:
    failures = worker._false_examples(Path({str(ROOT)!r}, "problems", page, "page.md").read_text())
    assert not failures, failures
""",
    "Python": """
import asyncio, multiprocessing, pathlib, resource, shutil, signal, tempfile, threading, time
trap()
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "a").write_text("a")
shutil.copy2(folder / "a", folder / "b")
shutil.copytree(folder, folder / "c")
shutil.make_archive(str(folder / "d"), "zip", folder / "c")
(folder / "b").rename(folder / "e")
shutil.rmtree(folder)
thread = threading.Thread(target=time.sleep, args=[0.01])
thread.start()
thread.join()
asyncio.run(asyncio.sleep(0.01))
ours, theirs = multiprocessing.Pipe()
child = multiprocessing.get_context("fork").Process(target=theirs.send, args=[[1]])
child.start()
assert ours.recv() == [1]
child.join()
resource.getrlimit(resource.RLIMIT_DATA)
os.kill(os.getpid(), 0)
assert not os.isatty(0)
signal.signal(signal.SIGALRM, lambda *args: None)
signal.setitimer(signal.ITIMER_REAL, 0.01)
time.sleep(0.02)
""",
}


def run(program: str) -> subprocess.CompletedProcess[str]:
    program = TRAP.format(root=str(ROOT)) + program
    return subprocess.run(
        [sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_course_needs_is_allowed(name: str):
    done = run(PROGRAMS[name])
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.fast
def test_a_missing_call_is_named():
    number = system_calls.ALLOWED["getcwd"][seccomp._ARCHITECTURES[seccomp.platform.machine()][1]]
    done = run("del seccomp.ALLOWED['getcwd']\ntrap()\nos.getcwd()\n")
    assert (done.returncode, done.stderr) == (1, f"system call {number} is not allowed\n")


@pytest.mark.fast
def test_every_other_call_fails():
    """Every number up to 600, and those of the x32 interface. The kernel itself ends a process that makes calls 335 and
    336."""
    done = run("""
from grader.isolation import system_calls
column = seccomp._ARCHITECTURES[seccomp.platform.machine()][1]
tables = [*system_calls.ALLOWED.values(), *(value for value in vars(system_calls).values() if isinstance(value, tuple))]
allowed = {numbers[column] for numbers in tables}
seccomp.restrict()
for number in (*range(600), *range(1 << 30, (1 << 30) + 600)):
    if number not in allowed | {335, 336}:
        result = libc.libc().syscall(number, 0, 0, 0, 0, 0, 0)
        print(number, result, errno.errorcode[ctypes.get_errno()])
""")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) > 800
    for number, result, error in rows:
        assert (result, error) == ("-1", "ENOSYS" if 424 <= int(number) < 1 << 30 else "EPERM"), number


@pytest.mark.fast
@pytest.mark.parametrize(
    "call",
    [
        "libc.libc().syscall(56 if os.uname().machine == 'x86_64' else 220, 0x10000000, 0, 0, 0, "
        "0)",  # a user namespace
        "libc.libc().prctl(4, 0, 0, 0, 0)",  # hides its memory from the watchdog
        "libc.libc().prctl(22, 1, 0, 0, 0)",
        "libc.libc().ioctl(0, 0x5412, b'x')",
        "libc.libc().fcntl(0, 8, os.getppid())",
        "libc.libc().kill(os.getppid(), 0)",
        "libc.libc().tgkill(os.getppid(), os.getppid(), 0)",
        "libc.libc().prlimit(os.getppid(), 7, None, ctypes.create_string_buffer(16))",
        "libc.libc().sigaction(17, ctypes.create_string_buffer(160), None)",  # the time of children that ended is lost
        "libc.libc().socketpair(1, 2, 0, ctypes.create_string_buffer(8))",
    ],
)
def test_a_call_with_other_arguments_fails(call: str):
    done = run(f"seccomp.restrict()\nprint({call}, ctypes.get_errno())\n")
    assert done.stdout == f"-1 {errno.EPERM}\n", done.stderr
