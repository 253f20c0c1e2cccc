"""The profile of a train step."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax.profiler import ProfileData

from harness.cli.main import main
from harness.config import Config
from harness.model.gpt import Block
from harness.model_config import ModelConfig
from harness.pieces.adapt import BatchedLayer
from harness.run.folder import Run
from harness.run.hardware import flops_per_token
from harness.run.run_session import ignore, open_session
from harness.run.step_profile import Profile, part_times, parts_of, profile, table
from tests.harness.conftest import Harness


def measured(config: Config, folder: Path) -> Profile:
    return profile(open_session(Run(folder / "runs" / "r"), config, None, log=ignore, quiet=True), 2, folder)


@jax.named_scope("attention")
def mixed(x, w):
    return jnp.einsum("ab,bc->ac", x, w)


def test_instructions_have_their_scope_forwards_and_backwards() -> None:
    gradient = jax.value_and_grad(lambda w, x: jnp.sum(jnp.sin(mixed(x, w))))
    text = jax.jit(gradient).lower(jnp.ones((32, 16)), jnp.ones((64, 32))).compile().as_text()
    parts = parts_of(text)
    products = [part for name, part in parts.items() if name.startswith("dot")]
    assert len(products) >= 2
    assert {*products} == {"attention"}
    assert {*parts.values()} == {"attention", "rest"}


def test_a_piece_in_place_of_attention_counts_as_attention() -> None:
    config = ModelConfig(d_model=16, num_heads=2, d_ff=24, norm="none")
    block = Block(config, nnx.Rngs(0), make_mixer=lambda config, rngs: BatchedLayer(nnx.Linear(16, 16, rngs=rngs)))
    graph, parameters = nnx.split(block)
    program = jax.jit(lambda parameters, x: nnx.merge(graph, parameters)(x)[0])
    parts = parts_of(program.lower(parameters, jnp.ones((2, 64, 16))).compile().as_text())
    assert {"attention", "feed-forward"} <= {*parts.values()}


@pytest.mark.thorough
def test_a_profile_accounts_for_time_and_memory_and_leaves_the_run_alone(tiny: Config, tmp_path: Path) -> None:
    tiny = replace(tiny, num_layers=1)
    small, large = (measured(replace(tiny, batch_size=size), tmp_path / str(size)) for size in (8, 16))
    assert not (tmp_path / "8" / "runs").exists()
    assert {"attention", "feed-forward", "loss", "optimizer"} <= set(small.parts)
    assert all(seconds > -1e-9 for seconds in small.parts.values())
    # Two moments of each parameter, the step, the counts and the flag of the guard.
    assert 0 <= small.memory["moments"] - 2 * small.memory["parameters"] < 100
    assert small.memory["gradients"] == small.memory["parameters"]
    assert small.flops == flops_per_token(replace(tiny, vocab_size=2048)) * 8 * 16
    assert large.flops == 2 * small.flops
    assert large.memory["temporaries"] > small.memory["temporaries"]
    with gzip.open(small.trace) as file:
        assert any(event.get("name") == "train" for event in json.load(file)["traceEvents"])
    text = table([small, large])
    assert "batch 8" in text
    assert "batch 16" in text
    # The columns are aligned.
    assert len({len(line) for line in text.splitlines() if line.endswith(("%", "MB"))}) == 1


def test_the_command_compares_batch_sizes(harness: Harness, stories_file: Path, tmp_path: Path) -> None:
    settings = ["--set", "context=16", "--set", "d_model=16", "--set", "d_ff=24", "--set", f"data={stories_file}"]
    command = ["profile", "--preset", "pocket", *settings, "--set", "num_layers=0", "--steps", 1, "--json"]
    done = harness(*command, "--batch-sizes", "4,8")
    assert done.code == 0, done.err
    assert [each["batch_size"] for each in json.loads(done.out)] == [4, 8]
    assert len([*(tmp_path / "profiles" / "pocket").glob("batch-*/plugins/profile/*/*.trace.json.gz")]) == 2
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--batch-sizes", "8,x"], "write whole numbers with commas"),
        (["--batch-sizes", "8,0"], "write whole numbers with commas"),
        (["r", "--preset", "pocket"], "name a run or a preset, not both"),
    ],
)
def test_usage_errors(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["profile", *arguments])
    assert stopped.value.code == 2
    assert sentence in capsys.readouterr().err


def test_an_operation_that_begins_before_the_end_of_the_last_one_is_not_a_part_of_it() -> None:
    """Times of a GPU are rounded to a tenth of a microsecond or so, and its kernels follow each other more closely."""
    names = {"loss": (0, 1000), "attention": (600, 402), "optimizer": (999, 500), "feed-forward": (1498.5, 100)}
    events = [
        SimpleNamespace(start_ns=start, duration_ns=length, stats=[("hlo_op", name), ("hlo_module", "jit_step")])
        for name, (start, length) in names.items()
    ]
    trace = SimpleNamespace(planes=[SimpleNamespace(name="/device:GPU:0", lines=[SimpleNamespace(events=events)])])
    program = "HloModule jit_step, entry\nmain {\n"
    program += "".join(f'  {name} = f32[] add(), metadata={{op_name="jit(step)/{name}/add"}}\n' for name in names)
    times = part_times(cast("ProfileData", trace), program)
    found = {part: round(seconds * 1e9) for part, seconds in times.items()}
    assert found == {"loss": 598, "attention": 402, "optimizer": 500, "feed-forward": 100}
