"""LoRA: adapters on the layers and tables of the chosen parts of the model."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.errors import UsageError
from harness.model.general import make_gpt
from harness.model.lora import LoRALinear, add_adapters, merge_adapters
from harness.model.loss import token_loss
from harness.training.sharding import path_names
from harness.training.train_step import default_model
from tests.harness.conftest import TINY
from tests.harness.model.test_gpt import logits_of

RANK = 2
ALL = frozenset({"attn", "mlp", "embed", "head"})
LAYERS = {
    "attn": {("blocks", "attn", "qkv"), ("blocks", "attn", "out")},
    "mlp": {("blocks", "ff1"), ("blocks", "ff2")},
    "embed": {("embed",)},
    "head": {("head",)},
}
IDS = jnp.arange(6)[None]


def adapted(*, tied: bool = False, targets: frozenset[str] = ALL) -> tuple[Any, Any]:
    """The same model without and with adapters."""
    config = replace(TINY, tied_head=tied)
    return make_gpt(config, nnx.Rngs(0)), add_adapters(make_gpt(config, nnx.Rngs(0)), RANK, targets, nnx.Rngs(1))


def adapters(model: nnx.Module) -> set[tuple[str, ...]]:
    """The paths of what has an adapter."""
    paths = [path_names(path) for path, _ in jax.tree_util.tree_leaves_with_path(nnx.state(model, nnx.LoRAParam))]
    assert all(names[-2] == "change" for names in paths)
    return {names[:-2] for names in paths}


@pytest.mark.parametrize("target", LAYERS)
def test_each_target_is_a_part_of_the_model(target: str) -> None:
    _, model = adapted(targets=frozenset({target}))
    assert adapters(model) == LAYERS[target]


def test_a_tied_head_is_the_embedding() -> None:
    config = replace(TINY, base="base", lora_rank=RANK, lora_targets="head")
    assert adapters(default_model(config, nnx.Rngs(0))) == {("embed",)}
    assert adapters(default_model(replace(config, tied_head=False), nnx.Rngs(0))) == {("head",)}


@pytest.mark.parametrize("targets", ["attn,bias", "", "attn, mlp"])
def test_an_unknown_target_is_a_usage_error(targets: str) -> None:
    with pytest.raises(UsageError, match=r"lora_targets=.* is not valid; write some of attn,mlp,embed,head"):
        replace(TINY, lora_targets=targets)


@pytest.mark.parametrize("tied", [False, True])
def test_an_adapter_changes_nothing_at_first_and_then_by_its_product(tied: bool) -> None:
    plain, model = adapted(tied=tied)
    np.testing.assert_array_equal(logits_of(plain, IDS), logits_of(model, IDS))
    state = nnx.state(model, nnx.LoRAParam)
    nnx.update(model, jax.tree.map(lambda leaf: jnp.full_like(leaf, 0.1), state))
    change = RANK * 0.1 * 0.1
    for layer in (plain.blocks.attn.qkv, plain.blocks.attn.out, plain.blocks.ff1, plain.blocks.ff2):
        layer.kernel[...] = layer.kernel[...] + change
    for table in (plain.embed,) if tied else (plain.embed, plain.head):
        table[...] = table[...] + change
    adapted_logits = logits_of(model, IDS)
    np.testing.assert_allclose(
        logits_of(plain, IDS), adapted_logits, rtol=1e-4, atol=1e-5
    )  # float32 sums in another order
    merged: Any = merge_adapters(model)
    assert not jax.tree.leaves(nnx.state(merged, nnx.LoRAParam))
    assert jax.tree.structure(nnx.state(merged)) == jax.tree.structure(nnx.state(plain))
    np.testing.assert_allclose(logits_of(merged, IDS), adapted_logits, rtol=1e-4, atol=1e-5)


def test_every_adapter_learns_and_no_base_does() -> None:
    """After one step of descent along the gradients of the zero factors, those of all factors are not zero."""
    _, model = adapted()

    def gradients() -> Any:
        graph, trained, rest = nnx.split(model, nnx.LoRAParam, ...)

        def loss(trained: Any) -> Any:
            model: Any = nnx.merge(graph, trained, rest)
            return token_loss(model.hidden(IDS), IDS + 1, model.output())

        return jax.jit(jax.grad(loss))(trained)

    nnx.update(model, jax.tree.map(lambda leaf, slope: leaf - slope, nnx.state(model, nnx.LoRAParam), gradients()))
    assert all(jnp.any(slope != 0) for slope in jax.tree.leaves(gradients()))


def test_a_merge_for_one_layer_merges_stacked_layers() -> None:
    """The piece `merge` is written for one layer."""
    _, model = adapted()
    nnx.update(model, jax.tree.map(lambda leaf: jnp.full_like(leaf, 0.1), nnx.state(model, nnx.LoRAParam)))
    logits = logits_of(model, IDS)

    def merge(adapter: LoRALinear) -> nnx.Linear:
        assert adapter.base.kernel.ndim == 2
        return adapter.merged()

    np.testing.assert_allclose(logits_of(merge_adapters(model, merge), IDS), logits, rtol=1e-4, atol=1e-5)
