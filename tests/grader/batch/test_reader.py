"""A class with learners whose files are made against what reads them: they are named, and all others are read."""

import io
import lzma
import os
import signal
import socket
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.batch import archive, confined, intake, reader
from grader.batch.confined import Result
from grader.batch.faults import Faults
from grader.course import catalog
from grader.isolation import landlock, seccomp
from tests.grader.batch.conftest import GOOD, NAME, Submit, zipped

# Python warns of forks beside the threads of `pytest -n`, and JAX of all. The reader has one thread, and no JAX.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*")


def long_name(size: int) -> bytes:
    """An archive of a few kilobytes whose one name has this many bytes: `tarfile` reads it into memory as a whole."""
    head = tarfile.TarInfo("././@LongLink")
    head.type, head.size = tarfile.GNUTYPE_LONGNAME, size
    with io.BytesIO() as out:
        with lzma.open(out, "wb", preset=0) as file:
            file.write(head.tobuf(tarfile.GNU_FORMAT))
            for _ in range(size >> 20):
                file.write(bytes(1 << 20))
            file.write(tarfile.TarInfo("x").tobuf() + bytes(1024))
        return out.getvalue()


def pax(text: bytes, count: int = 1) -> bytes:
    """An archive whose entries begin with this text as an extended header."""
    block = text + bytes(-len(text) % 512)
    head = tarfile.TarInfo("head")
    head.type, head.size = tarfile.XHDTYPE, len(text)
    return (head.tobuf() + block) * count + tarfile.TarInfo("a.py").tobuf() + bytes(1024)


def no_name() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("x", "")
    return out.getvalue().replace(b"\x01\x00\x00\x00x", b"\x00\x00\x00\x00x").replace(b"x", b"")


def bad_lzma() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as file:
        file.writestr(f"{NAME}.py", GOOD)
    data = bytearray(out.getvalue())
    place = data.index(f"{NAME}.py".encode()) + len(NAME) + 3 + 20
    data[place : place + 40] = bytes(range(40))
    return bytes(data)


def test_hostile_learners_are_named_and_the_others_are_read(
    submit: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    submit("ada")
    submit("memory", long_name(1 << 30), "work.tar.xz")
    submit("chain", pax(b"11 path=x/y\n", 2000), "work.tar")
    submit("digits", pax(b"9" * 5000 + b" a=b\n"), "work.tar")
    submit("sparse", pax(b"32 GNU.sparse.major=one\n25 GNU.sparse.minor=0\n"), "work.tar")
    submit("nameless", no_name(), "work.zip")
    submit("lzma", bad_lzma(), "work.zip")
    submit("quotes", b'"' + b'\\"' * 300_000, f"{NAME}.ipynb")
    folder = submit("zoe")
    log = tmp_path / "log"
    read = intake.read(folder, [catalog.find("07")], Faults(log))
    told = {item.learner: item.refused for item in read.items} | {file.learner: file.reason for file in read.unused}
    assert [item.learner for item in read.items if item.submission] == ["ada", "zoe"]
    assert told["memory"] == "its files take more than 512 MiB of memory to read"
    assert set(told) == {"ada", "zoe", "memory", "chain", "digits", "sparse", "nameless", "lzma", "quotes"}
    assert not log.exists(), log.read_text()


def test_a_learner_with_too_many_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = {f"mallory/{number}.py": "" for number in range(archive.MOST_INNER_FILES + 1)}
    read = intake.read(
        zipped(tmp_path / "c.zip", {f"ada/{NAME}.py": GOOD, **files}), [catalog.find("07")], Faults(tmp_path / "log")
    )
    assert [(item.learner, item.refused) for item in read.items] == [
        ("ada", ""),
        ("mallory", "no file for it can be read: 0.py is one of 10,001 files; the limit is 10,000"),
    ]


def result(work: Callable[[], object], *readable: Path) -> Result:
    ((key, found),) = confined.each([("ada", work)], readable, 1)
    assert key == "ada"
    return found


def forever() -> None:
    while True:
        pass


def deep(level: int = 0) -> int:
    return deep(level + 1)


def test_work_returns_or_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(confined, "COMPUTING", 1)
    monkeypatch.setattr(confined, "MEMORY", 64 << 20)
    monkeypatch.setattr(confined, "OUTPUT", 1 << 20)
    assert result(lambda: {"x": [1, "\ud800"]}).value == {"x": [1, "\ud800"]}
    assert result(forever).failed == "take more than 1 s of computing to read"
    assert result(lambda: len(bytes(256 << 20))).failed.endswith("of memory to read")
    assert result(deep).failed == "are nested too deeply to be read"
    assert result(lambda: "x" * (2 << 20)).failed == "have more than 1 MiB of text"
    assert result(lambda: os._exit(0)).failed
    assert result(lambda: os.kill(os.getpid(), signal.SIGUSR1)).failed == "end the process that reads them"
    broken = result(lambda: {}["a"])
    assert (broken.error, "KeyError: 'a'" in broken.fault) == ("KeyError", True)
    monkeypatch.setattr(confined, "WAITING", 0.2)
    assert "could not be read within" in result(lambda: os.read(os.pipe()[0], 1)).failed


@pytest.mark.skipif(not Path("/proc").exists(), reason="only Linux confines")
def test_work_can_read_what_it_is_given_and_nothing_else(tmp_path: Path):
    own, other = tmp_path / "own", tmp_path / "other"
    for path in (own, other):
        path.write_text("x")
    assert result(own.read_text, own).value == "x"
    assert result(lambda: own.write_text("y"), own).error in ("PermissionError", "OSError")
    assert own.read_text() == "x"
    if landlock.version():
        assert result(other.read_text, own).error == "PermissionError"
    if seccomp.available():
        assert result(lambda: socket.socket().close(), own).error == "PermissionError"


def test_several_at_a_time_are_told_apart():
    works = [(str(number), lambda number=number: number**2) for number in range(30)]
    assert {key: one.value for key, one in confined.each(works, [], 4)} == {str(n): n**2 for n in range(30)}


def test_a_known_solution_that_cannot_be_read_costs_no_other_one_its_comparison(tmp_path: Path):
    for name, text in {f"{NAME}.py": GOOD, "07.ipynb": "[" * 100_000, "eve/07.py": GOOD, "notes.txt": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    failed = list[str]()
    found = sorted(one.name for one in reader.known(tmp_path, [NAME], failed.append))
    assert found == [f"{tmp_path}/eve/07.py", f"{tmp_path}/{NAME}.py"]
    (why,) = failed
    assert why.startswith(f"{tmp_path}/07.ipynb is not compared: ")


def test_a_source_that_is_none_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="There is no folder or archive"):
        list(reader.messages(tmp_path / "none", "submissions", []))
