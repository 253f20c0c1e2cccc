"""Progress where nothing can be redrawn: lines, with the time that is left."""

import pytest

from commandline.progress import progress

pytestmark = pytest.mark.fast


def test_the_time_left_leaves_out_the_first_unit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Compilation makes the first step of a training run a hundred times as long as the others."""
    now = 1000.0
    monkeypatch.setattr("commandline.progress.time.monotonic", lambda: now)
    with progress("training", unit="steps", total=100, done=10) as advance:
        for seconds in (60, 1, *[2] * 10):
            now += seconds
            advance()
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert first == "training: 11 of 100 steps"
    assert second == "training: 17 of 100 steps, 152 s left"
