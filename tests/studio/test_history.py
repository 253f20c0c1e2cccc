"""The history of attempts: bounded, and never in the way."""

import os
import sqlite3
from pathlib import Path

import pytest

from commandline.errors import UsageError
from studio import history
from studio.history import FILENAME, History

pytestmark = pytest.mark.fast


def test_texts_are_kept_with_their_verdicts(tmp_path: Path):
    kept = History(tmp_path)
    first = kept.keep("p01", "x = 1\n")
    assert kept.keep("p01", "x = 1\n") == first
    kept.grade(first, "FAIL", 1, 5, "an idea")
    second = kept.keep("p01", "x = 2\n")
    other = kept.keep("p02", "x = 1\n")
    assert kept.attempt_with("p01", "x = 1\n") == first  # graded after the next one was saved
    assert kept.attempt_with("p01", "x = 3\n") > other
    assert [attempt.id for attempt in kept.attempts("p01")][1:] == [second, first]
    assert kept.attempts("p01")[2].cause == "an idea"
    assert kept.text("p01", first) == "x = 1\n"
    assert kept.text("p01", other) is None
    kept.close()
    again = History(tmp_path)
    assert again.text("p02", other) == "x = 1\n"
    again.close()


def test_a_verdict_is_of_the_newest_attempt_with_its_text(tmp_path: Path):
    """A learner may go back to an earlier text."""
    kept = History(tmp_path)
    first, _, last = (kept.keep("p01", text) for text in ("x = 1\n", "x = 2\n", "x = 1\n"))
    assert first != last
    assert kept.attempt_with("p01", "x = 1\n") == last
    kept.close()


def test_the_oldest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(history, "_KEPT", 3)
    kept = History(tmp_path)
    for number in range(6):
        kept.keep("p01", str(number))
    assert [kept.text("p01", attempt.id) for attempt in kept.attempts("p01")] == ["5", "4", "3"]
    kept.close()


def test_the_time_of_all_days_is_kept_by_problem(tmp_path: Path):
    kept = History(tmp_path)
    kept.spend("p01", 30)
    kept.spend("p01", 30)
    with sqlite3.connect(tmp_path / FILENAME) as db:
        for day in ("2026-01-01", "2026-01-02", "2026-01-04"):
            db.execute("insert into activity values (?, 'p02', 60)", [day])
    db.close()
    assert kept.seconds() == {"p01": 60, "p02": 180}
    kept.close()


def test_other_files_are_left_alone(tmp_path: Path):
    (tmp_path / FILENAME).write_text("a text of some length, which is no database at all")
    with pytest.raises(UsageError, match="move it away"):
        History(tmp_path)
    (tmp_path / FILENAME).unlink()
    os.symlink(tmp_path / "elsewhere", tmp_path / FILENAME)
    with pytest.raises(UsageError, match="symbolic link"):
        History(tmp_path)
