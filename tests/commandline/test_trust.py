"""What is trusted is remembered by its content or place, for this user, and in this process without a cache folder."""

from pathlib import Path

import pytest

from commandline import trust


@pytest.fixture(autouse=True)
def nothing_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(trust, "_trusted", set())
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path / "cache"))


def test_later_commands_know_what_was_trusted(monkeypatch: pytest.MonkeyPatch):
    assert not trust.is_trusted("runs", b"code")
    assert trust.trust("runs", b"code")
    monkeypatch.setattr(trust, "_trusted", set())  # as in another process
    assert trust.is_trusted("runs", b"code")
    assert not trust.is_trusted("runs", b"other code")
    assert not trust.is_trusted("courses", b"code")


def test_without_a_cache_folder_this_process_knows_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "cache").write_text("no folder")
    assert not trust.trust("runs", b"code")
    assert trust.is_trusted("runs", b"code")
    monkeypatch.setattr(trust, "_trusted", set())
    assert not trust.is_trusted("runs", b"code")
