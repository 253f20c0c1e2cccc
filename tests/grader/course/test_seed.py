"""Secret seeds: the same text gives the same seed, and a file that exists is never replaced."""

import os
import stat

import pytest

from commandline.errors import UsageError
from grader.course.seed import create_seed, read_seed

pytestmark = pytest.mark.fast


def test_the_same_text_gives_the_same_seed(tmp_path):
    for name, text in (("a", "secret"), ("b", " secret\n"), ("c", "other")):
        (tmp_path / name).write_text(text)
    seed = read_seed(tmp_path / "a")
    assert seed == read_seed(tmp_path / "b") == 0x2BB80D537B1DA3E38BD30361AA855686
    assert seed != read_seed(tmp_path / "c")


def test_a_seed_file_is_created_once_and_for_its_owner_alone(tmp_path):
    file = tmp_path / "seed.txt"
    create_seed(file)
    text = file.read_text()
    assert len(text.strip()) == 32
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    create_seed(file)
    assert file.read_text() == text
    create_seed(tmp_path / "other.txt")
    assert (tmp_path / "other.txt").read_text() != text


def test_a_seed_file_that_cannot_be_used(tmp_path):
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(UsageError, match="empty is empty; write a secret word or number to it"):
        read_seed(tmp_path / "empty")
    with pytest.raises(UsageError, match="missing cannot be read: No such file"):
        read_seed(tmp_path / "missing")
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        create_seed(tmp_path / "missing" / "seed.txt")
