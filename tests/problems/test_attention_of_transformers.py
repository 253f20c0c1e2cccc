"""The reference of problem 71 in place of the attention of real model classes, with random weights: the logits of the
whole model stay the same. Skipped without torch and transformers."""

import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.conftest import ROOT

pytestmark = pytest.mark.oracle
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES = {
    "hidden_size": 20, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "num_hidden_layers": 4,
    "intermediate_size": 16, "vocab_size": 30, "pad_token_id": None,
}  # fmt: skip
PLAIN = {"rope_type": "default", "rope_theta": 90.0}
# The class, its settings, and the fields of the file that a newer class writes in another way.
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "qwen3": ("Qwen3", {"rope_parameters": PLAIN, "sliding_window": 5}, {}),
    "gemma3_text": (
        "Gemma3Text",
        {
            "rope_parameters": {"full_attention": PLAIN, "sliding_attention": {**PLAIN, "rope_theta": 20.0}},
            "layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 5, "query_pre_attn_scalar": 9,
        },
        {"sliding_window_pattern": 2, "rope_local_base_freq": 20.0},
    ),
    "gpt_oss": (
        "GptOss", {"rope_parameters": PLAIN, "sliding_window": 5, "num_local_experts": 2, "num_experts_per_tok": 1}, {}
    ),
    "llama4_text": (
        "Llama4Text",
        {
            "rope_parameters": PLAIN, "attention_chunk_size": 5, "num_local_experts": 2, "intermediate_size_mlp": 16,
            "no_rope_layers": [1, 0, 1, 1],
        },
        {},
    ),
}  # fmt: skip
CLASSES = {"Gemma3Text": "Gemma3ForCausalLM", "Llama4Text": "Llama4ForCausalLM"}


def attention(config: dict[str, Any], i: int, tensors: dict[str, Any]) -> nnx.Module:
    """The reference as layer i, with the tensors of a checkpoint."""
    from p71_attention_switches import Attention, switches

    sizes = [config[name] for name in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")]
    layer = Attention(*sizes, **switches(config, i), rngs=nnx.Rngs(0))
    for name, tensor in tensors.items():
        part, _, kind = name.partition(".")
        found = getattr(layer, part)
        found = getattr(found, "kernel" if kind == "weight" else kind) if part.endswith("proj") else found
        found[...] = jnp.asarray(tensor.detach().numpy().T)
    return layer


@pytest.mark.parametrize("kind", MODELS)
def test_the_logits_of_the_model_are_the_same_with_the_reference_in_it(kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])
    family, settings, fields = MODELS[kind]
    torch.manual_seed(0)
    made = getattr(transformers, f"{family}Config")(**SIZES, **settings, attn_implementation="eager")
    model = getattr(transformers, CLASSES.get(family, f"{family}ForCausalLM"))(made).eval()
    for parameter in model.parameters():  # also those of norms, which begin at 0 or 1, and of sinks
        torch.nn.init.normal_(parameter, 0.4, 0.4)
    config = {**made.to_dict(), "rope_theta": PLAIN["rope_theta"], **fields}
    assert config["model_type"] == kind
    ids = torch.arange(17)[None] * 7 % 30
    expected, seen = model(ids).logits.detach().numpy(), []

    def replaced(i: int, layer: Any) -> Any:
        own = attention(config, i, dict(layer.named_parameters()))

        def forward(module: Any, args: Any, kwargs: Any, output: Any) -> Any:
            seen.append(i)
            x_TD = (args[0] if args else kwargs["hidden_states"])[0].numpy()
            return torch.from_numpy(np.array(own(jnp.asarray(x_TD))))[None], *output[1:]

        return layer.register_forward_hook(forward, with_kwargs=True)

    for i, block in enumerate(model.model.layers):
        replaced(i, block.self_attn)
    with torch.no_grad():
        found = model(ids).logits.numpy()
    assert seen == list(range(SIZES["num_hidden_layers"]))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
