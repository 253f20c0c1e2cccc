"""The piece `grpo_loss` in `harness rl`: it gives the same losses as the harness's own, and a wrong one does not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from harness.config import Config
from harness.errors import PieceError
from harness.pieces.load import Pieces, check_pieces
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import ignore, open_session
from tests.harness.pieces.shared import only


def run(folder: Path, config: Config, pieces: Pieces) -> list[dict[str, Any]]:
    """The metrics of a run."""
    assert train(open_session(Run(folder), config, pieces, log=ignore, quiet=True), log=ignore, quiet=True)
    return Run(folder).metrics()


@pytest.fixture
def reinforce(tiny: Config, pieces: Pieces, tmp_path: Path) -> Callable[[str, Any], list[dict[str, Any]]]:
    """Reinforces a model of pieces by name, with some of the pieces."""
    few = only(pieces, "MiniGPT", "grpo_loss")
    run(tmp_path / "runs" / "base", replace(tiny, steps=2, warmup_steps=0, context=8, num_layers=1), few)
    reward = tmp_path / "mine.py"
    reward.write_text("def score(prompt, continuation, ended):\n    return len(continuation) % 7\n")
    config = replace(
        Run(tmp_path / "runs" / "base").config(),
        base="base",
        reward=f"{reward}:score",
        prompts=2,
        group_size=2,
        batch_size=4,
        prompt_tokens=3,
        steps=2,
        grad_accumulation_steps=2,
        kl_weight=3.0,
        learning_rate=0.03,
    )

    def with_pieces(name: str, loss: Any) -> list[dict[str, Any]]:
        own = {"MiniGPT": few.by_name["MiniGPT"]}
        return run(tmp_path / "runs" / name, config, replace(few, by_name=own | ({"grpo_loss": loss} if loss else {})))

    return with_pieces


@pytest.mark.thorough
def test_a_run_with_the_piece_has_the_losses_of_the_harness(
    reinforce: Callable[[str, Any], list[dict[str, Any]]], pieces: Pieces
) -> None:
    calls = []

    def counted(*args: Any) -> Any:
        calls.append(args)
        return pieces.by_name["grpo_loss"](*args)

    own, piece = reinforce("own", None), reinforce("piece", counted)
    assert calls
    for key in ("loss", "reward", "kl", "entropy"):
        assert [entry[key] for entry in piece] == pytest.approx([entry[key] for entry in own], rel=1e-4, abs=1e-6), (
            key,
            own,
        )
    assert piece[-1]["validation_loss"] == pytest.approx(own[-1]["validation_loss"], rel=1e-4)
    assert abs(own[-1]["loss"]) > 1e-3  # far above the tolerance


def test_a_broken_piece_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PieceError, match=r"grpo_loss of p51_grpo.py returned float32\[2, 5\] for log-probabilities"):
        check_pieces({"grpo_loss": lambda new, *_: new}, tmp_path)
    with pytest.raises(PieceError, match="numbers that are not finite"):
        check_pieces({"grpo_loss": lambda new, *_: jnp.sum(new) / 0}, tmp_path)
