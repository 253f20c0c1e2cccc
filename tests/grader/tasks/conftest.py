"""A course with a small open task: to double an array with few operations."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.course import catalog, selection
from tests.conftest import ROOT

DEFINITION = """
from grader.problem import Entry
from grader.task import Standard, Task

TASK = Task(
    title="Doubling", entries=(Entry("double", ("x",)),), unit="operations",
    standards=(Standard("bronze", 100), Standard("gold", 8)), long_runs=True,
)
"""
EVIDENCE = """
import numpy as np

from grader.authoring import Given, Offer, Repeated, Weighed, Witness, trace

RUNS = 2


def offer(subject):
    program = trace(lambda x: {"y": subject.call("double", x)}, Given("case", "x", (4,), np.float32))
    return Offer({"double": program}, {})


def weigh(offered, seed, witness):
    double = Repeated(witness.sound(offered.programs["double"]))
    rng = np.random.default_rng(seed)
    right = True
    for _ in range(RUNS):
        x = rng.normal(size=4).astype(np.float32)
        right &= bool(np.allclose(double({"x": x})["y"], 2 * x))
    yield Weighed(double.total, "" if right else "it does not double", {"runs": RUNS}, dict(double.work))
"""
STUB = '''"""Doubling."""


def double(x):
    """Twice x."""
    raise NotImplementedError
'''
GOLD = "def double(x):\n    return x + x\n"
BRONZE = "def double(x):\n    return x + x + x - x\n"
WRONG = "def double(x):\n    return x\n"
FORGERY = '"""Says one thing and does another."""\n\nREFUSED = "must accept"\n\n\ndef double():\n    return 2\n'
LISTED = '\n[[task]]\nname = "doubling"\nafter = "p01_moving_average"\n'


@pytest.fixture
def doubling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the course, which is selected."""
    folder = tmp_path / "signals"
    shutil.copytree(ROOT / "docs" / "examples" / "smoothing", folder, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "course.toml").open("a") as file:
        file.write(LISTED)
    page = "# Doubling\n\nWrite `double(x)`.\n"
    for name, text in {
        "tasks/doubling/task.py": DEFINITION, "tasks/doubling/evidence.py": EVIDENCE, "tasks/doubling/stub.py": STUB,
        "tasks/doubling/page.md": page,
        "solutions/doubling/gold.py": GOLD, "solutions/doubling/bronze.py": BRONZE,
        **{f"tests/attacks/forgeries/doubling_{number}.py": FORGERY for number in range(3)},
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setenv(selection.VARIABLE, str(folder))
    catalog.forget()
    yield folder
    catalog.forget()
