"""Models with experts, sinks and linear attention, against formulas in NumPy that read the tensors of their files."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file, save_file

from harness.errors import UsageError
from harness.hugging_face.load import Parameters, read_config
from harness.model.general import make_gpt
from harness.model.gpt import GPT
from harness.model_config import ModelConfig
from tests.harness.hugging_face.models import LAYOUTS, exported

NAMES = ("Qwen 3 with experts", "gpt-oss", "Qwen3-Next")
IDS = np.random.default_rng(3).integers(0, 500, 45)
Weights = Callable[[str], np.ndarray]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a model of this layout. Tests change its config.json alone."""
    base = tmp_path_factory.mktemp("models")
    configs: dict[str, str] = {}

    def of(name: str) -> Path:
        if name not in configs:
            exported(LAYOUTS[name], base / name)
            configs[name] = (base / name / "config.json").read_text()
        (base / name / "config.json").write_text(configs[name])
        return base / name

    return of


def opened(folder: Path) -> GPT:
    """The model that the harness makes of a folder."""
    settings = {name: value for name, value in read_config(folder).items() if name != "tokenizer"}
    model = nnx.eval_shape(lambda: make_gpt(ModelConfig(**settings), nnx.Rngs(0)))
    parameters = Parameters(folder)
    take = lambda path, leaf: leaf.replace(jnp.asarray(parameters[".".join(map(str, path))]))  # noqa: E731
    nnx.update(model, nnx.map_state(take, nnx.state(model)))
    return model


def softmax(x: np.ndarray) -> np.ndarray:
    exps = np.exp(x - x.max(-1, keepdims=True))
    return exps / exps.sum(-1, keepdims=True)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def silu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(x)


def norm(x: np.ndarray, scale: np.ndarray, fields: dict[str, Any]) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + fields["rms_norm_eps"]) * scale


