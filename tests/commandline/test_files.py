"""Files written whole or not at all, locks, and marks of folders in use. The other processes are real ones."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from commandline import files
from commandline.errors import UsageError
from tests.conftest import ROOT

pytestmark = pytest.mark.fast

Start = Callable[[str, Path], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """A function that starts a process, waits until it has done `statement` on a path, and leaves it running."""
    processes = []

    def start(statement: str, path: Path) -> "subprocess.Popen[str]":
        program = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom pathlib import Path\nfrom commandline import files\n"
            f"path = Path(sys.argv[1])\n{statement}\nprint('done', flush=True)\nsys.stdin.read()\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def end(process: "subprocess.Popen[str]", signal_: signal.Signals = signal.SIGKILL) -> None:
    process.send_signal(signal_)
    process.wait()


@pytest.mark.parametrize("content", ["a\r\nb\n", b"a\r\nb\n", lambda path: path.write_bytes(b"a\r\nb\n")])
@pytest.mark.parametrize("durable", [False, True])
def test_write_replaces_a_file(tmp_path: Path, content: files.Content, durable: bool):
    path = tmp_path / "new" / "folder" / "file"
    for _ in range(2):
        files.write(path, content, durable=durable)
        assert path.read_bytes() == b"a\r\nb\n"
    assert os.listdir(path.parent) == ["file"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_text_is_written_as_utf8(tmp_path: Path):
    files.write(tmp_path / "file", "√d")
    assert (tmp_path / "file").read_bytes() == "√d".encode()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("no")])
def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, error: BaseException):
    path = tmp_path / "file"
    path.write_text("old")

    def content(temporary: Path) -> None:
        temporary.write_text("half")
        raise error

    with pytest.raises(type(error)):
        files.replace(path, content)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_write_names_the_file_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file/inside cannot be written: File exists\."):
        files.write(tmp_path / "file" / "inside", "text")
    with pytest.raises(UsageError, match=r"cannot be written: Is a directory\."):
        files.write(tmp_path, "text")
    with pytest.raises(OSError, match="Is a directory"):
        files.replace(tmp_path, "text")


def test_a_lock_has_one_holder(tmp_path: Path, start: Start):
    path = tmp_path / "lock"
    holder = start("lock = files.lock(path)\nassert lock", path)
    assert files.lock(path) is None
    end(holder)
    unlock = files.lock(path)
    assert unlock is not None, "the lock of a killed process is free"
    start("assert files.lock(path) is None", path)
    unlock()
    start("assert files.lock(path) is not None", path)


def test_a_lock_has_one_holder_in_one_process(tmp_path: Path):
    unlock = files.lock(tmp_path / "lock")
    assert unlock is not None
    assert files.lock(tmp_path / "lock") is None
    unlock()
    again = files.lock(tmp_path / "lock")
    assert again is not None
    again()


def test_a_lock_is_held_though_nobody_keeps_the_function_that_releases_it(tmp_path: Path, start: Start):
    start("assert files.lock(path)", tmp_path / "lock")
    assert files.lock(tmp_path / "lock") is None


def test_a_lock_that_cannot_be_created(tmp_path: Path):
    with pytest.raises(OSError, match=r"No such file or directory|Not a directory"):
        files.lock(Path("/proc/nothing/lock"))


def test_a_new_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with pytest.raises(ZeroDivisionError), files.new_folder(folder) as unfinished:
        (unfinished / "a").write_text("half" * (1 // 0))
    assert not any(tmp_path.iterdir())
    folder.mkdir()  # an empty one is replaced
    with files.new_folder(folder) as unfinished:
        (unfinished / "a").write_text("whole")
        assert not any(folder.iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (folder / "a").read_text() == "whole"
    with pytest.raises(UsageError, match="out is not empty; choose a new folder"), files.new_folder(folder):
        pass
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UsageError, match="x cannot be written"),
        files.new_folder(tmp_path / "file" / "x"),
    ):
        pass
    assert (folder / "a").read_text() == "whole"
