"""A class of 200 of whom twelve hand in files that are made to stop its grading: the others get their marks and their
reports."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from grader.course import catalog
from tests.conftest import ROOT
from tests.grader.batch.conftest import GOOD, NAME, table
from tests.grader.batch.test_reader import bad_lzma, long_name, pax

HONEST = 188
MOST_MEMORY = 500 << 20  # bytes of the process that grades the class
# Runs the command in this process, and prints the most memory that it took.
PROGRAM = (
    "import resource, sys\nfrom pathlib import Path\nfrom grader.batch import command\n"
    "from grader.batch.options import BatchOptions\n"
    "if __name__ == '__main__':\n"
    "    options = BatchOptions(problems='01-12', formats=('text',))\n"
    "    for line in command.batch(Path(sys.argv[1]), Path(sys.argv[2]), options): print(line)\n"
    "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
)


def notebook(source: str) -> bytes:
    cell = {"cell_type": "code", "source": source, "metadata": {}, "outputs": []}
    return json.dumps({"cells": [cell], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}).encode()


def hand_in(folder: Path, learner: str, **files: bytes) -> None:
    (folder / learner).mkdir(parents=True)
    for name, data in files.items():
        (folder / learner / name.replace("__", ".")).write_bytes(data)


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="measures memory as Linux does")
def test_a_class_with_hostile_learners(tmp_path: Path):
    folder, good = tmp_path / "class", GOOD.encode()
    for number in range(HONEST):
        hand_in(folder, f"s{number:03}", **{f"{NAME}__py": f"# {number}\n".encode() + good})
    ends_it = {
        "memory": {"work__tar__xz": long_name(2 << 30)},
        "chain": {"work__tar": pax(b"11 path=x/y\n", 2000)},
        "lzma": {"work__zip": bad_lzma()},
        "quotes": {f"{NAME}__ipynb": b'"' + b'\\"' * 300_000},
        "spaces": {f"{NAME}__ipynb": notebook(" " * 900_000)},
        "escapes": {f"{NAME}__py": b"\\'" * 98_000},
        "nested": {f"{NAME}__py": b"(" * 190_000},
        "names": {f"{NAME}__py": b"\0" * 1000},
        "endless": {f"{NAME}__py": good + b"\nwhile True: pass\n"},
    }
    for learner, files in ends_it.items():
        hand_in(folder, learner, **files)
    imports = "".join(f"import {name}\n" for name in catalog.names())
    hand_in(
        folder, "imports", **{f"{name}__py": (imports + "x = 1\n" * 31_000).encode() for name in catalog.names()[:12]}
    )
    hand_in(folder, "深" * 80, **{f"{NAME}__py": good})
    hand_in(folder, "con", **{f"{NAME}__py": good})
    deep = folder / "deep"
    for _ in range(60):
        deep = deep / ("d" * 60)
    deep.mkdir(parents=True)

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(tmp_path / "results")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    *_, memory = done.stdout.split()
    assert int(memory) << 10 < MOST_MEMORY
    assert not (tmp_path / "results" / "internal-errors.log").exists()
    found = {learner: row["verdict"] for learner, row in rows_of(tmp_path / "results").items()}
    assert {found[f"s{number:03}"] for number in range(HONEST)} == {"PASS"}
    assert found["深" * 80] == found["con"] == "PASS"
    assert {learner: found[learner] for learner in ends_it if found[learner] in ("PASS", "FAIL")} == {}
    assert found["endless"] == "TIMEOUT"
    assert len(list((tmp_path / "results" / "text").iterdir())) >= HONEST + 12


def rows_of(results: Path) -> dict[str, dict[str, str]]:
    """The rows of problem 07, by learner."""
    return {row["learner"]: row for row in table(results / "results.csv") if row["problem"] == NAME}
