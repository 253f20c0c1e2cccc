"""Models in Hugging Face's format, run by the pieces of problems 37 to 40."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harness.config import Config
from harness.errors import UsageError
from harness.pieces.load import Pieces
from harness.run.folder import Run
from harness.run.session import ignore, open_session
from harness.run.state import initial_state
from tests.harness.conftest import Harness
from tests.harness.hugging_face.models import LAYOUTS, exported

PARTS = {"rope", "RMSNorm", "SwiGLU", "GQA", "ModernGPT"}


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("Llama", {"ModernGPT"}),
        ("Llama", {"GQA", "RMSNorm", "SwiGLU"}),  # where there is no ModernGPT
        ("Llama, untied, biases", {"rope", "RMSNorm"}),
        ("Llama, longer context", {"RMSNorm", "SwiGLU"}),
        ("Mistral", {"rope", "RMSNorm", "SwiGLU"}),
        ("Qwen 2", {"rope", "RMSNorm", "SwiGLU"}),
        ("Qwen 3", {"rope", "RMSNorm", "SwiGLU"}),
    ],
)
def test_a_model_says_the_same_through_pieces(
    name: str, used: set[str], pieces: Pieces, tiny: Config, tmp_path: Path
) -> None:
    model = exported(LAYOUTS[name], tmp_path / "out")
    called = set()

    def noted(part: str, piece: Any) -> Any:
        return lambda *a, **k: called.add(part) or piece(*a, **k)

    there = PARTS if "ModernGPT" in used else PARTS - {"ModernGPT"}
    pieces.by_name = {part: noted(part, pieces.by_name[part]) for part in there}
    config = replace(LAYOUTS[name], data=tiny.data, base=f"hf:{tmp_path / 'out'}")
    session = open_session(Run(tmp_path / "runs" / "tuned"), config, pieces, log=ignore, quiet=True)
    with jax.set_mesh(session.mesh):
        state, _ = initial_state(session)
        ours = session.functions.model(state)
        ids = np.random.default_rng(0).integers(0, config.vocab_size, (2, 40))
        got = np.stack([ours(jnp.asarray(story)) for story in ids])
    np.testing.assert_allclose(got, model(jnp.asarray(ids)), atol=2e-5)
    assert called == used


def test_a_model_of_another_kind_is_refused(pieces: Pieces, tiny: Config, tmp_path: Path) -> None:
    exported(LAYOUTS["GPT-2"], tmp_path / "out")
    config = replace(LAYOUTS["GPT-2"], data=tiny.data, base=f"hf:{tmp_path / 'out'}")
    session = open_session(Run(tmp_path / "runs" / "tuned"), config, pieces, log=ignore, quiet=True)
    with pytest.raises(UsageError, match="Pieces are parts of models of Llama's kind"):
        initial_state(session)


@pytest.mark.thorough
def test_the_command_says_which_pieces_it_uses(
    workspace: Path, stories_file: Path, tmp_path: Path, harness_here: Harness
) -> None:
    exported(LAYOUTS["Qwen 2"], tmp_path / "out")
    command = ["finetune", f"hf:{tmp_path / 'out'}", "--data", stories_file, "--lora", 2, "--run", "tuned", "--quiet"]
    sizes = ["--set", "context=24", "--set", "batch_size=4"]
    first = harness_here(*command, *sizes, "--pieces", workspace, "--steps", 2)
    assert first.code == 0, first.err
    for name in ("rope", "RMSNorm", "SwiGLU", "LoRALinear"):
        assert f"  {name}: yours, " in first.err
    assert "  GQA: not used (it is used if the model is of Llama's kind, and its attention has no biases" in first.err
