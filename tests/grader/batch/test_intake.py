"""What a class handed in, as course systems export it and as people really send it."""

import contextlib
import io
import os
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commandline.errors import UsageError
from grader.batch import archive, intake
from grader.batch.intake import Intake
from grader.course import catalog
from tests.grader.batch.conftest import GOOD, NAME, HandIn

PROBLEM = catalog.find("07")


def read(source: Path) -> Intake:
    return intake.read(source, [PROBLEM])


def zipped(path: Path, files: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in files.items():
            made.writestr(name, text)
    return path


def only(found: Intake) -> intake.Handed:
    (item,) = found.handed
    return item


def test_a_folder_for_each_learner(hand_in: HandIn):
    hand_in("Ada Lovelace")
    hand_in("Zoë Ünïcode 陳", name=f"attempts/{NAME}.py")
    found = read(hand_in("empty", name="notes.txt"))
    assert found.layout == "folders"
    assert found.learners == ["Ada Lovelace", "Zoë Ünïcode 陳", "empty"]
    assert [(item.learner, item.submission.sources[NAME]) for item in found.handed] == [
        ("Ada Lovelace", GOOD), ("Zoë Ünïcode 陳", GOOD),
    ]  # fmt: skip


def test_earlier_problems_beside_a_file_come_with_it(hand_in: HandIn):
    hand_in("ada", "x = 1\n", "p03_causal_mha.py")
    item = only(read(hand_in("ada", "from p03_causal_mha import x\n" + GOOD)))
    assert item.submission.sources["p03_causal_mha"] == "x = 1\n"


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_with_a_folder_around(tmp_path: Path, hand_in: HandIn, kind: str):
    hand_in("ada")
    folder = hand_in("bob")
    path = tmp_path / f"all.{kind}"
    if kind == "zip":
        zipped(path, {f"class/{file.relative_to(folder)}": file.read_text() for file in folder.rglob("*.py")})
    else:
        with tarfile.open(path, "w:gz") as made:
            made.add(folder, "class")
    assert read(path).learners == ["ada", "bob"]
    assert len(read(path).handed) == 2


def test_gradescope(tmp_path: Path):
    metadata = """
submission_101:
  :submitters:
  - :name: Ada Lovelace
    :sid: '17'
    :email: ada@example.org
  :created_at: 2026-11-01 10:00:00.000000000 Z
submission_102:
  :submitters:
  - :name: Bob
    :sid: ''
    :email: bob@example.org
  - :name: Cleo
"""
    source = zipped(tmp_path / "export.zip", {
        "assignment_1_export/submission_metadata.yml": metadata,
        f"assignment_1_export/submission_101/{NAME}.py": GOOD,
        f"assignment_1_export/submission_102/{NAME}.py": GOOD,
    })  # fmt: skip
    found = read(source)
    assert (found.layout, found.learners) == ("Gradescope", ["Ada Lovelace (17)", "Bob (bob@example.org) and Cleo"])


def test_canvas(tmp_path: Path):
    source = zipped(tmp_path / "submissions.zip", {
        f"lovelaceada_17_5001_{NAME}.py": "old",
        f"lovelaceada_17_5002_{NAME}-1.py": GOOD,
        f"bobson_LATE_18_5003_{NAME}.py": GOOD,
    })  # fmt: skip
    found = read(source)
    assert (found.layout, found.learners) == ("Canvas", ["bobson (18)", "lovelaceada (17)"])
    assert [item.submission.sources[NAME] for item in found.handed] == [GOOD, GOOD]
    assert "the latest of 2 versions" in found.handed[1].notes[0]


@pytest.mark.parametrize(
    "name", ["Ada Lovelace_17_assignsubmission_file/{}", "Ada Lovelace_17_assignsubmission_file_{}"]
)
def test_moodle(tmp_path: Path, name: str):
    found = read(zipped(tmp_path / "export.zip", {name.format(f"{NAME}.py"): GOOD}))
    assert (found.layout, found.learners) == ("Moodle", ["Ada Lovelace (17)"])
    assert only(found).submission is not None


def test_a_workspace_handed_in_as_a_zip(hand_in: HandIn, tmp_path: Path):
    inner = zipped(tmp_path / "inner.zip", {f"attempts/{NAME}.py": GOOD, "attempts/.progress.json": "{}"})
    assert only(read(hand_in("ada", inner.read_bytes(), "work.zip"))).submission.sources[NAME] == GOOD


def test_names_that_mean_the_problem(hand_in: HandIn):
    for learner, name in {"a": "07.py", "b": "p07.py", "c": "next_token_loss.py", "d": f"{NAME} (2).py"}.items():
        found = read(hand_in(learner, name=name))
    assert [item.learner for item in found.handed if item.submission] == ["a", "b", "c", "d"]
    assert found.handed[0].notes == ("07.py was taken for it",)


def test_two_files_for_one_problem(hand_in: HandIn):
    hand_in("ada", name=f"one/{NAME}.py")
    item = only(read(hand_in("ada", name=f"two/{NAME}.py")))
    assert item.refused == f"there are two files for it: one/{NAME}.py and two/{NAME}.py; hand in one"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\0", "binary file"), (b"# caf\xe9", "not UTF-8"), (b"x" * (2 << 20), "larger than 1 MiB"),
    ],
)  # fmt: skip
def test_unreadable_files(hand_in: HandIn, data: bytes, says: str):
    assert says in only(read(hand_in("ada", data))).refused


