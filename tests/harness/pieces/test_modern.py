"""The pieces of problems 37 to 40: with the model of the preset modern, they train like the harness's own code."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.config import Config
from harness.model.sampling import Sampling
from harness.pieces.assemble import generate_tokens, model_builder
from harness.pieces.load import Pieces, load_pieces
from harness.presets import preset
from harness.training.sharding import put_batch
from tests.harness.conftest import TINY
from tests.harness.pieces.shared import check_same_losses, functions_with, keep, losses_with, only, some_ids

SIZES = {name: getattr(TINY, name) for name in ("data", "batch_size", "steps", "mesh")}
MODERN = replace(
    preset("modern"), **SIZES, vocab_size=61, vocab_multiple=1, context=12, d_model=16, d_ff=24, optimizer="adamw",
    learning_rate=1e-2, warmup_steps=2, final_lr_fraction=0.1,  # where the schedule of problem 10 ends
)  # fmt: skip
PARTS = ("rope", "RMSNorm", "SwiGLU", "GQA")


def modern_parameters(state: dict, config: Config) -> dict:
    """The harness's parameters under the course's names."""
    D, blocks = config.d_model, []
    for layer in range(config.num_layers):
        own = jax.tree.map(lambda leaf, layer=layer: leaf[layer], state["blocks"])
        keys, values = jnp.moveaxis(own["attn"]["kv"]["kernel"], 1, 0)
        kernels = {"q_proj": own["attn"]["q"]["kernel"], "k_proj": keys, "v_proj": values}
        attention = {name: {"kernel": kernel.reshape(D, -1)} for name, kernel in kernels.items()}
        attention["out_proj"] = {"kernel": own["attn"]["out"]["kernel"].reshape(-1, D)}
        feed_forward = {"gate_proj": own["gate"], "up_proj": own["ff1"], "down_proj": own["ff2"]}
        blocks.append({"norm1": own["ln1"], "norm2": own["ln2"], "attn": attention, "ff": feed_forward})
    return {"embed": {"embedding": state["embed"]}, "blocks": dict(enumerate(blocks)), "norm_f": state["ln_f"]}


@pytest.mark.thorough
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_reference_trains_to_the_same_losses_from_the_same_parameters(pieces: Pieces, optimizer: str) -> None:
    config = replace(MODERN, optimizer=optimizer)
    pieces = only(pieces, *(name for name in pieces.by_name if name != "train_step"))
    assert type(model_builder(config, pieces)(nnx.Rngs(0))).__name__ == "ModernGPT"
    check_same_losses(config, pieces, lambda own: modern_parameters(own, config), some_ids(6))


@pytest.mark.parametrize(
    "names",
    [
        *(pytest.param((name,), marks=pytest.mark.thorough) for name in PARTS),
        PARTS,
        (*PARTS, "CausalMHA", "MiniGPT", "muon"),
        ("ModernGPT", "muon"),
    ],
)
def test_any_of_them_trains(pieces: Pieces, names: tuple[str, ...]) -> None:
    called = []
    for name in names:
        piece = pieces.by_name[name]
        pieces.by_name[name] = lambda *a, name=name, piece=piece, **k: called.append(name) or piece(*a, **k)
    config = replace(MODERN, optimizer="muon" if "muon" in names else "adamw")
    losses = losses_with(only(pieces, *names), config, steps=6)
    assert losses[-1] < losses[0] - 0.05
    # The parts of the first model are not used, GQA brings its own positions, and Muon is for models made of pieces.
    unused = {"CausalMHA", "MiniGPT", "muon", "rope"} if "MiniGPT" in names else {"rope"} if names == PARTS else set()
    assert set(called) == set(names) - unused


def test_a_norm_takes_rows_of_stories(workspace: Path) -> None:
    """As its page says, (T, D): never one row alone, nor several stories."""
    keep(workspace, "p38")
    (file,) = workspace.glob("*.py")
    text = file.read_text()
    file.write_text(text.replace("axis=-1, keepdims", "axis=1, keepdims").replace("x_TD**2", "(x_TD[:, :] * x_TD)"))
    mesh, functions = functions_with(load_pieces(workspace), MODERN)
    assert file.read_text() != text
    _, metrics = functions.train_step(functions.init(), put_batch(some_ids(1)[0], mesh))
    assert np.isfinite(float(metrics.loss))


@pytest.mark.thorough
def test_it_generates_without_the_cache_of_minigpt(pieces: Pieces) -> None:
    _, functions = functions_with(pieces, MODERN)
    model = functions.model(functions.init())
    sampling = Sampling(temperature=0.0, max_tokens=3)
    tokens = list(generate_tokens(MODERN, pieces, model, [3, 1, 4], sampling, 60, 0))
    logits = model(jnp.array([3, 1, 4]))
    assert tokens[0] == int(jnp.argmax(logits[-1]))
    assert len(tokens) == 3
