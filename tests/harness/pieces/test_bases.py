"""Runs with pieces as bases of other runs: of a GPT-2 in Hugging Face's format, and for dialogues."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harness.data.batches import UNLEARNED
from harness.data.token_files import CONTEXT, Tokens
from harness.pieces.assemble import pack_windows, recipe_from
from harness.pieces.load import Pieces
from harness.run.folder import Run
from harness.run.run_session import Session, ignore, open_session
from harness.run.state import initial_state, load_state
from harness.training.sharding import make_mesh, put_batch
from harness.training.train_step import make_step_functions
from tests.harness.conftest import TINY, Harness
from tests.harness.hugging_face.models import LAYOUTS, exported
from tests.harness.pieces.shared import keep, only
from tests.harness.run.test_dialogues import dialogues

FEW = ("--mesh", "1x1", "--set", "eval_batches=1", "--quiet")
OF_MINI_GPT = ("MiniGPT", "train_step", "next_token_loss", "pack", "generate")


def session_of(run: Run, pieces: Pieces) -> Session:
    return open_session(run, run.config(), pieces, log=ignore, quiet=True)


def logits(session: Session, state: Any) -> np.ndarray:
    """Those of the model of a run on a story."""
    with jax.set_mesh(session.mesh):
        model: Any = session.functions.model(state)
        return np.asarray(model(jnp.array([5, 7, 9, 11])))


@pytest.mark.thorough
def test_a_run_tuned_with_the_gpt2_of_problem_41_is_a_base(
    workspace: Path, pieces: Pieces, stories_file: Path, tmp_path: Path, harness_here: Harness
) -> None:
    keep(workspace, "p01", "p03", "p05", "p06", "p31", "p41")
    exported(replace(LAYOUTS["GPT-2"], context=24), tmp_path / "out")
    data = ("--pieces", workspace, "--data", stories_file, "--steps", 2, "--set", "batch_size=4", *FEW)
    first = ("finetune", f"hf:{tmp_path / 'out'}", *data, "--lora", 2, "--run", "one")
    second = ("finetune", "one", *data, "--run", "two")
    third = (
        "rl",
        "two",
        "--pieces",
        workspace,
        "--reward",
        "word:cat",
        "--prompts",
        2,
        "--group",
        2,
        "--steps",
        2,
        *FEW,
    )
    for arguments in (first, second, third, second):  # at the end, one is resumed
        done = harness_here(*arguments)
        assert done.code == 0, done.err
        assert "  GPT2: yours, " in done.err
        assert "  MiniGPT: not used" in done.err
    assert "resuming at step 2 of 2" in done.err
    some = only(pieces, "MiniGPT", "GPT2", "load_gpt2", "LoRALinear", "merge")
    one, two = (session_of(Run(tmp_path / "runs" / name), some) for name in ("one", "two"))
    np.testing.assert_allclose(
        logits(two, initial_state(two)[0]), logits(one, load_state(one)[1]), rtol=1e-4, atol=1e-4
    )

    settings = one.config.model
    typed = [
        f"--set={name}={getattr(settings, name)}" for name in ("context", "d_model", "num_heads", "d_ff", "num_layers")
    ]
    other = harness_here("train", "--run", "three", *data, "--set", "base=one", *typed, "--set=positions=learned")
    assert other.code == 2
    assert "another model than this run: it has your GPT2; `harness finetune one`" in other.err


@pytest.mark.thorough
def test_dialogues_are_learned_through_mini_gpt_as_through_the_harness(pieces: Pieces) -> None:
    """Both have the loss of the answers alone, of the same logits."""
    config = replace(TINY, chat="plain", field="messages", packing="padded", vocab_size=61)
    some = only(pieces, *OF_MINI_GPT)
    mesh = make_mesh(config)
    recipe = recipe_from(config, mesh, some)
    assert recipe.train_step is None  # it knows whole texts alone
    model: Any = make_step_functions(config, mesh, recipe).model(make_step_functions(config, mesh, recipe).init())
    rng = np.random.default_rng(0)
    ids_BT = rng.integers(0, 61, (3, 17)).astype(np.int32)
    learned_BT = rng.random(ids_BT.shape) < 0.4
    rows_BT = np.where(learned_BT, ids_BT, UNLEARNED - ids_BT)
    rows_BT[1, 9:] = -1
    total, count = recipe.loss_sum(model, put_batch(rows_BT, mesh), None)
    losses = []
    for row_T, ids_T in zip(rows_BT, ids_BT, strict=True):
        log_TV = jax.nn.log_softmax(model(jnp.asarray(ids_T)))
        losses += [-log_TV[t, ids_T[t + 1]] for t in range(16) if row_T[t + 1] >= 0]
    assert int(count) == len(losses)
    np.testing.assert_allclose(total, sum(losses), rtol=1e-5)


def test_the_piece_pack_keeps_what_is_only_read(pieces: Pieces) -> None:
    config = replace(TINY, chat="plain", field="messages", packing="padded", vocab_size=61)
    stored = np.arange(40, dtype=np.uint32) | np.where(np.arange(40) % 3, CONTEXT, np.uint32(0))
    tokens = Tokens((stored,), np.array([22, 40]))
    expected = [UNLEARNED - token if token % 3 else token for token in range(40)]
    windows = pack_windows(config, pieces, tokens)
    assert windows.shape == (4, 17)
    assert windows[windows != -1].tolist() == expected


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["MiniGPT", "ModernGPT"])
def test_a_base_with_a_model_of_pieces_learns_dialogues(
    model: str, workspace: Path, tmp_path: Path, harness: Harness
) -> None:
    keep(workspace, "p0", "p15", "p29", *(("p37", "p38", "p39", "p40") if model == "ModernGPT" else ()))
    kind = (
        ("--preset", "modern", "--set", "num_layers=1", "--set", "optimizer=adamw")
        if model == "ModernGPT"
        else ("--preset", "pocket")
    )
    sizes = [f"--set={setting}" for setting in ("d_model=32", "d_ff=48", "context=32", "batch_size=8")]
    done = harness(
        "train", "--run", "base", *kind, *sizes, "--data", "pocket:200", "--steps", 2, "--pieces", workspace, *FEW
    )
    assert done.code == 0, done.err
    assert f"  {model}: yours, " in done.err

    command = ("finetune", "base", "--chat", dialogues(tmp_path), *FEW)
    refused = harness(*command, "--steps", 2, "--set", "packing=segments")
    assert refused.code == 2
    hint = re.search(f"{model} takes a row for one story, .*; (--set packing=[a-z]+)", refused.err)
    assert hint is not None, refused.err
    few = ("--steps", 100, "--set", "eval_every=100", "--set", "learning_rate=1e-2")
    done = harness(*command, *few, "--run", "answers", *hint[1].split())
    assert done.code == 0, done.err
    assert f"  {model}: yours, " in done.err
    sampled = harness("sample", "answers", "--prompt", "Please. 3 What does the cow say?", "--temperature", 0)
    assert sampled.out == "Please. 3 What does the cow say?\n Moo.\n", sampled.err