def frequencies(width: int, rope: dict[str, Any]) -> tuple[np.ndarray, float]:
    """The radians per position of each pair, and what multiplies queries and keys."""
    plain = rope["rope_theta"] ** (-np.arange(0, width, 2) / width)
    if rope["rope_type"] == "default":
        return plain, 1.0
    old, base = rope["original_max_position_embeddings"], rope["rope_theta"]
    ends = [width * math.log(old / (2 * math.pi * rope[turns])) / (2 * math.log(base))
            for turns in ("beta_fast", "beta_slow")]  # fmt: skip
    slow = np.clip((np.arange(width // 2) - max(ends[0], 0)) / (min(ends[1], width - 1) - max(ends[0], 0)), 0, 1)
    return plain * (1 - slow) + plain / rope["factor"] * slow, 0.1 * math.log(rope["factor"]) + 1


def rotate(x_THK: np.ndarray, rope: dict[str, Any]) -> np.ndarray:
    width = int(x_THK.shape[-1] * rope.get("partial_rotary_factor", 1.0))
    radians, scale = frequencies(width, rope)
    angles = (np.arange(len(x_THK))[:, None] * radians)[:, None]
    a, b = np.split(x_THK[..., :width], 2, axis=-1)
    cos, sin = np.cos(angles) * scale, np.sin(angles) * scale
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x_THK[..., width:]], axis=-1)


def attention(x: np.ndarray, w: Weights, fields: dict[str, Any], kind: str) -> np.ndarray:
    T, K = len(x), fields["head_dim"]
    is_oss, is_next = fields["model_type"] == "gpt_oss", fields["model_type"] == "qwen3_next"

    def heads(name: str) -> np.ndarray:
        bias = w(f"self_attn.{name}_proj.bias") if is_oss else 0.0
        return (x @ w(f"self_attn.{name}_proj.weight").T + bias).reshape(T, -1, 2 * K if is_next and name == "q" else K)

    q, k, v = map(heads, "qkv")
    q, gate = q[..., :K], q[..., K:]
    if not is_oss:
        q, k = (norm(h, w(f"self_attn.{n}_norm.weight") + is_next, fields) for h, n in ((q, "q"), (k, "k")))
    q, k = (rotate(h, fields["rope_parameters"]) for h in (q, k))
    k, v = (np.repeat(h, q.shape[1] // k.shape[1], axis=1) for h in (k, v))
    scores = np.einsum("thk,shk->hts", q, k) / math.sqrt(K)
    distance = np.arange(T)[:, None] - np.arange(T)
    hidden = (distance < 0) | ((distance >= fields["sliding_window"]) if kind == "sliding_attention" else False)
    scores = np.where(hidden, -np.inf, scores)
    if is_oss:
        sinks = np.broadcast_to(w("self_attn.sinks")[:, None, None], (*scores.shape[:2], 1))
        weights = softmax(np.concatenate([scores, sinks], axis=-1))[..., :T]
    else:
        weights = softmax(scores)
    mixed = np.einsum("hts,shk->thk", weights, v) * (sigmoid(gate) if is_next else 1)
    return mixed.reshape(T, -1) @ w("self_attn.o_proj.weight").T + (w("self_attn.o_proj.bias") if is_oss else 0.0)


def linear_attention(x: np.ndarray, w: Weights, fields: dict[str, Any]) -> np.ndarray:
    """The gated delta rule, one position after the other."""
    T, G, H = len(x), fields["linear_num_key_heads"], fields["linear_num_value_heads"]
    K, V, R = fields["linear_key_head_dim"], fields["linear_value_head_dim"], H // G
    parts = np.split((x @ w("linear_attn.in_proj_qkvz.weight").T).reshape(T, G, -1), [K, 2 * K, 2 * K + R * V], axis=-1)
    b, a = (
        part.reshape(T, H) for part in np.split((x @ w("linear_attn.in_proj_ba.weight").T).reshape(T, G, -1), 2, -1)
    )
    z = parts[3].reshape(T, H, V)
    channels = np.concatenate([part.reshape(T, -1) for part in parts[:3]], axis=-1)
    kernel = w("linear_attn.conv1d.weight")[:, 0]
    padded = np.concatenate([np.zeros((kernel.shape[1] - 1, channels.shape[1])), channels])
    channels = silu(sum(padded[i : i + T] * kernel[:, i] for i in range(kernel.shape[1])))
    q, k, v = np.split(channels, [G * K, 2 * G * K], axis=-1)
    q, k = (np.repeat(h.reshape(T, G, K), R, axis=1) for h in (q, k))
    q, k = (h / np.sqrt((h**2).sum(-1, keepdims=True) + 1e-6) for h in (q, k))
    v, beta = v.reshape(T, H, V), sigmoid(b)
    alpha = np.exp(-np.exp(w("linear_attn.A_log")) * np.logaddexp(0, a + w("linear_attn.dt_bias")))
    state, out = np.zeros((H, K, V)), np.zeros((T, H, V))
    for t in range(T):
        state = alpha[t, :, None, None] * state
        wrong = v[t] - np.einsum("hk,hkv->hv", k[t], state)
        state = state + np.einsum("h,hk,hv->hkv", beta[t], k[t], wrong)
        out[t] = np.einsum("hk,hkv->hv", q[t], state) / math.sqrt(K)
    gated = norm(out, w("linear_attn.norm.weight"), fields) * silu(z)
    return gated.reshape(T, -1) @ w("linear_attn.out_proj.weight").T


def experts(x: np.ndarray, w: Weights, fields: dict[str, Any]) -> np.ndarray:
    is_oss = fields["model_type"] == "gpt_oss"
    scores = x @ w("mlp.router.weight").T + w("mlp.router.bias") if is_oss else softmax(x @ w("mlp.gate.weight").T)
    out = np.zeros_like(x)
    for t, row in enumerate(x):
        chosen = np.argsort(-scores[t])[: fields["num_experts_per_tok"]]
        share = softmax(scores[t, chosen]) if is_oss else scores[t, chosen]
        share = share / share.sum() if fields.get("norm_topk_prob") else share
        for expert, weight in zip(chosen, share, strict=True):
            if is_oss:
                both = row @ w("mlp.experts.gate_up_proj")[expert] + w("mlp.experts.gate_up_proj_bias")[expert]
                gate, up = np.minimum(both[::2], 7), np.clip(both[1::2], -7, 7)
                down = (up + 1) * gate * sigmoid(1.702 * gate) @ w("mlp.experts.down_proj")[expert]
                out[t] += weight * (down + w("mlp.experts.down_proj_bias")[expert])
            else:
                out[t] += weight * feed_forward(row, w, f"mlp.experts.{expert}")
    if fields["model_type"] != "qwen3_next":
        return out
    return out + sigmoid(x @ w("mlp.shared_expert_gate.weight").T) * feed_forward(x, w, "mlp.shared_expert")


def feed_forward(x: np.ndarray, w: Weights, name: str) -> np.ndarray:
    gate, up, down = (w(f"{name}.{part}_proj.weight").T for part in ("gate", "up", "down"))
    return (silu(x @ gate) * (x @ up)) @ down


def logits_by_formula(folder: Path, ids: np.ndarray) -> np.ndarray:
    fields = json.loads((folder / "config.json").read_text())
    tensors = {name: tensor.astype(np.float64) for name, tensor in load_file(folder / "model.safetensors").items()}
    kinds = fields.get("layer_types", ["full_attention"] * fields["num_hidden_layers"])
    more = fields["model_type"] == "qwen3_next"  # 1 + w
    x = tensors["model.embed_tokens.weight"][ids]
    for i, kind in enumerate(kinds):
        w = lambda name, i=i: tensors[f"model.layers.{i}.{name}"]  # noqa: E731
        mixed = norm(x, w("input_layernorm.weight") + more, fields)
        x = x + (
            linear_attention(mixed, w, fields) if kind == "linear_attention" else attention(mixed, w, fields, kind)
        )
        x = x + experts(norm(x, w("post_attention_layernorm.weight") + more, fields), w, fields)
    head = tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"])
    return norm(x, tensors["model.norm.weight"] + more, fields) @ head.T


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_the_formulas_at_once_and_with_a_cache(name: str, folder: Callable[[str], Path]) -> None:
    expected = logits_by_formula(folder(name), IDS)
    model = opened(folder(name))
    graph, parameters = nnx.split(model)
    whole = jax.jit(lambda parameters, ids: nnx.merge(graph, parameters)(ids))(parameters, IDS)
    np.testing.assert_allclose(whole, expected, atol=1e-4, rtol=0)

    @jax.jit
    def step(parameters: Any, ids: Any, position: Any, last: Any, cache: Any) -> Any:
        return nnx.merge(graph, parameters).step(ids, position, last, cache)

    # A prompt of 29 tokens, padded to 32, then one after the other
    prompt = np.zeros((1, 32), np.int32)
    prompt[0, :29] = IDS[:29]
    got, cache = step(parameters, prompt, 0, 28, model.empty_cache(1))
    np.testing.assert_allclose(got[0], expected[28], atol=1e-4, rtol=0)
    for position in range(29, 36):
        got, cache = step(parameters, IDS[None, position : position + 1], position, 0, cache)
        np.testing.assert_allclose(got[0], expected[position], atol=1e-4, rtol=0)


def change(folder: Path, **fields: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("gpt-oss", {"quantization_config": {"quant_method": "gptq"}}, r"weights are quantized \(gptq\)"),
        ("Qwen3-Next", {"quantization_config": {"quant_method": "mxfp4"}}, r"weights are quantized \(mxfp4\)"),
        ("gpt-oss", {"swiglu_limit": 5.0}, "swiglu_limit=5.0 is not supported"),
        ("gpt-oss", {"layer_types": ["full_attention", "sliding_attention"]}, "every n-th layer"),
        ("Qwen 3 with experts", {"mlp_only_layers": [0]}, "all layers must have experts"),
        ("Qwen 3 with experts", {"decoder_sparse_step": 2}, "all layers must have experts"),
        ("Qwen 3 with experts", {"num_experts": 10**9}, "it has 1,000,000,000 experts"),
        ("Qwen 3 with experts", {"num_experts": 6}, r"experts\.5\.\w+\.weight is missing"),
        ("Qwen 3 with experts", {"shared_expert_intermediate_size": 8}, "may change what the model computes"),
        ("Qwen3-Next", {"layer_types": ["full_attention"] * 4}, "attention_every=1 leaves no layer"),
        ("Qwen3-Next", {"linear_value_head_dim": 10**7}, "it has 40,000,000 numbers of values"),
        ("Qwen3-Next", {"linear_num_value_heads": 3}, "key_heads=2 does not divide value_heads=3"),
    ],
)
def test_a_folder_that_says_otherwise_is_refused(
    name: str, fields: dict[str, Any], said: str, folder: Callable[[str], Path]
) -> None:
    path = folder(name)
    change(path, **fields)
    with pytest.raises(UsageError, match=said):
        read_config(path)


def test_what_transformers_leaves_out_may_be_missing_or_more(folder: Callable[[str], Path], tmp_path: Path) -> None:
    """Files have the fields of the first version, and a module that predicts two tokens ahead."""
    source = folder("Qwen3-Next")
    fields = json.loads((source / "config.json").read_text())
    before = read_config(source)
    tensors = load_file(source / "model.safetensors")
    (tmp_path / "next").mkdir()
    save_file(tensors | {"mtp.fc.weight": np.zeros((2, 2))}, tmp_path / "next" / "model.safetensors")
    for name in ("layer_types", "rope_parameters"):
        del fields[name]
    (tmp_path / "next" / "config.json").write_text(json.dumps(fields | {"full_attention_interval": 2}))
    read = read_config(tmp_path / "next")
    assert read == {name: value for name, value in before.items() if name != "tokenizer"}
