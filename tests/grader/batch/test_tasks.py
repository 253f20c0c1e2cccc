"""A process of a batch: the folder of programs that all its submissions share."""

import os
from pathlib import Path

import pytest

from grader.batch import tasks
from grader.judge import cache

pytestmark = pytest.mark.fast


def test_the_programs_of_a_batch_are_kept_between_submissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Forty newer folders used to evict them. Then each submission compiled everything again."""
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path))
    cache._usable.cache_clear()
    tasks._programs.cache_clear()
    path = tasks._programs("p07_next_token_loss")
    assert path is not None
    os.utime(path, (0, 0))
    for number in range(cache._KEPT_PROGRAMS + 5):
        cache.programs([str(number)])
    assert path.is_dir()
    cache._usable.cache_clear()
    tasks._programs.cache_clear()
