"""Untrusted folders and archives: links, bombs, damage, paths that lead out."""

import contextlib
import io
import os
import stat
import struct
import subprocess
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commandline.errors import UsageError
from grader.batch import archive
from grader.batch.archive import File, RefusedFileError
from tests.grader.batch.conftest import GOOD, NAME, Submit, zipped

pytestmark = pytest.mark.fast


def refusals(source: Path) -> dict[str, str]:
    """The reason why each file is refused, by its first folder. Empty for a file that can be read."""
    return {file.path.parts[0]: refusal(file) for file in archive.files(source)}


def opened(*archives: bytes) -> dict[str, str]:
    """The reason why each file in a learner's archives is refused, by its path. Empty for a file that can be read."""
    expansion = archive.Expansion()
    listed = [
        File(PurePosixPath(f"work{n}.zip"), lambda size, data=data: data[:size]) for n, data in enumerate(archives)
    ]
    return {str(file.path): refusal(file) for outer in listed for file in expansion.files(outer)}


def refusal(file: File) -> str:
    try:
        file.read(archive.LARGEST)
    except RefusedFileError as error:
        return str(error)
    return file.refused


def test_links_and_devices_are_not_followed(submit: Submit, tmp_path: Path):
    folder = submit("ada", name="notes.txt")
    (folder / "ada" / "notes.txt").unlink()
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    (folder / "ada" / f"{NAME}.py").symlink_to(secret)
    (folder / "bob").symlink_to(tmp_path)
    (folder / "cleo").mkdir()
    os.mkfifo(folder / "cleo" / f"{NAME}.py")
    refused = refusals(folder)
    assert "is a symbolic link" in refused["ada"]
    assert "is a symbolic link" in refused["bob"]
    assert refused["cleo"] == "is a pipe; replace it with a regular file"


def test_an_archive_that_is_a_pipe(tmp_path: Path):
    os.mkfifo(tmp_path / "all.zip")
    with pytest.raises(UsageError, match="is neither a folder nor a file"):
        archive.files(tmp_path / "all.zip")


