"""A class in which most learners handed in what stops other graders: each gets one sentence, and the rest their
marks."""

import io
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commandline.errors import CommandError
from grader.batch import command, reader, run, tasks
from grader.batch.faults import Faults
from grader.batch.options import BatchOptions
from grader.batch.tasks import Task
from grader.isolation.level import Level
from tests.conftest import ROOT, Grade
from tests.grader.batch.conftest import GOOD, NAME, WRONG, Submit, rows, table

PY = f"{NAME}.py"


def notebook(*cells: str) -> bytes:
    return json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]}).encode()


def zip_of(**files: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return data.getvalue()


def zeros(size: int) -> str:
    return f"{GOOD}\nzeros = [{'0,' * (size // 2)}]\n"


# What a learner hands in, by name: the file's name and content, the verdict, and a part of the message.
TRAPS: dict[str, tuple[str, bytes, str, str]] = {
    "honest": (PY, GOOD.encode(), "PASS", ""),
    "by name": ("7 Final (2).py", GOOD.encode(), "PASS", ""),
    "by definition": ("loss.ipynb", notebook(GOOD), "PASS", ""),
    "[/b] [red]": (PY, GOOD.encode(), "PASS", ""),
    "\x1b]0;owned\x07\x1b[31m": (PY, GOOD.encode(), "PASS", ""),
    "＝1+1;=cmd": (PY, WRONG.encode(), "FAIL", ""),
    "<script>alert(1)</script>": (PY, GOOD.encode(), "PASS", ""),
    "notebook of 7 MB": ("07.ipynb", notebook(GOOD, zeros(7_000_000)), "ERROR", "has more than 1 MiB of code"),
    "notebook of many cells": ("07.ipynb", notebook(*["x"] * 150_000), "ERROR", "has more than 2,000 code cells"),
    "notebook of brackets": ("07.ipynb", b"[" * 7_000_000, "ERROR", "is not a readable notebook"),
    "half a character": ("07.ipynb", notebook(GOOD + '\nname = "\ud800"'), "ERROR", "a lone surrogate) in cell 1"),
    "a megabyte of zeros": (PY, zeros(1_000_000).encode(), "PASS", ""),
    "two megabytes of zeros": (PY, zeros(2_000_000).encode(), "ERROR", "larger than 1 MiB"),
    "raises half a character": (PY, b'raise ValueError("\\ud800\\x1b[31m[/b]\\x00" * 9)', "ERROR", "ValueError"),
    "not UTF-8": (PY, b"# caf\xe9\n" + GOOD.encode(), "ERROR", "is not UTF-8"),
    "bomb": ("work.zip", zip_of(p07__py=b"#" * (80 << 20)), "ERROR", "would be 80 MiB unpacked"),
    "zip in zip": ("work.zip", zip_of(inner__zip=zip_of(p07__py=GOOD.encode())), "NOT "
        "ATTEMPTED", "an archive inside an archive"),
    "honest zip": ("work.zip", zip_of(p07__py=GOOD.encode(), notes__txt=b""), "PASS", ""),
}  # fmt: skip


@pytest.fixture(scope="module")
def trapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the class, and links and names that no Python text can hold."""
    folder = tmp_path_factory.mktemp("traps") / "class"
    for learner, (name, data, _, _) in TRAPS.items():
        path = folder / learner.replace("/", "\u2215") / name
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    undecodable = os.fsencode(folder) + b"/Zo\xeb"
    os.mkdir(undecodable)
    Path(os.fsdecode(undecodable + b"/07 \xed\xa0\x80.py")).write_text(GOOD)
    (folder / "link").symlink_to("/etc")
    (folder / "linked file").mkdir()
    (folder / "linked file" / PY).symlink_to("/etc/passwd")
    return folder


@pytest.mark.thorough
def test_a_class_of_traps(grade: Grade, trapped: Path, seed: Path, tmp_path: Path):
    out = tmp_path / "results"
    run_ = grade("batch", trapped, "--out", out, "--seed-file", seed, "--format", "junit", "--format", "canvas")
    assert run_.code == 0, run_.err
    assert not (out / command.LOG).exists()
    results = rows(out)
    expected = {learner.replace("/", "\u2215"): row[2:] for learner, row in TRAPS.items()}
    expected["\\x1b]0;owned\\x07\\x1b[31m"] = expected.pop("\x1b]0;owned\x07\x1b[31m")
    expected["'＝1+1;'=cmd"] = expected.pop("＝1+1;=cmd")
    expected |= {
        "Zo\\xeb": ("PASS", ""), "link": ("ERROR", "link is a symbolic link"), "linked "
            "file": ("ERROR", "is a symbolic link"),
    }  # fmt: skip
    assert {learner: row["verdict"] for learner, row in results.items()} == {
        learner: verdict for learner, (verdict, _) in expected.items()
    }
    for learner, (_, message) in expected.items():
        assert message in results[learner]["message"]
    unused = {row["learner"]: row for row in table(out / "unused.csv")}
    assert unused["zip in zip"]["reason"] == "is an archive inside an archive; submit the files themselves"
    assert unused["honest zip"]["file"] == "work/notes.txt"
    assert "Not used: zip in zip/work/inner.zip is an archive inside an archive" in run_.out
    page = (out / "summary.html").read_text()
    assert "inner.zip" in page
    assert "<script>alert" not in page
    assert "\x1b" not in run_.out + run_.err
    again = grade("results", out, "--verdict", "error")
    assert again.code == 0, again.err
    assert "\x1b" not in again.out


@pytest.mark.thorough
def test_the_judge_reads_them_in_bounded_time_and_memory(trapped: Path):
    """Seen: 0.35 s and 95 MiB. The bounds leave room for a busy machine; parsing the 7 MB took 137 s and 3.8 GB."""
    program = (
        f"import re, sys, time\nsys.path.insert(0, {str(ROOT)!r})\nfrom pathlib import Path\nfrom grader.batch import "
        "intake\nfrom grader.batch.faults import Faults\nfrom grader.course import "
        f"catalog\nintake.read(Path({str(trapped)!r}), [catalog.find('07')], "
        "Faults(Path('log')))\nprint(time.process_time(), int(re.search('VmHWM:\\\\s+(\\\\d+)', "
        "Path('/proc/self/status').read_text())[1]) >> 10)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    seconds, mebibytes = map(float, done.stdout.split())
    assert seconds < 10
    assert mebibytes < 500


BROKEN_READER = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from grader.batch import collect, reader
choose = collect.choose
def broken(candidates):
    if candidates[0].submitted.file.read(9) != bytes(1):
        raise ZeroDivisionError("a bug in the grader")
    return choose(candidates)
collect.choose = broken
reader.main()
"""


def test_an_internal_error_at_one_learner_stops_no_class(
    submit: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It is that learner's result, and no secret: it is logged with its traceback, counted, and decides the exit
    code."""
    submit("ada", b"\0")
    folder = submit("eve")
    monkeypatch.setattr(reader, "_START", BROKEN_READER)
    with pytest.raises(CommandError, match="1 internal error of the grader;") as error:
        list(command.batch(folder, tmp_path / "results", BatchOptions()))
    assert error.value.exit_code == 3
    results = rows(tmp_path / "results")
    assert results["eve"]["message"] == "internal error of the grader (not your fault): ZeroDivisionError"
    assert "binary file" in results["ada"]["message"]
    log = (tmp_path / "results" / command.LOG).read_text()
    assert " eve\n" in log
    assert "ZeroDivisionError: a bug in the grader" in log
    assert "in broken" in log


@pytest.mark.thorough
def test_an_internal_error_while_grading_is_one_result(tmp_path: Path):
    """What concerns the whole class, such as another version of the course, still stops it."""
    faults = Faults(tmp_path / "log")
    timeout: Any = "soon"
    broken = Task("eve", NAME, "a", PY, {NAME: GOOD}, 1, timeout, Level.WEAK, tasks.definition(NAME))
    ((done, result),) = list(run.here([broken], 1, faults))
    assert done == broken
    assert result == "internal error of the grader (not your fault): TypeError"
    assert "Traceback" in faults.log.read_text()
    with pytest.raises(CommandError, match="differs between this machine"):
        list(run.here([replace(broken, version="another")], 1, faults))
    assert faults.count == 1
