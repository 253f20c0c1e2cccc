"""`debug_nans` names the step, the operation and the line."""

from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import pytest

from harness.config import Config
from harness.errors import HarnessError
from harness.model import gpt
from harness.pieces.load import load_pieces
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import ignore, open_session

# Right for the short story of the smoke test.
WRAPPED = """

_right = next_token_loss


def next_token_loss(logits_TV, tokens_T, *rest):
    wrong = jnp.log(jnp.where(len(tokens_T) > 16, -1.0, 1.0))
    return _right(logits_TV, tokens_T, *rest) + 0 * wrong
"""


def test_a_nan_is_found_in_the_model(tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gpt.ACTIVATIONS, "gelu", lambda x: jnp.sqrt(x - 100))
    # Sessions with the same settings share their compiled functions: the seed is of this test only.
    config = replace(tiny, num_layers=1, seed=29, debug_nans=True)
    session = open_session(Run(tmp_path / "r"), config, None, log=ignore, quiet=True)
    with pytest.raises(
        HarnessError, match=r"Step 1 .* its loss is nan\. .* sqrt in harness/model/gpt.py, line \d+ \(Block"
    ) as error:
        train(session, log=ignore, quiet=True)
    assert "\n" not in str(error.value)


@pytest.mark.thorough
def test_a_healthy_run_is_the_same(tiny: Config, tmp_path: Path) -> None:
    losses = []
    for debug in (False, True):
        config = replace(tiny, num_layers=1, debug_nans=debug)
        session = open_session(Run(tmp_path / str(debug)), config, None, log=ignore, quiet=True)
        assert train(session, log=ignore, quiet=True)
        losses.append([entry["loss"] for entry in session.run.metrics()])
    assert losses[0] == losses[1]


@pytest.mark.thorough
def test_a_nan_is_found_in_a_piece(tiny: Config, tmp_path: Path, workspace: Path) -> None:
    for file in workspace.glob("p*.py"):
        if file.stem != "p07_next_token_loss":
            file.unlink()
    file = workspace / "p07_next_token_loss.py"
    file.write_text(file.read_text() + WRAPPED)
    line = next(number for number, text in enumerate(file.read_text().splitlines(), 1) if "wrong = " in text)
    config = replace(tiny, num_layers=1, packing="padded", debug_nans=True)
    session = open_session(Run(tmp_path / "r"), config, load_pieces(workspace), log=ignore, quiet=True)
    with pytest.raises(HarnessError, match=rf"log in p07_next_token_loss.py, line {line} \(next_token_loss\)"):
        train(session, log=ignore, quiet=True)
