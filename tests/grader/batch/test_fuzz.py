"""Mutated files of learners and mutated tables of a teacher: none ends or hangs a batch."""

import io
import json
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.batch import deadlines, groups, intake, reader, roster
from grader.batch.faults import Faults
from grader.course import catalog
from tests.grader.batch.conftest import GOOD, NAME

FEW, CLASS, CLASSES = 40, 500, 40  # learners of a small and a large export, and large ones in the weekly run
TOKENS = [
    b"\0",
    b'"',
    b"\\",
    b"[" * 200,
    b"{" * 200,
    b"(" * 300,
    b"\xff\xfe",
    b"1e999",
    b"-",
    b"\n" * 50,
    b"# @param" * 20,
    b"'''",
    b"%%",
    b"9" * 400,
    b"\xf0\x9f\x98\x80",
    b"../",
    b"PK\x03\x04",
    b"null",
    b"]",
    b"<<: *a",
    b"&a ",
    b"\r",
    b"\x1b[2J",
]


def zip_of(**files: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return data.getvalue()


def tar_of(mode: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=f"w:{mode}", format=tarfile.PAX_FORMAT) as archive:
        for name in (f"{NAME}.py", "a" * 150 + ".txt"):
            member = tarfile.TarInfo(name)
            member.size = len(GOOD)
            member.pax_headers = {"comment": "é" * 20}
            archive.addfile(member, io.BytesIO(GOOD.encode()))
    return data.getvalue()


CELLS = [{"cell_type": "code", "source": GOOD.splitlines(keepends=True), "outputs": [], "metadata": {"tags": [NAME]}}]
NOTEBOOK = json.dumps(
    {"cells": [*CELLS, {"cell_type": "markdown", "source": "x"}], "nbformat": 4, "metadata": {}}
).encode()
SHEET = b'learner = "Ada"\n[hunt_1]\nid = "x"\nline = 7\nidea = "b"\n'
SUBMITTED = {
    "work.zip": zip_of(**{f"{NAME}.py": GOOD, f"a__{NAME}.ipynb": NOTEBOOK.decode()}),
    "work.tar.gz": tar_of("gz"), "work.tar": tar_of(""), "work.tar.xz": tar_of("xz"), "work.tar.bz2": tar_of("bz2"),
    f"{NAME}.ipynb": NOTEBOOK, f"{NAME}.py": GOOD.encode(),
}  # fmt: skip


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one to four changes: a bit, a cut, a piece twice or elsewhere, or something that parsers trip
    over."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, end = sorted(rng.randrange(len(changed) + 1) for _ in range(2))
        match rng.randrange(6):
            case 0 if changed:
                changed[at % len(changed)] ^= 1 << rng.randrange(8)
            case 1:
                del changed[at : min(end, at + rng.randrange(1, 400))]
            case 2:
                changed[at:at] = changed[at:end][:400] * rng.randint(1, 30)
            case 3:
                changed[at:at] = rng.choice(TOKENS)
            case 4:
                changed[at : at + 8] = rng.randbytes(8)
            case _:
                del changed[at:]
    return bytes(changed)


def export(folder: Path, rng: random.Random, files: dict[str, bytes], learners: int) -> None:
    """A folder for each learner, with one mutated file, and one for a learner whose file is whole."""
    for number in range(learners):
        name, data = rng.choice(sorted(files.items()))
        (folder / f"s{number:03}").mkdir(parents=True)
        (folder / f"s{number:03}" / name).write_bytes(mutated(data, rng))
    (folder / "whole").mkdir()
    (folder / "whole" / f"{NAME}.py").write_text(GOOD)


SEEDS = [(0, FEW), *(pytest.param(seed, CLASS, marks=pytest.mark.thorough) for seed in range(1, CLASSES + 1))]


@pytest.mark.parametrize(("seed", "learners"), SEEDS)
def test_no_mutated_file_of_a_learner_ends_a_batch(tmp_path: Path, seed: int, learners: int):
    export(tmp_path / "class", random.Random(seed), SUBMITTED, learners)
    faults = Faults(tmp_path / "log")
    read = intake.read(tmp_path / "class", [catalog.find("07")], faults)
    assert faults.count == 0, (tmp_path / "log").read_text()[-3000:]
    assert len(read.learners) == learners + 1
    submitted = {item.learner: item.submission.sources[NAME] for item in read.items if item.submission}
    assert submitted["whole"] == GOOD
    assert "whole" in reader.tokens({learner: {learner: text} for learner, text in submitted.items()})


@pytest.mark.parametrize(("seed", "learners"), SEEDS[:4])
def test_no_mutated_sheet_ends_the_marking_of_hunts(tmp_path: Path, seed: int, learners: int):
    sheets = {"answers.toml": SHEET, "work.zip": zip_of(**{"answers.toml": SHEET.decode()})}
    export(tmp_path / "class", random.Random(seed), sheets, learners)
    first, *found = reader.messages(tmp_path / "class", "sheets", [])
    assert len(first["people"]) == len(found) == learners + 1
    assert not [message["error"] for message in found if message["fault"]]


CANVAS = "Student,ID,SIS User ID,SIS Login ID,Section\n    Points Possible,,,,\nAda,1,a,ada@x,A\nBob,2,b,bob@x,A\n"
MOODLE = (
    '\ufeffIdentifier,"Full name","Email address",Grade,"Maximum Grade","Last modified (submission)"\n'
    'Participant 1,Ada,a@x,,10,"Monday, 2 November 2026, 10:00 PM"\n'
)
RULES = (
    "timezone: Europe/Berlin\ndue: {01-03: 2026-11-02 23:59, 07: 2026-11-09}\ngrace: 15 minutes\nlate_days: "
    "3\npenalty: 10%\nextensions: {ada: 2 days, bob: {07: 1 week}}\n"
)
TABLES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "canvas": (CANVAS, roster.read), "moodle": (MOODLE, roster.read), "rules": (RULES, deadlines.read),
    "groups": ("learner,group\nada,One\nbob,One\n", groups.read),
}  # fmt: skip


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("kind", sorted(TABLES))
def test_a_mutated_table_of_the_teacher_is_read_or_refused(tmp_path: Path, kind: str, count: int):
    (text, read), rng = TABLES[kind], random.Random(kind)
    table = tmp_path / "table"
    for _ in range(count):
        table.write_bytes(mutated(text.encode(), rng))
        message = str(table)
        try:
            read(table)
        except UsageError as error:
            message = str(error)
        assert str(table) in message
        assert "\n" not in message
