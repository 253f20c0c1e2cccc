"""A class that hands things in."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT

GOOD = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
WRONG = GOOD.replace("token_ids[1:]", "token_ids[:-1]")
STUB = (ROOT / "problems" / "p07_next_token_loss" / "stub.py").read_text()
NAME = "p07_next_token_loss"

HandIn = Callable[..., Path]


@pytest.fixture
def hand_in(tmp_path: Path) -> HandIn:
    """Writes a learner's file into the class's folder; returns that folder."""

    def write(learner: str, text: str | bytes = GOOD, name: str = f"{NAME}.py") -> Path:
        path = tmp_path / "class" / learner / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path / "class"

    return write
