"""The pieces of problems 66 and 67: in the harness's GPT, they train and sample like its own latent attention and state
space."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.config import Config
from harness.errors import PieceError
from harness.model.gpt import GPT
from harness.model.sampling import Sampling, WindowDecoder, generate
from harness.pieces.assemble import generate_tokens, recipe_from
from harness.pieces.load import Pieces, load_pieces
from harness.training.sharding import make_mesh, put_batch
from harness.training.train_step import make_step_functions
from tests.harness.conftest import TINY, Harness

SIZES = replace(TINY, vocab_size=61, vocab_multiple=1, context=12, num_heads=2, bias=False, init="xavier")
CONFIGS = {
    "LatentAttention": replace(SIZES, mixer="latent_attention", d_latent=6, d_rope=4, positions="rope"),
    "SelectiveSSM": replace(SIZES, mixer="state_space", d_state=3, positions="none"),
}
mixers = pytest.mark.parametrize("name", CONFIGS)
IDS = np.random.default_rng(0).integers(0, 61, (8, 13)).astype(np.int32)


def only(pieces: Pieces, *names: str) -> Pieces:
    return replace(pieces, by_name={name: pieces.by_name[name] for name in names})


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
    config = CONFIGS[name]
    mesh = make_mesh(config)
    own = make_step_functions(config, mesh)
    state = own.init()
    start = jax.tree.map(jnp.array, nnx.to_pure_dict(nnx.state(own.model(state))))

    with_piece = make_step_functions(config, mesh, recipe_from(config, mesh, only(pieces, name)))
    model, optimizer = nnx.merge(with_piece.graph, with_piece.init())
    assert type(model.blocks.attn.piece).__name__ == name
    start["blocks"]["attn"] = {"piece": own_in_words_of_the_course(start["blocks"]["attn"])}
    parameters = nnx.state(model)
    nnx.replace_by_pure_dict(parameters, start)
    nnx.update(model, parameters)
    piece_state = nnx.state((model, optimizer))

    losses: list[tuple[float, float]] = []
    for _ in range(6):
        state, own_metrics = own.train_step(state, put_batch(IDS, mesh))
        piece_state, metrics = with_piece.train_step(piece_state, put_batch(IDS, mesh))
        losses.append((float(own_metrics.loss), float(metrics.loss)))
    assert losses[-1][0] < losses[0][0] - 0.1
    # The order of summation differs, and Adam's first steps amplify differences of tiny gradients.
    np.testing.assert_allclose(*zip(*losses, strict=True), rtol=1e-4)


@mixers
def test_a_piece_samples_with_its_own_cache_as_without(name: str, pieces: Pieces) -> None:
    config = CONFIGS[name]
    few = only(pieces, name, "sampling_distribution", "generate")
    mesh = make_mesh(config)
    functions = make_step_functions(config, mesh, recipe_from(config, mesh, few))
    model = functions.model(functions.init())
    assert isinstance(model, GPT)
    state = nnx.state(model)
    rng = np.random.default_rng(1)
    nnx.update(model, jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.3, leaf.shape), leaf.dtype), state))
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
    mesh = make_mesh(config)
    functions = make_step_functions(config, mesh, recipe_from(config, mesh, some))
    model = functions.model(functions.init())
    kinds = [type(getattr(block.attn, "piece", block.attn)).__name__ for block in model.blocks.layers]
    assert kinds == ["SelectiveSSM", "GeneralAttention"]
    rng = np.random.default_rng(1)
    state = nnx.state(model)
    nnx.update(model, jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.3, leaf.shape), leaf.dtype), state))
    sampling = Sampling(temperature=0.0, max_tokens=6)
    tokens = list(generate_tokens(config, some, model, [3, 1, 4], sampling, -1, 0))
    assert rotated
    assert tokens == list(generate(WindowDecoder(model, sampling, config.context), [3, 1, 4], sampling, -1))
    assert len(set(tokens)) > 1


def test_the_run_says_which_mixer_is_used(workspace: Path) -> None:
    for file in workspace.glob("*.py"):  # every piece costs a smoke test
        if int(file.name[1:3]) not in (3, 29, 37, 66, 67):
            file.unlink()
    pieces = load_pieces(workspace)
    lines = pieces.describe(CONFIGS["LatentAttention"])
    assert (
        f"LatentAttention: yours, {workspace / 'p66_latent_attention.py'} (with mixer=latent_attention, without"
        in "\n".join(lines)
    )
    assert "SelectiveSSM: not used (it is used with mixer=state_space)" in lines
    assert any(
        line.startswith("CausalMHA: not used (it is used with mixer=attention, unless the model is") for line in lines
    )
    assert "generate: not used (it is used with mixer=attention, if there is no decode_step)" in lines
    lines = pieces.describe(CONFIGS["SelectiveSSM"])
    assert f"SelectiveSSM: yours, {workspace / 'p67_state_space.py'} (with mixer=state_space)" in lines
    lines = pieces.describe(replace(CONFIGS["LatentAttention"], window=4))
    assert "LatentAttention: not used (it is used with mixer=latent_attention, without window and head_width)" in lines


@pytest.mark.thorough
@mixers
def test_a_run_trains_and_samples_with_the_piece(
    name: str, workspace: Path, stories_file: Path, harness: Harness
) -> None:
    for file in workspace.glob("*.py"):
        if int(file.name[1:3]) not in (37, 66, 67):
            file.unlink()
    keys = "mixer d_latent d_rope d_state positions d_model num_heads d_ff context batch_size mesh".split()
    settings = [part for key in keys for part in ("--set", f"{key}={getattr(CONFIGS[name], key)}")]
    files = ("--data", stories_file, "--pieces", workspace)
    trained = harness("train", "--run", "mine", *files, "--steps", 2, *settings)
    assert trained.code == 0, trained.err
    assert f"  {name}: yours, " in trained.err
    sampled = harness("sample", "mine", "--max-tokens", 4)
    assert sampled.code == 0, sampled.err


def test_a_piece_whose_steps_differ_from_the_whole_is_broken(workspace: Path) -> None:
    for file in workspace.glob("*.py"):
        if file.name != "p67_state_space.py":
            file.unlink()
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
    mesh = make_mesh(config)
    functions = make_step_functions(config, mesh, recipe_from(config, mesh, few))
    state, losses = functions.init(), []
    for _ in range(4):
        state, metrics = functions.train_step(state, put_batch(IDS, mesh))
        losses.append(float(metrics.loss))
    assert losses[-1] < losses[0] - 0.05
    assert isinstance(functions.model(state), GPT)
