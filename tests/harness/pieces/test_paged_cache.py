"""The pieces of problem 63 in the harness: they sample the tokens that a model without a cache samples one by one."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from flax import nnx

from harness.errors import PieceError
from harness.model.gpt import GPT
from harness.model.sampling import Sampling
from harness.pieces.assemble import generate_together, generate_tokens, model_builder, paging
from harness.pieces.load import Pieces, check_pieces
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import ignore, open_session
from tests.harness.conftest import TINY
from tests.harness.pieces.shared import filled, only

# A model of Llama's kind, whose attention has biases, so that it is the harness's and has a cache
CONFIG = replace(
    TINY, vocab_size=61, context=13, d_model=24, num_heads=4, num_kv_heads=2, norm_kind="rmsnorm", activation="swiglu",
    positions="rope", bias=False, attention_bias="qkv", cache_blocks=9, cache_block_size=3, cache_rows=3,
)  # fmt: skip
PARTS = ("rope", "RMSNorm", "SwiGLU", "sampling_distribution", "BlockManager", "paged_attention")
SAMPLED = Sampling(temperature=1.0, top_p=0.9, seed=3, max_tokens=8)


def model_of(pieces: Pieces) -> Any:
    model = filled(model_builder(CONFIG, pieces)(nnx.Rngs(0)))
    assert isinstance(model, GPT)
    return model


def test_the_pieces_sample_together_as_one_by_one(pieces: Pieces) -> None:
    few = only(pieces, *PARTS)
    attention, calls = few.by_name["paged_attention"], []
    few.by_name["paged_attention"] = lambda *arguments: calls.append(arguments) or attention(*arguments)

    class Counted(few.by_name["BlockManager"]):
        def append(self, name: str) -> Any:
            calls.append(name)
            return super().append(name)

    few.by_name["BlockManager"] = Counted
    model, cache = model_of(few), paging(CONFIG, few)
    assert cache is not None
    prompts = [prompt for length in (6, 2) for prompt in [[*range(length)]] * 3]

    def alone(end: int) -> list[list[int]]:
        return [
            [*generate_tokens(CONFIG, few, model, prompt, SAMPLED, end, number)]
            for number, prompt in enumerate(prompts, 5)
        ]

    end = alone(-1)[0][3]
    assert generate_together(few, model, prompts, SAMPLED, end, itertools.count(5), 6, cache) == alone(end)
    assert {str(type(call)) for call in calls} == {"<class 'str'>", "<class 'tuple'>"}


@pytest.mark.thorough
def test_a_run_with_them_has_the_metrics_of_one_without(pieces: Pieces, tiny: Any, tmp_path: Path) -> None:
    few = only(pieces, *PARTS)
    base = replace(
        tiny, norm_kind="rmsnorm", activation="swiglu", positions="rope", num_layers=1, steps=2, warmup_steps=0
    )

    def metrics(name: str, **settings: Any) -> list[dict[str, Any]]:
        run = Run(tmp_path / "runs" / name)
        session = open_session(run, replace(base, **settings), few, log=ignore, quiet=True)
        assert train(session, log=ignore, quiet=True)
        return [{key: entry[key] for key in ("loss", "length", "reward") if key in entry} for entry in run.metrics()]

    metrics("base")
    rewarded = dict(base="base", reward="ends", prompts=2, group_size=2, batch_size=4, prompt_tokens=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.pieces.assemble.generate_tokens", None)  # is not called
        paged = metrics("paged", **rewarded, cache_blocks=9, cache_block_size=4, cache_rows=2)
    assert paged == metrics("whole", **rewarded)
    assert len(paged) == 2


def test_no_cache_is_shared_without_the_setting_or_with_a_piece_that_has_none(pieces: Pieces) -> None:
    assert paging(replace(CONFIG, cache_blocks=0), pieces) is None
    assert paging(replace(CONFIG, norm_kind="layernorm"), pieces) is None


class Broken:
    """A manager with the right tables that raises no MemoryError."""

    def __init__(self, num_blocks: int, block_size: int):
        self.answers = iter([(2, 1, 1), (1, 1, -1), (3, 0, -1), (4, 1, -1)])

    def start(self, name: str, num_tokens: int) -> None: ...

    def fork(self, name: str, new_name: str) -> None: ...

    def append(self, name: str) -> tuple[int, int, int]:
        return next(self.answers)


@pytest.mark.parametrize(
    ("name", "piece", "message"),
    [
        ("BlockManager", Broken, "raised no MemoryError when a token needed a block"),
        ("BlockManager", lambda blocks, size: None, "BlockManager of .* failed: AttributeError"),
        ("paged_attention", lambda q, keys, values, table, length: q[0], r"returned float32\[2, 12\]"),
        ("paged_attention", lambda q, keys, values, table, length: q, "returned other numbers than attention"),
        ("paged_attention", lambda q, keys, values, table, length: q * jnp.nan, "numbers that are not finite"),
    ],
)
def test_a_broken_piece_is_reported(name: str, piece: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(PieceError, match=message):
        check_pieces({name: piece}, tmp_path)


def test_a_manager_that_loses_blocks_is_reported(pieces: Pieces) -> None:
    class Lossy(pieces.by_name["BlockManager"]):
        def free(self, name: str) -> None:
            del self.tables[name], self.lengths[name]

    few = replace(pieces, by_name={name: pieces.by_name[name] for name in PARTS} | {"BlockManager": Lossy})
    model, cache = model_of(few), paging(CONFIG, few)
    assert cache is not None
    with pytest.raises(PieceError, match=r"BlockManager finds no block where enough are free: .*grade problem 63"):
        generate_together(few, model, [[1, 2, 3]] * 9, SAMPLED, -1, itertools.count(0), 6, cache)
