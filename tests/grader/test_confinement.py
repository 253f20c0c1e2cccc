"""What a submission can reach: tried from inside the real worker, as root and as a plain user."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from grader import landlock
from tests.conftest import ROOT, Grade

PROBE = """
import importlib.util, json, os, resource, socket, sys

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
    "execute": attempt(lambda: os.execv("/bin/true", ["true"]) if os.path.exists("/bin/true") else 1 / 0),
    "connect": attempt(lambda: socket.create_connection(("127.0.0.1", {port}), timeout=2)),
    "bind": attempt(lambda: socket.socket().bind(("127.0.0.1", 0))),
    "kill": attempt(lambda: os.kill(os.getppid(), 0)),
    "parent": attempt(lambda: open(f"/proc/{{os.getppid()}}/environ").read()),
    "environment": sorted(os.environ),
    "descriptors": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)),
    "threads": len(os.listdir("/proc/self/task")),
    "data limit": resource.getrlimit(resource.RLIMIT_DATA)[0] < 1 << 36,
    "core limit": resource.getrlimit(resource.RLIMIT_CORE)[0],
    "session": os.getsid(0) == os.getpid(),
    "argv": sys.argv[1:2],
}}))
"""


@pytest.fixture
def seen(grade: Grade, tmp_path, cache_folder):
    """What the probe saw when it was graded."""
    import socket

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
        report = grade("problem", "07", "probe.py", "--json", GRADE_TEST_SECRET="hunter2").json
    assert report["verdict"] == "PASS", report
    assert "landlock" in report["isolation"]
    return json.loads(report["stdout"].partition("SEEN")[2])


def test_what_a_submission_can_reach(seen, tmp_path):
    assert landlock.version(), "this test is about machines that have it"
    assert seen["solutions"] is True
    for denied in (
        "read solution", "list solutions", "read problem", "read secret", "read cache", "write home", "execute", "connect",
        "bind", "kill", "parent",
    ):  # fmt: skip
        assert seen[denied] == "PermissionError", denied
    assert seen["write here"] == "'written'"
    assert seen["here"] == "['x']", "scratch was empty before"
    assert not (tmp_path / "outside").exists()
    assert "GRADE_TEST_SECRET" not in seen["environment"]
    assert set(seen["environment"]) <= {
        "HOME", "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "JAX_PLATFORMS", "LANG", "LC_CTYPE", "LD_LIBRARY_PATH",
        "OPENBLAS_NUM_THREADS", "PATH", "TF_CPP_MIN_LOG_LEVEL", "TMPDIR", "TPU_SKIP_MDS_QUERY", "XLA_FLAGS",
    }  # fmt: skip
    assert seen["descriptors"] == [0, 1, 2, 3]
    assert seen["threads"] == 1, "Landlock binds only the thread that asks for it"
    assert seen["data limit"] is True
    assert seen["core limit"] == 0
    assert seen["session"] is True


@pytest.mark.skipif(os.geteuid() != 0, reason="the rest of the suite runs as a plain user already")
def test_without_privileges(tmp_path):
    """The same verdict, and the same layers, with none of root's capabilities."""
    shutil.copy(ROOT / "solutions" / "p07_next_token_loss.py", tmp_path / "mine.py")
    boot = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from grader.cli import main; main()"
    capabilities = "import re; print(re.search('CapEff:(.*)', open('/proc/self/status').read())[1].strip())"
    # A user namespace without a mapping: whoever is executed in it has no capability and is nobody.
    plain = ["unshare", "--user", sys.executable, "-c"]
    none = subprocess.run([*plain, capabilities], capture_output=True, text=True, check=True).stdout
    assert int(none, 16) == 0
    done = subprocess.run(
        [*plain, boot, "problem", "07", "mine.py", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)
    assert report["verdict"] == "PASS", (report, done.stderr)
    assert report["isolation"] == "own process, limits, landlock"


def test_without_landlock_the_report_does_not_claim_it(grade: Grade, tmp_path):
    """A copy of the course whose kernel seems to have no Landlock."""
    copy = tmp_path / "course"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "tests", "__pycache__"))
    path = copy / "grader" / "landlock.py"
    path.write_text(path.read_text().replace('if sys.platform != "linux":', "if True:"))
    report = grade("problem", "07", copy / "solutions" / "p07_next_token_loss.py", "--json", root=copy).json
    assert (report["verdict"], report["isolation"]) == ("PASS", "own process, limits")
    assert "no Landlock" in grade("doctor", root=copy).out
