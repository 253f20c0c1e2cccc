"""Freed memory: whether the next request gets it without page faults, and in large pages."""

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

LARGE_PAGES = """
import ctypes, re, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from harness.memory import keep_freed_memory

def is_large(block):
    address = ctypes.addressof(block) + len(block) // 2
    for mapping in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())[1:]:
        start, end = (int(number, 16) for number in mapping.split()[0].split("-"))
        if start <= address < end:
            return " hg" in mapping.partition("VmFlags:")[2]

print(is_large(ctypes.create_string_buffer(1 << 26)))
keep_freed_memory()
print(is_large(ctypes.create_string_buffer(1 << 26)))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it concerns glibc")
def test_freed_memory_is_kept():
    def faults(mode: str) -> int:
        command = [sys.executable, "-c", PROGRAM, str(ROOT), mode]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert faults("kept") < 100 < 10_000 < faults("default")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it concerns glibc")
def test_memory_may_have_large_pages():
    """That of a block larger than glibc keeps by default, by the flags of its mapping in /proc/self/smaps."""
    command = [sys.executable, "-c", LARGE_PAGES, str(ROOT)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["False", "True"]
