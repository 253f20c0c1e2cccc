"""Pieces: those of the reference train like the harness's own code, and broken ones are reported."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.config import Config
from harness.errors import PieceError, UsageError
from harness.pieces.assemble import make_batches, model_builder
from harness.pieces.load import Pieces, load_pieces
from harness.pieces.registry import MODULES
from harness.training.sharding import put_batch
from tests.conftest import ROOT
from tests.harness.conftest import TINY, Harness
from tests.harness.pieces.shared import check_same_losses, functions_with, keep, losses_with, only, some_ids

# The settings that describe the course's model.
COURSE = replace(
    TINY,
    vocab_size=61,
    vocab_multiple=1,
    context=12,
    activation="relu",
    norm_epsilon=1e-6,
    num_layers=2,
    steps=20,
)


# What a run of the course's model trains, saves and resumes with.
TRAINED = {MODULES[name] for name in ("TokenAndPositionEmbed", "CausalMHA", "GPTBlock", "MiniGPT", "next_token_loss",
                                      "train_step", "warmup_cosine", "save")}  # fmt: skip


def course_parameters(state: dict, config: Config) -> dict:
    """The harness's parameters under the course's names."""
    blocks, D = state["blocks"], config.d_model
    layers = []
    for layer in range(config.num_layers):
        take = lambda tree, layer=layer: jax.tree.map(lambda leaf: leaf[layer], tree)  # noqa: E731
        qkv, out = take(blocks["attn"]["qkv"]), take(blocks["attn"]["out"])
        attention = {
            f"{name}_proj": {"kernel": qkv["kernel"][:, index].reshape(D, D), "bias": qkv["bias"][index].reshape(D)}
            for index, name in enumerate("qkv")
        }
        attention["out_proj"] = {"kernel": out["kernel"].reshape(D, D), "bias": out["bias"]}
        layers.append({**{name: take(blocks[name]) for name in ("ln1", "ln2", "ff1", "ff2")}, "attn": attention})
    table = state["pos_embed"]
    return {
        "embed": {"embedding": state["embed"]},
        "pos_embed": jnp.concatenate(
            [table, jnp.zeros((1, D))]
        ),  # the last token has a position, but its output is not used
        "blocks": dict(enumerate(layers)),
        "ln_f": state["ln_f"],
    }


@pytest.mark.thorough
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_reference_pieces_train_to_the_same_losses_from_the_same_parameters(pieces: Pieces, optimizer: str) -> None:
    config = replace(COURSE, optimizer=optimizer)
    batches = some_ids(6)
    batches[1][2, 7:] = -1
    assert set(pieces.by_name) == set(MODULES)
    pieces = only(pieces, *(name for name in pieces.by_name if name != "train_step"))
    check_same_losses(config, pieces, lambda own: course_parameters(own, config), batches)


@pytest.mark.parametrize(
    "names",
    [
        ("adamw", "warmup_cosine", "clip_by_global_norm", "finite_guard"),
        *(
            pytest.param(names, marks=pytest.mark.thorough)
            for names in (
                ("CausalMHA",),
                tuple(MODULES),
                ("train_step",),
                ("TokenAndPositionEmbed",),
                ("GPTBlock",),
                ("next_token_loss",),
                ("TokenAndPositionEmbed", "GPTBlock", "next_token_loss"),
            )
        ),
    ],
)
def test_any_subset_of_pieces_trains(pieces: Pieces, names: tuple[str, ...]) -> None:
    mesh, functions = functions_with(only(pieces, *names), COURSE)
    state, ids = functions.init(), put_batch(some_ids(1)[0], mesh)
    losses = []
    for _ in range(6):
        state, metrics = functions.train_step(state, ids)
        losses.append(float(metrics.loss))
    assert losses[-1] < losses[0] - 0.05
    loss, count = functions.eval_step(state, ids)
    assert int(count) == 8 * 12
    assert float(loss) / 96 < losses[-1]


@pytest.mark.parametrize("name", ["CausalMHA", "GPTBlock"])
def test_attention_that_does_not_rotate_gets_learned_positions(pieces: Pieces, name: str) -> None:
    model = model_builder(replace(COURSE, positions="rope"), only(pieces, name))(nnx.Rngs(0))
    once, moved = model(jnp.array([3, 1, 4])), model(jnp.array([1, 3, 4]))
    assert not np.allclose(once[-1], moved[-1], atol=1e-3), "the order of the tokens matters"


@pytest.mark.thorough
def test_muon_is_used_for_the_kernels_of_minigpt_and_only_if_the_config_says_so(pieces: Pieces) -> None:
    config = replace(COURSE, optimizer="muon")
    assert pieces.adapted("muon", COURSE) is None
    called = []
    piece = pieces.by_name["muon"]
    pieces.by_name = {
        "MiniGPT": pieces.by_name["MiniGPT"],
        "muon": lambda *args: called.append(args[:3]) or piece(*args),
    }
    losses = losses_with(pieces, config, steps=6)
    assert called == [(1.0, 0.95, config.weight_decay)]
    assert losses[-1] < losses[0] - 0.05


@pytest.mark.thorough
def test_accumulated_gradients_give_the_losses_of_whole_batches(pieces: Pieces) -> None:
    del pieces.by_name["train_step"]
    batches, results = some_ids(4), []
    batches[1][2, 7:] = -1
    for microbatches in (1, 4):
        mesh, functions = functions_with(pieces, replace(COURSE, grad_accumulation_steps=microbatches, clip_norm=0.5))
        state = functions.init()
        for batch in batches:
            state, metrics = functions.train_step(state, put_batch(batch, mesh))
        results.append([float(metrics.loss), float(metrics.gradient_norm)])
    np.testing.assert_allclose(*results, rtol=1e-4)


def test_finite_guard_counts_skipped_updates(pieces: Pieces) -> None:
    mesh, functions = functions_with(
        only(pieces, "finite_guard"), replace(COURSE, learning_rate=1e38, clip_norm=0.0, warmup_steps=0)
    )
    state, ids = functions.init(), put_batch(some_ids(1)[0], mesh)
    for _ in range(4):
        state, metrics = functions.train_step(state, ids)
    assert int(metrics.skipped) >= 2  # the first step made the parameters infinite


def test_make_loader_gives_every_window_once_per_epoch(pieces: Pieces) -> None:
    rows = np.arange(12 * 4, dtype=np.int32).reshape(12, 4)
    config = replace(COURSE, batch_size=4)
    loaders = [make_batches(config, pieces, rows, process, 2) for process in range(2)]
    seen = np.concatenate([next(loader) for _ in range(3) for loader in loaders])
    assert sorted(seen[:, 0]) == list(range(0, 48, 4))


def test_stubs_are_not_pieces_and_the_description_says_so(workspace: Path) -> None:
    for problem in ("p05_gpt_block", "p06_mini_gpt", "p08_train_step"):
        shutil.copyfile(ROOT / "problems" / problem / "stub.py", workspace / f"{problem}.py")
    for problem in ("p07_next_token_loss", "p21_sharded_train_step", "p22_fsdp"):
        (workspace / f"{problem}.py").unlink()
    pieces = load_pieces(workspace)
    stubs, removed = {"GPTBlock", "MiniGPT", "train_step"}, {"next_token_loss", "shard_batch", "fsdp_spec"}
    unusable = {"partition_spec", "export_gpt2", "decode_step", "empty_cache"}
    assert set(MODULES) - set(pieces.by_name) == stubs | removed | unusable
    *lines, doubt, last = pieces.describe(COURSE)
    assert "`grade list`" in doubt
    assert last == "Not filled in yet, so built-in: GPTBlock (05), MiniGPT (06), train_step (08)."
    assert replace(pieces, stubs=[*pieces.stubs, "muon", "rope"]).describe(COURSE)[-1] == f"{last[:-1]} and 2 more."
    told = "\n".join(lines)
    assert "CausalMHA: yours" in told
    assert "GPTBlock" not in told
    assert "next_token_loss: built-in (there is no p07_next_token_loss.py)" in told
    assert "muon: not used (it is used with optimizer=muon and your MiniGPT, ModernGPT or MultiTokenGPT)" in told


def test_the_config_records_a_digest_of_the_pieces(workspace: Path) -> None:
    file = workspace / "p03_causal_mha.py"
    keep(workspace, file.stem)
    config = replace(TINY, vocab_size=61)
    before = load_pieces(workspace).names(config, 1)
    file.write_text(file.read_text() + "# another\n")
    sys.modules.pop("p03_causal_mha")
    assert load_pieces(workspace).names(config, 1) != before


@pytest.mark.parametrize(
    ("module", "source", "message"),
    [
        ("p03_causal_mha", "from flax import nnx\nclass CausalMHA(nnx.Module):\n    def __init__(self, *a, rngs): "
         "pass\n    def __call__(self, x): return None\n",
         r"CausalMHA of p03_causal_mha.py returned None for .*\[5, 12\].*grade problem 03"),
        ("p03_causal_mha", "class CausalMHA:\n    def __init__(self, *a, rngs): pass\n    def __call__(self, x): "
            "return None\n",
         "CausalMHA of p03_causal_mha.py is a CausalMHA, which is not an nnx.Module"),
        ("p07_next_token_loss", "def next_token_loss(logits, ids, pad_id):\n    return logits\n",
            r"next_token_loss .* returned float32\[5, 11\]"),
        ("p07_next_token_loss",
            "import jax.numpy as jnp\ndef next_token_loss(logits, ids, pad_id):\n    return jnp.nan * logits[0, 0]\n",
         "numbers that are not finite"),
        ("p07_next_token_loss", "def next_token_loss(logits, ids, pad_id):\n    return 1 / 0\n",
            r"ZeroDivisionError.*p07_next_token_loss.py, line 2"),
        ("p07_next_token_loss", "def next_token_loss(:\n", r"SyntaxError"),
        ("p07_next_token_loss", "import no_such_package\n", r"ModuleNotFoundError.*line 1"),
        ("p07_next_token_loss", "import sys\nsys.exit(0)\n", r"SystemExit"),
        ("p08_train_step", "import jax.numpy as jnp\ndef train_step(model, optimizer, ids, pad_id):\n    return "
            "jnp.float32(1)\n",
         "did not change any parameter"),
    ],
)  # fmt: skip
def test_a_broken_piece_is_reported(workspace: Path, module: str, source: str, message: str) -> None:
    (workspace / f"{module}.py").write_text(source)
    with pytest.raises(PieceError, match=f"(?s){message}"):
        load_pieces(workspace)


@pytest.mark.thorough
def test_a_piece_that_fails_at_the_sizes_of_the_run_is_reported(
    harness: Harness, workspace: Path, stories_file: Path
) -> None:
    for file in (*workspace.glob("p0[135678]_*.py"), workspace / "p41_load_gpt2.py"):  # which imports one of them
        if file.stem != "p07_next_token_loss":
            file.unlink()
    file = workspace / "p07_next_token_loss.py"
    file.write_text(
        file.read_text().replace("predictions, targets =", "logits.reshape(5, 11)\n    predictions, targets =")
    )
    result = harness("train", "--data", stories_file, "--pieces", workspace, "--steps", 2, "--set", "batch_size=8")
    assert result.code == 1, result.err
    assert "p07_next_token_loss.py, line" in result.err
    assert "failed during the run, although it passed the smoke test" in result.err
    assert "Traceback" not in result.err


def test_a_workspace_without_pieces_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        load_pieces(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="contains no piece yet"):
        load_pieces(tmp_path)


def test_a_run_with_pieces_trains_resumes_and_samples_without_the_workspace(
    harness: Harness, workspace: Path, stories_file: Path, tmp_path: Path
) -> None:
    keep(workspace, *TRAINED)
    arguments = ["train", "--run", "mine", "--data", stories_file, "--steps", 4, "--quiet"]
    for key, value in (("context", 16), ("d_model", 16), ("num_heads", 2), ("d_ff", 24), ("eval_every", 2),
                       ("chart_every", 4), ("sample_every", 4)):  # fmt: skip
        arguments += ["--set", f"{key}={value}"]
    first = harness(*arguments, "--pieces", workspace)
    assert first.code == 0, first.err
    assert "MiniGPT: yours" in first.err
    assert "train_step: yours" in first.err
    assert not list(workspace.glob("__pycache__")), "nothing is written to the workspace"
    shutil.rmtree(workspace)
    sampled = harness("sample", "mine", "--max-tokens", 3)
    assert sampled.code == 0, sampled.err
    assert sampled.out.startswith("The cat saw a ball 0 times."), "the beginning of its own text"
    assert harness("train", "--run", "mine", "--quiet").code == 0
