"""What a submission can reach: tried from inside the real worker, as root and as a plain user."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from tests.conftest import ROOT, Grade, boot

PROBE = """
import importlib.util, json, os, resource, socket, subprocess, sys

def attempt(f):
    try:
        return repr(f())[:200]
    except BaseException as error:
        return type(error).__name__

def write(path):
    with open(path, "w") as file:
        file.write("x")
    return "written"

print("SEEN" + json.dumps({{
    "solutions": importlib.util.find_spec("solutions") is None,
    "read solution": attempt(lambda: open({root!r} + "/solutions/p07_next_token_loss.py").read()),
    "list solutions": attempt(lambda: os.listdir({root!r} + "/solutions")),
    "read problem": attempt(lambda: open({root!r} + "/problems/p07_next_token_loss/problem.py").read()),
    "read secret": attempt(lambda: open({secret!r}).read()),
    "read cache": attempt(lambda: os.listdir({cache!r})),
    "write home": attempt(lambda: write({outside!r})),
    "write here": attempt(lambda: write("x")),
    "here": attempt(lambda: sorted(os.listdir("."))),
    "execute": attempt(lambda: subprocess.run([sys.executable, "-c", ""])),
    "connect": attempt(lambda: socket.create_connection(("127.0.0.1", {port}), timeout=2)),
    "bind": attempt(lambda: socket.socket().bind(("127.0.0.1", 0))),
    "kill": attempt(lambda: os.kill(os.getppid(), 0)),
    "parent": attempt(lambda: open(f"/proc/{{os.getppid()}}/environ").read()),
    "environment": sorted(os.environ),
    "descriptors": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)),
    "threads": len(os.listdir("/proc/self/task")),
    "data limit": resource.getrlimit(resource.RLIMIT_DATA)[0] < 1 << 36,
    "core limit": resource.getrlimit(resource.RLIMIT_CORE)[0],
    "processes": attempt(lambda: sorted(name for name in os.listdir("/proc") if name.isdecimal())),
    "user": os.getuid(),
}}))
"""


Look = Callable[..., dict[str, Any]]
DENIED = {"PermissionError", "FileNotFoundError", "ProcessLookupError"}
FILES = ("read solution", "list solutions", "read problem", "read secret", "read cache", "write home", "execute")


@pytest.fixture
def look(grade: Grade, tmp_path, cache_folder) -> Look:
    """What the probe saw when it was graded, without some layers."""

    def look(without: str = "", **options: Any) -> dict[str, Any]:
        secret = tmp_path / "secret.txt"
        secret.write_text("hunter2")
        with socket.create_server(("127.0.0.1", 0)) as server:
            text = PROBE.format(
                root=str(ROOT),
                secret=str(secret),
                cache=str(cache_folder),
                outside=str(tmp_path / "outside"),
                port=server.getsockname()[1],
            )
            good = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
            (tmp_path / "probe.py").write_text(good + text)
            # Another user must get through to the paths, or it would be these folders that deny them.
            for folder in (tmp_path, *tmp_path.parents[:2]):
                folder.chmod(0o755)
            report = grade(
                "problem", "07", "probe.py", "--json", GRADE_TEST_SECRET="hunter2", GRADE_WITHOUT=without
            ).json
        assert report["verdict"] == "PASS", report
        assert not (tmp_path / "outside").exists() or "landlock" in without
        return {**json.loads(report["stdout"].partition("SEEN")[2]), "isolation": report["isolation"]}

    return look


def test_what_a_submission_can_reach(look: Look):
    seen = look()
    assert seen["isolation"].startswith("strict: "), "this test is about machines that have all layers"
    assert seen["solutions"] is True
    for denied in (*FILES, "connect", "bind", "parent"):
        assert seen[denied] in DENIED, denied
    assert seen["write here"] == "'written'"
    assert seen["here"] == "['x']", "scratch was empty before"
    assert "GRADE_TEST_SECRET" not in seen["environment"]
    assert set(seen["environment"]) <= {
        "HOME", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "JAX_PLATFORMS", "LANG", "LC_CTYPE", "LD_LIBRARY_PATH",
        "OPENBLAS_NUM_THREADS", "PATH", "TF_CPP_MIN_LOG_LEVEL", "TMPDIR", "TPU_SKIP_MDS_QUERY", "XLA_FLAGS",
    }  # fmt: skip
    assert seen["descriptors"] == [0, 1, 2, 3]
    assert seen["threads"] == 1, "Landlock binds only the thread that asks for it"
    assert seen["data limit"] is True
    assert seen["core limit"] == 0
    assert seen["processes"] == "PermissionError"
    assert seen["user"] != 0


@pytest.mark.parametrize(
    ("without", "closed"),
    [
        ("namespaces", (*FILES, "connect", "bind", "parent", "kill")),
        ("landlock", (*(set(FILES) - {"read cache"}), "connect", "bind")),  # the way to its own programs
        ("seccomp", (*FILES, "connect", "bind", "parent")),
        ("namespaces,seccomp", (*FILES, "connect", "bind", "parent", "kill")),
        ("cgroup,user", (*FILES, "connect", "bind", "parent")),
    ],
)
def test_what_the_other_layers_stop(look: Look, without: str, closed: tuple[str, ...]):
    seen = look(without)
    strong = {"namespaces", "landlock", "seccomp"} & set(without.split(","))
    assert seen["isolation"].startswith("partial: " if strong else "strict: ")
    for layer in strong:
        assert f"missing: {layer}" in seen["isolation"] or f", {layer}" in seen["isolation"].partition("missing")[2]
    for denied in closed:
        assert seen[denied] in DENIED, denied
    if without == "landlock":
        assert seen["processes"] == "['1', '2']"


def test_without_any_strong_layer_the_report_says_so(look: Look):
    seen = look("namespaces,landlock,seccomp")
    assert seen["isolation"].startswith("weak: ")
    assert "not stopped: reads the course, " in seen["isolation"]
    assert "def next_token_loss" in seen["read solution"]


BOOT = boot()
CAPABILITIES = "import re; print(re.search('CapEff:(.*)', open('/proc/self/status').read())[1].strip())"


@pytest.mark.skipif(os.geteuid() != 0, reason="the rest of the suite runs as a plain user already")
@pytest.mark.parametrize(
    ("user", "level"),
    [
        (["--map-user=1000", "--map-group=1000"], "strict: own process, namespaces, "),
        ([], "partial: "),  # a user without a number may not make namespaces
    ],
)
def test_without_privileges(tmp_path, user: list[str], level: str):
    """The same verdict with none of root's capabilities: whoever is executed in a user namespace has none, except as root."""
    shutil.copy(ROOT / "solutions" / "p07_next_token_loss.py", tmp_path / "mine.py")
    plain = ["unshare", "--user", *user, sys.executable, "-c"]
    none = subprocess.run([*plain, CAPABILITIES], capture_output=True, text=True, check=True).stdout
    assert int(none, 16) == 0
    done = subprocess.run(
        [*plain, BOOT, "problem", "07", "mine.py", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)
    assert report["verdict"] == "PASS", (report, done.stderr)
    assert report["isolation"].startswith(level)
    assert "another user" not in report["isolation"]


def test_a_judge_that_is_killed_leaves_no_process(tmp_path):
    """Also where nothing but its own supervisor could end what a submission started."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    (tmp_path / "mine.py").write_text(
        f"import os, time\nMARK = {mark!r}\nif os.fork() == 0:\n    os.setsid()\nwhile True: time.sleep(1)\n"
    )
    for without in ("", "namespaces"):
        judge = subprocess.Popen(
            [sys.executable, "-c", BOOT, "problem", "07", "mine.py"],
            cwd=tmp_path,
            env={**os.environ, "GRADE_WITHOUT": without},
        )
        deadline = time.monotonic() + 60
        while len(begun := psutil.Process(judge.pid).children(recursive=True)) < (5 if not without else 4):
            assert time.monotonic() < deadline, begun
            time.sleep(0.05)
        judge.kill()
        judge.wait()
        _, alive = psutil.wait_procs(begun, timeout=10)
        assert not alive


def test_doctor_says_what_is_missing(grade: Grade):
    assert "strict: " in grade("doctor").out
    out = grade("doctor", GRADE_WITHOUT="landlock").out
    assert "partial: " in out
    assert "5.13" in out


def test_a_deep_scratch_folder_is_removed(grade: Grade, tmp_path, monkeypatch):
    """Deeper than a path may be long, and than Python recurses."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    good = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
    deep = (
        "import os\nfor _ in range(3000):\n    os.mkdir('inner-folder')\n    os.chdir('inner-folder')\nprint('deep')\n"
    )
    (tmp_path / "mine.py").write_text(good + deep)
    report = grade("problem", "07", "mine.py", "--json", GRADE_WITHOUT="namespaces", TMPDIR=str(temporary)).json
    assert (report["verdict"], report["stdout"]) == ("PASS", "deep\n")
    assert list(temporary.iterdir()) == []


def test_the_scratch_of_a_killed_judge_is_swept_up(grade: Grade, tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    (tmp_path / "mine.py").write_text("while True: pass\n")
    judge = subprocess.Popen(
        [sys.executable, "-c", BOOT, "problem", "07", "mine.py"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    while not list(temporary.glob("grade-*/*")):
        time.sleep(0.05)
    judge.kill()
    judge.wait()
    assert list(temporary.iterdir())
    shutil.copy(ROOT / "solutions" / "p07_next_token_loss.py", tmp_path / "mine.py")
    assert grade("problem", "07", "mine.py", TMPDIR=str(temporary)).code == 0
    assert list(temporary.iterdir()) == []
