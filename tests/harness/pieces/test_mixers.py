"""The pieces of problems 66 and 67: in the harness's GPT, they train and sample like its own latent attention and state
space."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from flax import nnx

from harness.config import Config
from harness.errors import PieceError
from harness.model.gpt import GPT
from harness.model.sampling import Sampling, WindowDecoder, generate
from harness.pieces.assemble import generate_tokens, model_builder
from harness.pieces.load import Pieces, load_pieces
from tests.harness.conftest import TINY, Harness
from tests.harness.pieces.shared import check_same_losses, filled, keep, losses_with, only, some_ids

SIZES = replace(TINY, vocab_size=61, vocab_multiple=1, context=12, num_heads=2, bias=False, init="xavier")
CONFIGS = {
    "LatentAttention": replace(SIZES, mixer="latent_attention", d_latent=6, d_rope=4, positions="rope"),
    "SelectiveSSM": replace(SIZES, mixer="state_space", d_state=3, positions="none"),
}
mixers = pytest.mark.parametrize("name", CONFIGS)


def own_in_words_of_the_course(attention: dict[str, Any]) -> dict[str, Any]:
    """The harness's parameters of a mixer under the course's names; all have an axis over the layers."""
    flat = {name: leaf["kernel"] for name, leaf in attention.items() if isinstance(leaf, dict)}
    if "kv" in flat:
        q, out = flat["q"], flat["out"]
        k_up, v_up = (up.reshape(*up.shape[:2], -1) for up in jnp.moveaxis(flat["kv"], 2, 0))
        kernels = {"q_proj": q.reshape(*q.shape[:2], -1), "down_proj": flat["down"], "k_up": k_up, "v_up": v_up}
        return {name: {"kernel": kernel} for name, kernel in kernels.items()} | {
            "out_proj": {"kernel": out.reshape(len(out), -1, out.shape[-1])}
        }
    joined = {
        name: flat[own].reshape(*flat[own].shape[:2], -1) for name, own in (("in_proj", "u_gate"), ("bc_proj", "bc"))
    }
    return {name: {"kernel": kernel} for name, kernel in joined.items()} | {
        "dt_proj": attention["dt"],
        "out_proj": attention["out_proj"],
        "a_log": attention["a_log"],
        "skip": attention["skip"],
    }


@pytest.mark.parametrize("name", ["LatentAttention", pytest.param("SelectiveSSM", marks=pytest.mark.thorough)])
def test_the_reference_trains_to_the_same_losses_from_the_same_parameters(name: str, pieces: Pieces) -> None:
    def named(own: dict[str, Any]) -> dict[str, Any]:
        own["blocks"]["attn"] = {"piece": own_in_words_of_the_course(own["blocks"]["attn"])}
        return own

    losses = check_same_losses(CONFIGS[name], only(pieces, name), named, some_ids(1) * 6)
    assert losses[-1] < losses[0] - 0.1


@mixers
def test_a_piece_samples_with_its_own_cache_as_without(name: str, pieces: Pieces) -> None:
    config = CONFIGS[name]
    few = only(pieces, name, "sampling_distribution", "generate")
    model = filled(model_builder(config, few)(nnx.Rngs(0)))
    assert isinstance(model, GPT)
    steps = []
    few.by_name["generate"] = None  # is not called
    piece = type(model.blocks.attn.piece)
    decode_step = piece.decode_step
    sampling = Sampling(temperature=0.0, max_tokens=6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(piece, "decode_step", lambda *a: steps.append(a) or decode_step(*a))
        tokens = list(generate_tokens(config, few, model, [3, 1, 4], sampling, -1, 0))
    assert steps
    assert tokens == list(generate(WindowDecoder(model, sampling, config.context), [3, 1, 4], sampling, -1))
    assert len(set(tokens)) > 1


def test_the_pieces_of_a_state_space_and_of_positions_take_their_layers(pieces: Pieces) -> None:
    config = replace(
        SIZES, num_layers=4, mixer="state_space", attention_every=2, d_state=3, positions="rope",
        norm_kind="rmsnorm", activation="swiglu",
    )  # fmt: skip
    rotated: list[int] = []
    own = pieces.by_name["rope"]
    some = only(pieces, "SelectiveSSM", "rope", "sampling_distribution")
    some.by_name["rope"] = lambda *arguments: rotated.append(1) or own(*arguments)
    model = filled(model_builder(config, some)(nnx.Rngs(0)))
    kinds = [type(getattr(block.attn, "piece", block.attn)).__name__ for block in model.blocks.layers]
    assert kinds == ["SelectiveSSM", "GeneralAttention"]
    sampling = Sampling(temperature=0.0, max_tokens=6)
    tokens = list(generate_tokens(config, some, model, [3, 1, 4], sampling, -1, 0))
    assert rotated
    assert tokens == list(generate(WindowDecoder(model, sampling, config.context), [3, 1, 4], sampling, -1))
    assert len(set(tokens)) > 1


@pytest.mark.thorough
@mixers
def test_a_run_trains_and_samples_with_the_piece(
    name: str, workspace: Path, stories_file: Path, harness: Harness
) -> None:
    keep(workspace, "p37", "p66", "p67")
    keys = "mixer d_latent d_rope d_state positions d_model num_heads d_ff context batch_size mesh".split()
    settings = [part for key in keys for part in ("--set", f"{key}={getattr(CONFIGS[name], key)}")]
    files = ("--data", stories_file, "--pieces", workspace)
    trained = harness("train", "--run", "mine", *files, "--steps", 2, *settings)
    assert trained.code == 0, trained.err
    assert f"  {name}: yours, " in trained.err
    sampled = harness("sample", "mine", "--max-tokens", 4)
    assert sampled.code == 0, sampled.err


def test_a_piece_whose_steps_differ_from_the_whole_is_broken(workspace: Path) -> None:
    keep(workspace, "p67")
    file = workspace / "p67_state_space.py"
    file.write_text(file.read_text().replace("return out_1D[0], cache", "return out_1D[0], 0.5 * cache"))
    with pytest.raises(
        PieceError, match=r"SelectiveSSM .* returned outputs of `decode_step` that differ from those of the whole"
    ):
        load_pieces(workspace)


@pytest.mark.parametrize(
    "config",
    [
        replace(CONFIGS["LatentAttention"], norm_kind="rmsnorm", activation="swiglu"),
        pytest.param(CONFIGS["SelectiveSSM"], marks=pytest.mark.thorough),
    ],
)
def test_other_pieces_stand_beside_the_harness_s_own_mixer(config: Config, pieces: Pieces) -> None:
    """The pieces for models with attention are not used, and those of the same parts are."""
    few = only(
        pieces, *(name for name in pieces.by_name if name not in ("LatentAttention", "SelectiveSSM", "train_step"))
    )
    losses = losses_with(few, config, steps=4)
    assert losses[-1] < losses[0] - 0.05
    assert isinstance(model_builder(config, few)(nnx.Rngs(0)), GPT)
