"""Freed memory: whether the next request gets it without page faults."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

# Twice 64 MiB, above the size from which glibc always returns memory to the system by default
PROGRAM = """
import resource, sys
sys.path.insert(0, sys.argv[1])
if sys.argv[2] == "kept":
    from harness.memory import keep_freed_memory
    keep_freed_memory()
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    b"x" * (1 << 26)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it concerns glibc")
def test_freed_memory_is_kept():
    def faults(mode: str) -> int:
        command = [sys.executable, "-c", PROGRAM, str(ROOT), mode]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert faults("kept") < 100 < 10_000 < faults("default")
