"""The secrets of a studio's starts: the pages of the latest starts on a port are known, and no others."""

from pathlib import Path

import pytest

from studio import keys

pytestmark = pytest.mark.fast

HOST = "127.0.0.1:8000"


def test_the_pages_of_the_latest_starts_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADE_STUDIO", str(tmp_path))
    starts = [keys.new("8000") for _ in range(12)]
    elsewhere, latest = keys.new("8001"), starts[-1]

    def is_known(start: keys.Keys, host: str = HOST) -> bool:
        proof = keys.signature(start.renewal, f"{host} {latest.challenge}")
        return latest.signer(proof, HOST) == start.renewal

    assert [is_known(start) for start in starts] == [False] * 4 + [True] * 8
    assert not is_known(elsewhere)
    assert not is_known(latest, "127.0.0.1:8001"), "what a page has signed for another program"
