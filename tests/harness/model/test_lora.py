"""LoRA: adapters on every linear layer of the model, attention's included."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from harness.model.gpt import GPT
from harness.model.lora import add_adapters, merge_adapters
from harness.training.sharding import path_names
from tests.harness.conftest import TINY

RANK = 2


def adapted() -> tuple[nnx.Module, nnx.Module]:
    """The same model without and with adapters."""
    return GPT(TINY, nnx.Rngs(0)), add_adapters(GPT(TINY, nnx.Rngs(0)), RANK, nnx.Rngs(1))


def test_every_linear_layer_gets_an_adapter() -> None:
    _, model = adapted()
    paths = [path_names(path) for path, _ in jax.tree_util.tree_leaves_with_path(nnx.state(model, nnx.LoRAParam))]
    assert {names[1:-2] for names in paths} == {("attn", "qkv"), ("attn", "out"), ("ff1",), ("ff2",)}
    assert all("change" in names for names in paths)


def test_an_adapter_changes_nothing_at_first_and_then_by_its_product() -> None:
    plain, model = adapted()
    ids = jnp.arange(6)[None]
    np.testing.assert_array_equal(plain(ids), model(ids))
    state = nnx.state(model, nnx.LoRAParam)
    nnx.update(model, jax.tree.map(lambda leaf: jnp.full_like(leaf, 0.1), state))
    for layer in (plain.blocks.attn.qkv, plain.blocks.attn.out, plain.blocks.ff1, plain.blocks.ff2):
        layer.kernel[...] = layer.kernel[...] + RANK * 0.1 * 0.1
    adapted_logits = model(ids)
    np.testing.assert_allclose(plain(ids), adapted_logits, rtol=1e-4, atol=1e-5)  # float32 sums in another order

    merged = merge_adapters(model)
    assert not jax.tree.leaves(nnx.state(merged, nnx.LoRAParam))
    np.testing.assert_allclose(merged(ids), adapted_logits, rtol=1e-4, atol=1e-5)
