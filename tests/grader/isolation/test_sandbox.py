"""Workers end with the judge, however it ends."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from grader.isolation.sandbox import KEPT_OUTPUT
from tests.conftest import ROOT, Grade, boot


@pytest.mark.parametrize(("without", "processes"), [("", 5), ("namespaces", 4)])
def test_a_killed_judge_leaves_no_process(tmp_path, without: str, processes: int):
    """Without namespaces, only the supervisor can kill what a submission started."""
    (tmp_path / "mine.py").write_text(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\nwhile True: time.sleep(1)\n"
    )
    judge = subprocess.Popen(
        [sys.executable, "-c", boot(), "problem", "07", "mine.py"],
        cwd=tmp_path,
        env={**os.environ, "GRADE_WITHOUT": without},
    )
    deadline = time.monotonic() + 60
    while len(started := psutil.Process(judge.pid).children(recursive=True)) < processes:
        assert time.monotonic() < deadline, started
        time.sleep(0.05)
    judge.kill()
    judge.wait()
    _, alive = psutil.wait_procs(started, timeout=10)
    assert not alive


def test_what_a_worker_prints_is_kept_up_to_a_limit(grade: Grade, tmp_path):
    """However much it is, and in however many parts."""
    text = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
    (tmp_path / "mine.py").write_text(f"{text}\nfor _ in range(64):\n    print('x' * (1 << 15), flush=True)\n")
    report = grade("problem", "07", "mine.py", "--json").json
    assert report["verdict"] == "PASS"
    assert KEPT_OUTPUT // 2 < len(report["stdout"]) <= KEPT_OUTPUT


STARTS = """
import subprocess, sys
sys.path.insert(0, {root!r})
from grader.isolation.sandbox import ForkServer

class Popen(subprocess.Popen):
    def __init__(self, *args, **kwargs):
        print("filelock" in sys.modules)
        super().__init__(*args, **kwargs)

subprocess.Popen = Popen
ForkServer().close()
print("filelock" in sys.modules)
"""


@pytest.mark.fast
def test_the_zygote_starts_before_the_scratch_folder_is_locked():
    """The lock takes 40 ms, during which the zygote can import JAX."""
    program = STARTS.format(root=str(ROOT))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue\n"
