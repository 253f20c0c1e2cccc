"""All processes of a tree are found and killed, whichever thread started them."""

import subprocess
import sys

import psutil
import pytest

from grader.isolation import processes
from grader.isolation.processes import Tree

# A thread starts a process, which starts another.
SLEEP = "import time; time.sleep(60)"
CHILD = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {SLEEP!r}]).pid, flush=True); {SLEEP}"
PROGRAM = f"""
import subprocess, sys, threading, time
def start():
    print(subprocess.Popen([sys.executable, "-c", {CHILD!r}]).pid, flush=True)
    time.sleep(60)
threading.Thread(target=start).start()
"""


@pytest.mark.parametrize("lists_children", [True, False])
def test_all_members_are_found_and_killed(lists_children: bool, monkeypatch: pytest.MonkeyPatch):
    if lists_children and not processes.LISTS_CHILDREN:
        pytest.skip("this system lists the children of no thread")
    monkeypatch.setattr(processes, "LISTS_CHILDREN", lists_children)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as root:
        assert root.stdout is not None
        started = [psutil.Process(int(root.stdout.readline())) for _ in range(2)]
        assert Tree(root.pid).members() == [
            psutil.Process(root.pid),
            *sorted(started, key=lambda each: each.ppid() != root.pid),
        ]
        Tree(root.pid).kill()
    assert not psutil.wait_procs(started, timeout=10)[1]
    assert Tree(root.pid).members() == []
