"""The pieces of problems 71, 73 and 74: in the harness's GPT and in models of other people, they compute what its own
code computes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from harness.config import Config
from harness.pieces.load import Pieces
from harness.run.folder import Run
from harness.run.run_session import ignore, open_session
from harness.run.state import initial_state
from tests.harness.conftest import TINY, Harness
from tests.harness.hugging_face.models import LAYOUTS, exported
from tests.harness.model.test_gpt import logits_of
from tests.harness.pieces.shared import check_same_losses, keep, only, some_ids

SIZES = replace(
    TINY, vocab_size=61, vocab_multiple=1, context=12, num_heads=2, bias=False, norm_kind="rmsnorm",
    activation="swiglu", warmup_steps=0, final_lr_fraction=1.0,
)  # fmt: skip
DELTA = replace(SIZES, mixer="gated_delta", key_heads=1, value_heads=2, key_width=6, value_width=4, positions="none")
EXPERTS = replace(SIZES, experts=5, d_shared=6, router_bias_rate=0.05, positions="rope")


@pytest.mark.parametrize(("config", "names"), [(DELTA, ("delta_rule",)), (EXPERTS, ("moe", "update_bias"))])
def test_the_reference_trains_to_the_same_losses(config: Config, names: tuple[str, ...], pieces: Pieces) -> None:
    called = set()

    def noted(name: str, piece: Any) -> Any:
        return lambda *a, **k: called.add(name) or piece(*a, **k)

    few = only(pieces, *names)
    few.by_name = {name: noted(name, piece) for name, piece in few.by_name.items()}
    losses = check_same_losses(config, few, lambda own: own, some_ids(1) * 4)
    assert losses[-1] < losses[0] - 0.05
    assert called == {*names}


# gpt-oss and Gemma 3 without what only their long contexts need
SHORT_OSS = replace(LAYOUTS["gpt-oss"], rope_scaling="none")
SHORT_GEMMA = replace(LAYOUTS["Gemma 3"], rope_scaling="none")


@pytest.mark.parametrize(
    ("config", "used"),
    [
        (LAYOUTS["Qwen 3"], {"Attention", "RMSNorm", "SwiGLU"}),
        (LAYOUTS["Qwen 3 with experts"], {"Attention", "RMSNorm"}),
        (LAYOUTS["gpt-oss"], {"RMSNorm"}),
        (SHORT_OSS, {"Attention", "RMSNorm"}),
        (SHORT_GEMMA, {"Attention"}),
        (LAYOUTS["Qwen3-Next"], {"delta_rule"}),
    ],
    ids=["Qwen 3", "Qwen 3 with experts", "gpt-oss", "gpt-oss, short", "Gemma 3, short", "Qwen3-Next"],
)
def test_a_model_of_other_people_says_the_same_through_pieces(
    config: Config, used: set[str], pieces: Pieces, tiny: Config, tmp_path: Path
) -> None:
    model = exported(config, tmp_path / "out")
    called = set()

    def noted(name: str, piece: Any) -> Any:
        return lambda *a, **k: called.add(name) or piece(*a, **k)

    there = ("RMSNorm", "SwiGLU", "GQA", "Attention", "delta_rule", "moe", "update_bias")
    pieces.by_name = {name: noted(name, pieces.by_name[name]) for name in there}
    config = replace(config, data=tiny.data, base=f"hf:{tmp_path / 'out'}")
    session = open_session(Run(tmp_path / "runs" / "tuned"), config, pieces, log=ignore, quiet=True)
    with jax.set_mesh(session.mesh):
        state, _ = initial_state(session)
        ids = np.random.default_rng(0).integers(0, config.vocab_size, (1, 40))
        got = np.stack([logits_of(session.functions.model(state), story) for story in ids])
    np.testing.assert_allclose(got, logits_of(model, ids), atol=5e-5)
    assert called == used


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("Qwen 3 with experts", "Attention"),
        pytest.param("Qwen3-Next", "delta_rule", marks=pytest.mark.thorough),
    ],
)
def test_a_model_is_sampled_through_pieces(
    name: str, used: str, workspace: Path, tmp_path: Path, harness_here: Harness
) -> None:
    keep(workspace, "p29", "p37", "p38", "p71", "p73", "p74")
    exported(LAYOUTS[name], tmp_path / "out")
    command = ["sample", f"hf:{tmp_path / 'out'}", "--prompt", "One day", "--temperature", 0, "--max-tokens", 9]
    own, ours = harness_here(*command), harness_here(*command, "--pieces", workspace)
    assert (own.code, ours.code) == (0, 0), own.err + ours.err
    assert ours.out == own.out
    assert f"  {used}: yours, " in ours.err
