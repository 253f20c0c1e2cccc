"""What a submission can reach, measured by a submission in a real worker, as root and as an ordinary user."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Grade, boot

PROBE = """
import importlib.util, json, os, resource, socket, subprocess, sys

def attempt(action):
    try:
        return repr(action())[:200]
    except BaseException as error:
        return type(error).__name__

def write(path):
    with open(path, "w") as file:
        file.write("x")
    return "written"

print("MEASURED" + json.dumps({{
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


Measure = Callable[..., dict[str, Any]]
DENIED = {"PermissionError", "FileNotFoundError", "ProcessLookupError"}
FILES = ("read solution", "list solutions", "read problem", "read secret", "read cache", "write home", "execute")


@pytest.fixture
def measure(grade: Grade, tmp_path, cache_folder) -> Measure:
    """Grades the probe without some layers and returns what it measured."""

    def measure(without: str = "") -> dict[str, Any]:
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
            solution = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
            (tmp_path / "probe.py").write_text(solution + text)
            # Let every user enter these folders, so that only the confinement can deny access.
            for folder in (tmp_path, *tmp_path.parents[:2]):
                folder.chmod(0o755)
            report = grade(
                "problem", "07", "probe.py", "--json", GRADE_TEST_SECRET="hunter2", GRADE_WITHOUT=without
            ).json
        assert report["verdict"] == "PASS", report
        assert not (tmp_path / "outside").exists() or "landlock" in without
        return {**json.loads(report["stdout"].partition("MEASURED")[2]), "isolation": report["isolation"]}

    return measure


def test_strict_isolation_denies_everything(measure: Measure):
    seen = measure()
    assert seen["isolation"].startswith("strict: "), "this test needs a machine with all layers"
    assert seen["solutions"] is True
    for action in (*FILES, "connect", "bind", "parent"):
        assert seen[action] in DENIED, action
    assert seen["write here"] == "'written'"
    assert seen["here"] == "['x']", "the scratch folder was empty"
    assert "GRADE_TEST_SECRET" not in seen["environment"]
    assert set(seen["environment"]) <= {
        "HOME",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES",
        "JAX_PLATFORMS",
        "LANG",
        "LC_CTYPE",
        "LD_LIBRARY_PATH",
        "OPENBLAS_NUM_THREADS",
        "PATH",
        "PYTHONHASHSEED",
        "TF_CPP_MIN_LOG_LEVEL",
        "TMPDIR",
        "TPU_SKIP_MDS_QUERY",
        "XLA_FLAGS",
    }
    assert seen["descriptors"] == [0, 1, 2, 3]
    assert seen["threads"] == 1, "Landlock binds only the calling thread"
    assert seen["data limit"] is True
    assert seen["core limit"] == 0
    assert seen["processes"] == "PermissionError"
    assert seen["user"] != 0


@pytest.mark.parametrize(
    ("without", "denied"),
    [
        ("namespaces", (*FILES, "connect", "bind", "parent", "kill")),
        ("landlock", (*(set(FILES) - {"read cache"}), "connect", "bind")),  # its compiled programs are below the cache
        ("seccomp", (*FILES, "connect", "bind", "parent")),
        pytest.param("namespaces,seccomp", (*FILES, "connect", "bind", "parent", "kill"), marks=pytest.mark.thorough),
        pytest.param("cgroup,user", (*FILES, "connect", "bind", "parent"), marks=pytest.mark.thorough),
    ],
)
def test_the_remaining_layers_deny_access(measure: Measure, without: str, denied: tuple[str, ...]):
    seen = measure(without)
    strong = {"namespaces", "landlock", "seccomp"} & set(without.split(","))
    assert seen["isolation"].startswith("partial: " if strong else "strict: ")
    for layer in strong:
        assert f"missing: {layer}" in seen["isolation"] or f", {layer}" in seen["isolation"].partition("missing")[2]
    for action in denied:
        assert seen[action] in DENIED, action
    assert seen["descriptors"] == [0, 1, 2, 3]
    if without == "landlock":
        assert seen["processes"] == "['1', '2']"


def test_the_report_says_that_no_strong_layer_is_active(measure: Measure):
    seen = measure("namespaces,landlock,seccomp")
    assert seen["isolation"].startswith("weak: ")
    assert "not stopped: reads the course, " in seen["isolation"]
    assert "def next_token_loss" in seen["read solution"]


BOOT = boot()
CAPABILITIES = "import re; print(re.search('CapEff:(.*)', open('/proc/self/status').read())[1].strip())"


@pytest.mark.skipif(os.geteuid() != 0, reason="the whole suite runs as an ordinary user")
@pytest.mark.parametrize(
    ("user", "level"),
    [
        (["--map-user=1000", "--map-group=1000"], "strict: own process, namespaces, "),
        ([], "partial: "),  # a user without an id in the namespace may not create namespaces
    ],
)
def test_without_privileges(tmp_path, user: list[str], level: str):
    """The same verdict without root's capabilities: a program started in a user namespace has none unless it runs as
    root."""
    shutil.copy(ROOT / "solutions" / "p07_next_token_loss.py", tmp_path / "mine.py")
    python = ["unshare", "--user", *user, sys.executable, "-c"]
    capabilities = subprocess.run([*python, CAPABILITIES], capture_output=True, text=True, check=True).stdout
    assert int(capabilities, 16) == 0
    done = subprocess.run(
        [*python, BOOT, "problem", "07", "mine.py", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)
    assert report["verdict"] == "PASS", (report, done.stderr)
    assert report["isolation"].startswith(level)
    assert "another user" not in report["isolation"]


def test_a_judge_that_keeps_its_files_to_itself_still_grades(tmp_path: Path):
    """As root, workers are other users: the folders of their root must be open to these, whatever the umask."""
    file = ROOT / "solutions" / "p07_next_token_loss.py"
    command = [sys.executable, "-c", boot(), "problem", "07", str(file)]
    done = subprocess.run(command, cwd=tmp_path, umask=0o077, capture_output=True, text=True, check=False)
    assert (done.returncode, "PASS" in done.stdout) == (0, True), done.stdout + done.stderr