def test_an_unreadable_file(submit: Submit, monkeypatch: pytest.MonkeyPatch):
    folder = submit("ada")

    def refuse(*args: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert refusals(folder) == {"ada": "cannot be read: Permission denied"}


def test_paths_that_lead_out_of_an_archive(tmp_path: Path):
    source = zipped(
        tmp_path / "all.zip", {f"ada/../../{NAME}.py": GOOD, f"bob/{NAME}.py": GOOD, f"/cleo/{NAME}.py": GOOD}
    )
    assert refusals(source) == {
        "ada": "has a path that leads out of the archive", "bob": "", "cleo": "has a path that leads out of the "
            "archive",
    }  # fmt: skip


def test_a_link_in_an_archive(tmp_path: Path):
    entry = zipfile.ZipInfo(f"ada/{NAME}.py")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as file:
        file.writestr(entry, "/etc/passwd")
    assert "symbolic link" in refusals(tmp_path / "all.zip")["ada"]
    with tarfile.open(tmp_path / "all.tar", "w") as file:
        link = tarfile.TarInfo(f"ada/{NAME}.py")
        link.type, link.linkname = tarfile.LNKTYPE, "/etc/passwd"
        file.addfile(link)
    assert "is not a regular file" in refusals(tmp_path / "all.tar")["ada"]


def tarred(files: dict[str, bytes]) -> bytes:
    """A tar archive, compressed by gzip."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as out:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            out.addfile(entry, io.BytesIO(text))
    return data.getvalue()


def test_archives_that_a_learner_submits(monkeypatch: pytest.MonkeyPatch):
    def expanded(name: str, data: bytes) -> list[tuple[str, str]]:
        file = File(PurePosixPath(name), lambda size: data[:size])
        return [(str(inner.path), refusal(inner)) for inner in archive.Expansion().files(file)]

    for suffix in (".tar.gz", ".TGZ", ".tar"):
        assert expanded(f"work{suffix}", tarred({"a/07.py": b"x"})) == [("work/a/07.py", "")]
    assert expanded("work.tar.gz", b"x") == [("work.tar.gz", "is damaged: file could not be opened successfully")]
    assert expanded("work.rar", b"x") == [
        ("work.rar", "is an archive that cannot be opened here; submit a zip archive or the files themselves")
    ]
    monkeypatch.setattr(archive, "MOST_INNER_BYTES", 1 << 20)
    ((name, reason),) = expanded("work.tar.gz", tarred({"a.py": b"#" * (2 << 20)}))
    assert (name, reason) == ("work.tar.gz", "is too large: 1 files with 2 MiB; the limits are 10,000 files and 1 MiB")


def test_a_bomb_is_refused_by_its_size(tmp_path: Path):
    bomb = zipped(tmp_path / "bomb.zip", {f"{NAME}.py": b"#" * (80 << 20)})
    assert bomb.stat().st_size < 1 << 20
    too_large = "would be 80 MiB unpacked; the limit is 64 MiB"
    assert opened(bomb.read_bytes()) == {f"work0/{NAME}.py": too_large}
    lying = bytearray(bomb.read_bytes())
    place = lying.rindex(b"PK\x01\x02")
    lying[place + 24 : place + 28] = struct.pack("<I", 100)  # declares 100 bytes
    assert "is damaged" in opened(bytes(lying))[f"work0/{NAME}.py"]
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as file:
        for number in range(archive.MOST_INNER_FILES + 1):
            file.writestr(f"{number}.py", b"")
    assert opened(many.getvalue()) == {
        "work0.zip": "is too large: 10,001 files with 0 MiB; the limits are 10,000 files and 256 MiB"
    }


def test_the_limits_hold_for_all_archives_of_a_learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archive, "MOST_INNER_FILES", 10)
    few = zipped(tmp_path / "few.zip", {f"{number}.py": b"" for number in range(5)}).read_bytes()
    reasons = opened(few, few, few)
    assert reasons["work1/4.py"] == ""
    assert reasons["work2.zip"] == "is too large: 15 files with 0 MiB; the limits are 10 files and 256 MiB"
    monkeypatch.setattr(archive, "MOST_INNER_BYTES", 3 << 20)
    large = zipped(tmp_path / "large.zip", {f"{number}.py": b"#" * (1 << 20) for number in range(2)}).read_bytes()
    reasons = opened(large, large)
    assert reasons["work0/1.py"] == ""
    assert reasons["work1.zip"] == "is too large: 4 files with 4 MiB; the limits are 10 files and 3 MiB"


def test_an_archive_in_an_archive_is_not_opened(tmp_path: Path):
    data = zipped(tmp_path / "0.zip", {f"{NAME}.py": GOOD}).read_bytes()
    for number in range(1, 30):
        data = zipped(tmp_path / f"{number}.zip", {"inner.zip": data}).read_bytes()
    assert opened(data) == {"work0/inner.zip": ""}


def test_names_that_are_not_text(tmp_path: Path):
    """Control characters, half characters and undecodable bytes are escaped, so that all that follows can store and
    show them."""
    os.mkdir(os.fsencode(tmp_path) + b"/class")
    os.mkdir(os.fsencode(tmp_path) + b"/class/Zo\xeb \x1b[31m")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/class/Zo\xeb \x1b[31m/p\xed\xa0\x80.py")).touch()
    (file,) = archive.files(tmp_path / "class")
    assert str(file.path) == "Zo\\xeb \\x1b[31m/p\\xed\\xa0\\x80.py"
    data = zipped(tmp_path / "all.zip", {"p\u202e07\n.py": "", "Zo\u00eb.py": ""}).read_bytes()
    assert set(opened(data)) == {"work0/p\\u202e07\\n.py", "work0/Zo\u00eb.py"}
    mislabeled = data.replace("ë".encode(), b"\xff\xfe")
    assert set(opened(mislabeled)) == {"work0/p\\u202e07\\n.py", "work0/Zo\xa0■.py"}
    (tmp_path / "mislabeled.zip").write_bytes(mislabeled)
    assert [refusal(file) for file in archive.files(tmp_path / "mislabeled.zip")] == ["", ""]


def test_damaged_archives(tmp_path: Path):
    whole = zipped(tmp_path / "all.zip", {f"ada/{NAME}.py": GOOD * 50}).read_bytes()
    (tmp_path / "damaged.zip").write_bytes(whole[:60] + bytes(40) + whole[100:])
    assert "is damaged" in refusals(tmp_path / "damaged.zip")["ada"]
    (tmp_path / "half.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match="neither a folder nor a readable zip"):
        archive.files(tmp_path / "half.zip")
    assert "is damaged" in opened(whole[: len(whole) // 2])["work0.zip"]


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 400))
def test_noise_in_an_archive_raises_no_other_error(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, start: int, end: int
):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(f"ada/{NAME}.py", GOOD[:200])
    data = bytearray(buffer.getvalue())
    data[start:end] = noise
    path = tmp_path_factory.mktemp("noise") / "all.zip"
    path.write_bytes(data)
    with contextlib.suppress(UsageError):
        refusals(path)
    opened(bytes(data))


def test_a_missing_source(tmp_path: Path):
    with pytest.raises(UsageError, match="There is no folder or archive"):
        archive.files(tmp_path / "nowhere")


def test_a_deep_folder_of_one_learner_is_told_and_no_other_is_lost(tmp_path: Path):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "a.py").write_text("x = 1")
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        os.mkdir("mallory", dir_fd=here)
        folder = os.open("mallory", os.O_RDONLY, dir_fd=here)
        for _ in range(1500):
            os.mkdir("a", dir_fd=folder)
            inner = os.open("a", os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = inner
        os.close(folder)
        listed = archive.files(tmp_path)
    finally:
        os.close(here)
        subprocess.run(["rm", "-rf", str(tmp_path / "mallory")], check=True)  # by a path that Python may not take
    assert [file.path.parts[0] for file in listed] == ["ada", "mallory"]
    assert listed[1].refused == "is more than 100 folders deep"
