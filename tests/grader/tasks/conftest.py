"""A course with the open task of docs/tasks.md: to double an array with few operations."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.course import catalog, selection
from tests.conftest import ROOT

STUB = '''"""Doubling."""


def double(x):
    """Twice x."""
    raise NotImplementedError
'''
GOLD = "def double(x):\n    return x + x\n"
BRONZE = "def double(x):\n    return x + x + x - x\n"
WRONG = "def double(x):\n    return x\n"
FORGERY = '"""Says one thing and does another."""\n\nREFUSED = "must accept"\n\n\ndef double():\n    return 2\n'


@pytest.fixture
def doubling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the course, which is selected."""
    text = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    definition, offer, evidence = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (listed,) = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    folder = tmp_path / "signals"
    shutil.copytree(ROOT / "docs" / "examples" / "smoothing", folder, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "course.toml").open("a") as file:
        file.write(listed)
    page = "# Doubling\n\nWrite `double(x)`.\n"
    for name, text in {
        "tasks/doubling/task.py": definition, "tasks/doubling/offer.py": offer,
        "tasks/doubling/evidence.py": evidence, "tasks/doubling/stub.py": STUB,
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
