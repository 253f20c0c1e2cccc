"""Reading a submission: its text and its imports, before any of it runs."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.course import catalog
from grader.judge import submission

pytestmark = pytest.mark.fast

PROBLEM = catalog.find("05")


def test_reads_the_file_and_the_course_modules_it_imports(tmp_path):
    (tmp_path / "mine.py").write_text("from p03_causal_mha import CausalMHA\n")
    (tmp_path / "p03_causal_mha.py").write_text("import os\n")
    (tmp_path / "p07_next_token_loss.py").write_text("not imported\n")
    source = submission.read(PROBLEM, tmp_path / "mine.py")
    assert source.filename == "mine.py"
    assert list(source.sources) == ["p05_gpt_block", "p03_causal_mha"]


def test_a_byte_order_mark_is_removed(tmp_path):
    (tmp_path / "x.py").write_bytes(b"\xef\xbb\xbfx = 1\n")
    assert submission.read(PROBLEM, tmp_path / "x.py").sources[PROBLEM.name] == "x = 1\n"


@pytest.mark.parametrize(
    "declared", [b"# -*- coding: latin-1 -*-\n", b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n"]
)
def test_a_declared_encoding_is_used(tmp_path, declared):
    (tmp_path / "x.py").write_bytes(declared + b"x = 'caf\xe9'\n")
    assert submission.read(PROBLEM, tmp_path / "x.py").sources[PROBLEM.name].endswith("x = 'caf\u00e9'\n")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a\0b", "is a binary file, not Python text .zero byte at offset 1"),
        (b"x = 1\n# caf\xe9", "is not UTF-8 text .line 2"),
        (b"# coding: utf-7\n# caf\xe9", "is not UTF-8 text .line 2"),
        (b"#" * (2 << 20), "is larger than 1 MiB, the size limit"),
    ],
)
def test_a_file_that_is_not_python_text(tmp_path, data, says):
    (tmp_path / "x.py").write_bytes(data)
    with pytest.raises(submission.UnreadableSubmissionError, match=says):
        submission.read(PROBLEM, tmp_path / "x.py")


def test_a_missing_file(tmp_path):
    with pytest.raises(UsageError, match="no file"):
        submission.read(PROBLEM, tmp_path / "x.py")
    with pytest.raises(UsageError, match="is a folder"):
        submission.read(PROBLEM, tmp_path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


IRREGULAR: dict[str, Callable[[Path], object]] = {
    "is a symbolic link; replace it with a copy of the file.": lambda path: path.symlink_to(__file__),
    "is a pipe; replace it with a regular file.": os.mkfifo,
    "is a socket; replace it with a regular file.": make_socket,
    "is a folder; name a file in it.": Path.mkdir,
}


@pytest.mark.parametrize("says", IRREGULAR)
def test_a_file_that_is_not_regular(tmp_path, monkeypatch, says):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    path = Path("x.py")
    IRREGULAR[says](path)
    with pytest.raises(UsageError) as caught:
        submission.read(PROBLEM, path)
    assert str(caught.value) == f"x.py {says}"


@pytest.mark.parametrize("says", IRREGULAR)
def test_an_import_that_is_not_regular(tmp_path, monkeypatch, says):
    monkeypatch.chdir(tmp_path)
    Path("x.py").write_text("from p03_causal_mha import CausalMHA\n")
    IRREGULAR[says](Path("p03_causal_mha.py"))
    with pytest.raises(submission.UnreadableSubmissionError) as caught:
        submission.read(PROBLEM, Path("x.py"))
    assert str(caught.value) == f"it imports a file that cannot be used: p03_causal_mha.py {says}"


def test_a_device():
    with pytest.raises(UsageError, match="/dev/zero is a device"):
        submission.read(PROBLEM, Path("/dev/zero"))


def test_an_import_that_is_too_large(tmp_path):
    (tmp_path / "x.py").write_text("import p03_causal_mha\n")
    (tmp_path / "p03_causal_mha.py").write_bytes(b"#" * (2 << 20))
    with pytest.raises(submission.UnreadableSubmissionError, match=r"p03_causal_mha\.py is larger than 1 MiB"):
        submission.read(PROBLEM, tmp_path / "x.py")


def test_a_workspace_behind_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x.py").write_text("import p03_causal_mha\n")
    (tmp_path / "real" / "p03_causal_mha.py").write_text("import os\n")
    (tmp_path / "attempts").symlink_to("real")
    source = submission.read(PROBLEM, tmp_path / "attempts" / "x.py")
    assert list(source.sources) == ["p05_gpt_block", "p03_causal_mha"]