def test_links_and_devices_are_not_followed(hand_in: HandIn, tmp_path: Path):
    folder = hand_in("ada", name="notes.txt")
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    (folder / "ada" / f"{NAME}.py").symlink_to(secret)
    (folder / "bob").symlink_to(tmp_path)
    (folder / "cleo").mkdir()
    os.mkfifo(folder / "cleo" / f"{NAME}.py")
    found = read(folder)
    said = {item.learner: item.refused for item in found.handed}
    assert "is a symbolic link" in said["ada"]
    assert "is no regular file" in said["cleo"]
    assert any("'bob' lies beside" in note for note in found.notes)


def test_an_unreadable_file(hand_in: HandIn, monkeypatch: pytest.MonkeyPatch):
    folder = hand_in("ada")

    def refuse(*args: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(archive.os, "open", refuse)
    assert "cannot be read: Permission denied" in only(read(folder)).refused


def test_paths_that_lead_out_of_an_archive(tmp_path: Path):
    source = zipped(
        tmp_path / "all.zip", {f"ada/../../{NAME}.py": GOOD, f"bob/{NAME}.py": GOOD, f"/cleo/{NAME}.py": GOOD}
    )
    said = {item.learner: item.refused for item in read(source).handed}
    assert "leads out of the archive" in said["ada"]
    assert said["bob"] == ""
    assert "leads out of the archive" in said["cleo"]


def test_a_link_in_an_archive(tmp_path: Path):
    entry = zipfile.ZipInfo(f"ada/{NAME}.py")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as made:
        made.writestr(entry, "/etc/passwd")
    assert "symbolic link" in only(read(tmp_path / "all.zip")).refused
    with tarfile.open(tmp_path / "all.tar", "w") as made:
        link = tarfile.TarInfo(f"ada/{NAME}.py")
        link.type, link.linkname = tarfile.LNKTYPE, "/etc/passwd"
        made.addfile(link)
    assert "no regular file" in only(read(tmp_path / "all.tar")).refused


def test_a_bomb_is_refused_by_its_size(hand_in: HandIn, tmp_path: Path):
    bomb = zipped(tmp_path / "bomb.zip", {f"{NAME}.py": b"#" * (20 << 20)})
    assert bomb.stat().st_size < 1 << 20
    assert "would be 20 MiB when unpacked" in only(read(hand_in("ada", bomb.read_bytes(), "work.zip"))).refused
    lying = bytearray(bomb.read_bytes())
    place = lying.rindex(b"PK\x01\x02")
    lying[place + 24 : place + 28] = struct.pack("<I", 100)  # says that it is small
    assert only(read(hand_in("ada", bytes(lying), "work.zip"))).refused
    many = zipped(tmp_path / "many.zip", {f"{n}/{NAME}.py": b"" for n in range(archive.MOST_FILES + 1)})
    with pytest.raises(UsageError, match="too large"):
        read(many)


def test_damaged_archives(hand_in: HandIn, tmp_path: Path):
    whole = zipped(tmp_path / "all.zip", {f"ada/{NAME}.py": GOOD * 50}).read_bytes()
    hurt = whole[:60] + bytes(40) + whole[100:]
    (tmp_path / "hurt.zip").write_bytes(hurt)
    assert "is damaged" in only(read(tmp_path / "hurt.zip")).refused
    (tmp_path / "half.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match="neither a folder nor a zip"):
        read(tmp_path / "half.zip")
    assert "is damaged" in only(read(hand_in("ada", whole[: len(whole) // 2], "work.zip"))).refused


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 400))
def test_no_archive_breaks_the_intake(tmp_path_factory: pytest.TempPathFactory, noise: bytes, start: int, end: int):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        made.writestr(f"ada/{NAME}.py", GOOD[:200])
    hurt = bytearray(data.getvalue())
    hurt[start:end] = noise
    path = tmp_path_factory.mktemp("noise") / "all.zip"
    path.write_bytes(hurt)
    with contextlib.suppress(UsageError):
        read(path)


def test_nothing_to_read(tmp_path: Path, hand_in: HandIn):
    with pytest.raises(UsageError, match="There is no folder or archive"):
        read(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no learner's folder"):
        read(tmp_path / "empty")


def test_learners_who_may_be_the_same(hand_in: HandIn):
    hand_in("Ada")
    assert read(hand_in("ada")).notes == ["'Ada' and 'ada' may be the same learner"]
