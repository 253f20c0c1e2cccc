"""Models in Hugging Face's format, run by the pieces of problems 37 to 40."""

import io
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from grader.course import catalog, plays
from harness.config import Config
from harness.data import tokenizer, tokenizer_json
from harness.data.dialogues import PLAIN_TEMPLATE
from harness.errors import UsageError
from harness.hugging_face.export import find_layout
from harness.pieces.load import Pieces
from harness.run.chat import GREETING_OF_DIALOGUES
from harness.run.folder import Run
from harness.run.run_session import ignore, open_session
from harness.run.state import initial_state
from tests.harness.conftest import Harness
from tests.harness.hugging_face.models import LAYOUTS, exported
from tests.harness.model.test_gpt import logits_of

PARTS = {"GPT2", "load_gpt2", "rope", "RMSNorm", "SwiGLU", "GQA", "ModernGPT"}


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("GPT-2", {"GPT2", "load_gpt2"}),
        ("Llama", {"ModernGPT"}),
        ("Llama", {"GQA", "RMSNorm", "SwiGLU"}),  # where there is no ModernGPT
        pytest.param("Llama, untied, biases", {"rope", "RMSNorm"}, marks=pytest.mark.thorough),
        ("Llama, longer context", {"RMSNorm", "SwiGLU"}),
        pytest.param("Mistral", {"rope", "RMSNorm", "SwiGLU"}, marks=pytest.mark.thorough),
        pytest.param("Qwen 2", {"rope", "RMSNorm", "SwiGLU"}, marks=pytest.mark.thorough),
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
        # The model of a run has one position more than the context.
        assert ours.pos_embed.shape == (257, 24) if "GPT2" in used else True
        ids = np.random.default_rng(0).integers(0, config.vocab_size, (2, 40))
        got = np.stack([logits_of(ours, story) for story in ids])
    np.testing.assert_allclose(got, logits_of(model, ids), atol=2e-5)
    assert called == used


@pytest.mark.parametrize(
    ("name", "used"),
    [
        pytest.param("GPT-2", ("GPT2",), marks=pytest.mark.thorough),
        ("Llama", ("ModernGPT", "rope", "RMSNorm", "SwiGLU", "GQA")),
        pytest.param("Qwen 2", ("rope", "RMSNorm", "SwiGLU"), marks=pytest.mark.thorough),
    ],
)
def test_a_model_is_sampled_through_pieces(
    name: str, used: tuple[str, ...], workspace: Path, tmp_path: Path, harness_here: Harness
) -> None:
    exported(LAYOUTS[name], tmp_path / "out")
    command = ["sample", f"hf:{tmp_path / 'out'}", "--prompt", "One day", "--temperature", 0, "--max-tokens", 9]
    own, ours = harness_here(*command), harness_here(*command, "--pieces", workspace)
    assert (own.code, ours.code) == (0, 0), own.err + ours.err
    assert ours.out == own.out
    assert {line.strip().partition(":")[0] for line in ours.err.splitlines()} == {
        *used,
        "sampling_distribution",
        "generate",
    }


@pytest.mark.parametrize(
    "number", ["37", *(pytest.param(number, marks=pytest.mark.thorough) for number in ("31", "41", "51"))]
)
def test_what_a_play_offers_works(
    number: str, workspace: Path, tmp_path: Path, harness_here: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = plays.required(catalog.find(number))
    name = next(name for name, config in LAYOUTS.items() if find_layout(config).model_type == play.models[0])
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    folder = tmp_path / "hub" / f"models--org--play-{number}"
    (folder / "snapshots").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("a" * 40)
    exported(LAYOUTS[name], folder / "snapshots" / ("a" * 40))
    program, *words = shlex.split(play.command.format(model=f"hf:org/play-{number}", workspace=workspace))
    fewer = ["--steps", 1, "--set", "mesh=1x1", "--set", "eval_batches=1"] if "--steps" in words else []
    run = harness_here(*words, *fewer)
    assert (program, run.code) == ("harness", 0), run.err
    piece = {"31": "LoRALinear", "37": "rope", "41": "GPT2", "51": "grpo_loss"}[number]
    assert f"  {piece}: yours, " in run.err


def test_a_model_with_a_chat_template_answers_through_pieces(
    workspace: Path, tmp_path: Path, harness_here: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(LAYOUTS["Llama"], tmp_path / "out")
    (tmp_path / "out" / "chat_template.jinja").write_text(PLAIN_TEMPLATE)
    for file in workspace.glob("*.py"):
        if not file.stem.startswith(("p29", "p37", "p38", "p39", "p40")):
            file.unlink()

    def said(*options: object) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO("What does the cow say?\nAnd the dog?\n"))
        done = harness_here("chat", f"hf:{tmp_path / 'out'}", "--temperature", 0, "--max-tokens", 5, *options)
        assert done.code == 0, done.err
        return done.out

    own = said()
    assert own.startswith(GREETING_OF_DIALOGUES)
    assert said("--pieces", workspace) == own


def test_a_gpt2_on_the_disk_needs_no_network(
    workspace: Path, tmp_path: Path, harness_here: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(LAYOUTS["GPT-2"], tmp_path / "out")
    # Its tokenizer is recognized as GPT-2's, whose vocabulary tiktoken would download.
    digest = next(digest for digest, name in tokenizer_json._NAMES.items() if name == "pocket-2k")
    monkeypatch.setitem(tokenizer_json._NAMES, digest, "gpt2")
    monkeypatch.setattr("tiktoken.get_encoding", lambda name: pytest.fail("asked for a download"))
    tokenizer._from_folder.cache_clear()
    sampled = harness_here("sample", f"hf:{tmp_path / 'out'}", "--max-tokens", 2, "--pieces", workspace)
    tokenizer._from_folder.cache_clear()
    assert sampled.code == 0, sampled.err


def test_no_piece_is_a_part_of_a_model(workspace: Path, tmp_path: Path, harness_here: Harness) -> None:
    exported(LAYOUTS["Qwen 2"], tmp_path / "out")
    for file in workspace.glob("*.py"):
        if "schedule" not in file.name:
            file.unlink()
    sampled = harness_here("sample", f"hf:{tmp_path / 'out'}", "--max-tokens", 2, "--pieces", workspace)
    assert sampled.err.strip() == "None of these pieces is a part of this model."


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--pieces", "attempts"), "--pieces needs a model as hf:DIR"), (("--step", 3), "--step needs a run")],
)
def test_options_that_do_not_fit_a_model(
    options: tuple[Any, ...], said: str, tmp_path: Path, harness_here: Harness
) -> None:
    name = "mine" if "--pieces" in options else f"hf:{tmp_path}"
    sampled = harness_here("sample", name, *options)
    assert sampled.code == 2
    assert said in sampled.err


def test_a_model_of_another_kind_is_refused(
    pieces: Pieces, workspace: Path, tiny: Config, tmp_path: Path, harness_here: Harness
) -> None:
    exported(LAYOUTS["GPT-2, untied, relu"], tmp_path / "out")
    config = replace(LAYOUTS["GPT-2, untied, relu"], data=tiny.data, base=f"hf:{tmp_path / 'out'}")
    session = open_session(Run(tmp_path / "runs" / "tuned"), config, pieces, log=ignore, quiet=True)
    with pytest.raises(UsageError, match="Pieces are parts of models of Llama's kind"):
        initial_state(session)
    sampled = harness_here("sample", f"hf:{tmp_path / 'out'}", "--max-tokens", 2, "--pieces", workspace)
    assert sampled.code == 2
    assert sampled.err.startswith("harness: Pieces are parts of models of Llama's kind")


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
