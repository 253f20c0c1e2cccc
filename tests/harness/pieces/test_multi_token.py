"""The pieces of problem 75: with `mtp=1`, they train like the harness's own code."""

from dataclasses import replace

import jax
import pytest

from harness.config import Config
from harness.pieces.load import Pieces
from tests.harness.pieces.shared import check_same_losses, losses_with, only, some_ids
from tests.harness.pieces.test_modern import MODERN, modern_parameters

CONFIG = replace(MODERN, mtp=1, warmup_steps=0, final_lr_fraction=1.0)


def mtp_parameters(state: dict, config: Config) -> dict:
    """The harness's parameters under the names of problem 75."""
    own = state["mtp"]
    one = modern_parameters(
        state | {"blocks": jax.tree.map(lambda leaf: leaf[None], own["block"])}, replace(config, num_layers=1)
    )
    mtp = {"enorm": own["token_norm"], "hnorm": own["hidden_norm"], "eh_proj": own["join"], "block": one["blocks"][0]}
    return {"piece": modern_parameters(state, config) | {"mtp": mtp | {"norm": own["norm"]}}}


def test_the_reference_of_problem_75_trains_to_the_same_losses(pieces: Pieces) -> None:
    few = only(pieces, "MultiTokenGPT", "mtp_loss")
    losses = check_same_losses(CONFIG, few, lambda own: mtp_parameters(own, CONFIG), some_ids(1) * 4)
    assert losses[-1] < losses[0] - 0.05


@pytest.mark.thorough
@pytest.mark.parametrize("names", [("mtp_loss",), ("next_token_loss",), ("GQA", "RMSNorm", "SwiGLU", "mtp_loss")])
def test_parts_of_the_course_serve_the_harness_s_own_module(pieces: Pieces, names: tuple[str, ...]) -> None:
    if "GQA" not in names:
        check_same_losses(CONFIG, only(pieces, *names), lambda own: own, some_ids(1) * 2)
        return
    losses = losses_with(only(pieces, *names), CONFIG, 6)
    assert losses[-1] < losses[0]
