"""The submissions of a class."""

import csv
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import ROOT

GOOD = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
WRONG = GOOD.replace("token_ids[1:]", "token_ids[:-1]")
STUB = (ROOT / "problems" / "p07_next_token_loss" / "stub.py").read_text()
NAME = "p07_next_token_loss"
# Code that is in neither the stub nor the reference, long enough for the search for duplicates.
OWN = """

def summary(kept, width=3):
    total = [kept[place : place + width] for place in range(0, len(kept), width) if kept[place] is not None]
    while total and not total[-1]:
        total.pop()
    return {"first": total[0], "last": total[-1], "count": len(total)} if total else {}
"""

Submit = Callable[..., Path]


@pytest.fixture
def submit(tmp_path: Path) -> Submit:
    """Writes a learner's file to the folder of the class; returns that folder."""

    def write(learner: str, text: str | bytes = GOOD, name: str = f"{NAME}.py") -> Path:
        path = tmp_path / "class" / learner / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path / "class"

    return write


@pytest.fixture
def school_class(submit: Submit) -> Path:
    """A class with one submission of each kind."""
    submit("Ada Lovelace")
    submit("Zoë", WRONG + OWN)
    submit("=cmd", STUB)
    submit("quits", "import os\nos._exit(0)\n")
    submit("copy of Zoë", "# all mine\n" + (WRONG + OWN).replace("losses", "my_losses").replace("kept", "mine"))
    submit("loops", "while True: pass\n")
    submit("nothing", "", "notes.txt")
    return submit("broken", b"\0")


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text("correct horse battery staple\n")
    return path


def rows(results: Path) -> dict[str, dict[str, str]]:
    """The rows of results.csv by learner."""
    return {row["learner"]: row for row in table(results / "results.csv")}


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a table that `grade batch` wrote."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def stored(results: Path) -> int:
    """The number of records that a running batch has stored so far."""
    if not (results / "results.sqlite").exists():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{results / 'results.sqlite'}?mode=ro", uri=True)) as database:
            return int(database.execute("select count(*) from records").fetchone()[0])
    except sqlite3.Error:
        return 0


def zipped(path: Path, files: dict[str, str | bytes]) -> Path:
    """Writes a zip archive; returns its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path
