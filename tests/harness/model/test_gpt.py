"""The model in all its variants: causality, the cache, and a program that does not grow with depth."""

import functools
import math
from dataclasses import fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.config import Config
from harness.errors import UsageError
from harness.model import gpt
from harness.model.attention import cached_attention, causal_attention, is_hidden
from harness.model.general import GeneralGPT, make_gpt
from harness.model.gpt import GPT
from harness.model_config import GPTConfig
from harness.presets import PRESETS, preset
from tests.harness.conftest import TINY

pytestmark = pytest.mark.usefixtures("strict_dtypes")

SMALL = replace(TINY, vocab_size=97, context=13)
VARIANTS = {
    "pre, learned, tied": SMALL,
    "post, untied, bias": replace(
        SMALL, norm="post", tied_head=False, head_bias=True, init="xavier", activation="relu"
    ),
    "none, untied": replace(SMALL, norm="none", tied_head=False),
    "rope": replace(SMALL, positions="rope"),
    "modern": replace(
        SMALL,
        d_model=32,
        num_heads=4,
        num_kv_heads=2,
        norm_kind="rmsnorm",
        activation="swiglu",
        bias=False,
        positions="rope",
        rope_base=500.0,
    ),
    "window, wide heads, norms of queries and keys": replace(
        SMALL,
        num_kv_heads=1,
        head_width=6,
        window=4,
        qk_norm="head",
        attention_bias="qkv",
        positions="rope",
        norm_kind="rmsnorm",
        bias=False,
        rotary_fraction=0.4,
        rope_scaling="llama3:4:1:3:8",
    ),
    "layers of two kinds": replace(
        SMALL,
        num_layers=3,
        num_kv_heads=1,
        window=4,
        full_every=2,
        qk_norm="head",
        positions="rope",
        window_rope_base=50.0,
        rope_scaling="linear:2",
        norm="both",
        norm_kind="rmsnorm_1",
        activation="geglu",
        bias=False,
        scaled_embedding=True,
    ),
    "parallel, exact": replace(SMALL, parallel_residual=True, activation="gelu_exact"),
    "branch": replace(SMALL, norm="branch", qk_norm="all", positions="rope", rope_scaling="linear:2"),
    "latent attention": replace(
        SMALL, mixer="latent_attention", d_latent=10, d_rope=6, num_heads=4, positions="rope", window=9
    ),
    "state space": replace(SMALL, mixer="state_space", d_state=3, positions="none"),
    "state space and attention": replace(
        SMALL,
        num_layers=4,
        mixer="state_space",
        attention_every=2,
        d_state=3,
        num_kv_heads=1,
        qk_norm="head",
        positions="rope",
    ),
    "sinks and experts": replace(
        SMALL,
        num_layers=3,
        num_kv_heads=2,
        window=4,
        full_every=2,
        sinks=True,
        positions="rope",
        activation="swiglu",
        experts=5,
        d_shared=7,
    ),
    "gated delta and attention": replace(
        SMALL,
        num_layers=4,
        mixer="gated_delta",
        attention_every=2,
        key_heads=2,
        value_heads=4,
        key_width=6,
        value_width=5,
        num_kv_heads=1,
        attention_gate=True,
        positions="rope",
    ),
    "no positions": replace(SMALL, positions="none"),
    "no blocks": replace(SMALL, num_layers=0, norm="none", positions="none", tied_head=False),
}
variants = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
IDS = jax.random.randint(jax.random.key(0), (2, 13), 0, 97)


def filled(config: Config) -> GPT:
    """A model with random parameters, so that no initial zeros or ones hide an error."""
    model = nnx.eval_shape(lambda: make_gpt(config, nnx.Rngs(0)))  # initial parameters take long to compile
    leaves, tree = jax.tree.flatten(nnx.state(model))
    rng = np.random.default_rng(1)
    nnx.update(
        model, jax.tree.unflatten(tree, [jnp.asarray(rng.normal(0, 0.3, leaf.shape), leaf.dtype) for leaf in leaves])
    )
    return model


@nnx.jit  # operation by operation, each variant would compile dozens of programs
def logits_of(model: GPT, ids: jax.Array) -> jax.Array:
    """What the model returns."""
    return model(ids)


@nnx.jit
def step_of(model: GPT, *given: Any) -> Any:
    """What a step of the model returns."""
    return model.step(*given)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_the_decoder_of_the_course(name: str) -> None:
    assert type(make_gpt(replace(preset(name).model, vocab_size=97, num_layers=0, context=4), nnx.Rngs(0))) is GPT


@pytest.mark.parametrize(
    "setting",
    [
        {"qk_norm": "head"}, {"norm": "branch"}, {"norm": "both"}, {"norm_kind": "rmsnorm_1"},
        {"attention_bias": "none"}, {"parallel_residual": True}, {"scaled_embedding": True}, {"mixer": "state_space"},
        {"positions": "rope", "rotary_fraction": 0.5}, {"window": 4, "full_every": 2},
    ],
)  # fmt: skip
def test_other_settings_choose_the_general_decoder_and_that_of_the_course_refuses_them(setting: dict[str, Any]) -> None:
    config = replace(SMALL, **{"positions": "none", **setting})
    assert type(nnx.eval_shape(lambda: make_gpt(config, nnx.Rngs(0)))) is GeneralGPT
    with pytest.raises(ValueError, match="GPT lacks some of these settings"):
        GPT(config, nnx.Rngs(0))


def test_the_decoder_of_the_course_reads_its_own_settings_alone() -> None:
    settings = {entry.name: getattr(VARIANTS["modern"], entry.name) for entry in fields(GPTConfig)}
    model = GPT(GPTConfig(**settings), nnx.Rngs(0))
    np.testing.assert_array_equal(logits_of(model, IDS), logits_of(GPT(VARIANTS["modern"], nnx.Rngs(0)), IDS))


@pytest.mark.parametrize("name", ["pre, learned, tied", "post, untied, bias", "none, untied", "modern"])
def test_both_decoders_are_one_model_where_both_have_the_settings(name: str) -> None:
    model, general = filled(VARIANTS[name]), nnx.eval_shape(lambda: GeneralGPT(VARIANTS[name], nnx.Rngs(0)))
    nnx.update(general, nnx.state(model))
    np.testing.assert_array_equal(logits_of(general, IDS), logits_of(model, IDS))


@variants
def test_no_position_sees_a_later_one(config: Config) -> None:
    model = filled(config)
    logits = logits_of(model, IDS)
    changed = logits_of(model, IDS.at[:, 7].add(1) % 97)
    np.testing.assert_array_equal(logits[:, :7], changed[:, :7])
    assert (logits[:, 7] != changed[:, 7]).any()


@variants
def test_the_cache_gives_the_same_logits(config: Config) -> None:
    model = filled(config)
    expected = logits_of(model, IDS)
    cache = model.empty_cache(2)
    # The prompt is padded, as in sampling. Later positions must not attend to the padding.
    logits, cache = step_of(model, IDS.at[:, 5:8].set(0)[:, :8], jnp.int32(0), jnp.int32(4), cache)
    np.testing.assert_allclose(logits, expected[:, 4], rtol=1e-5, atol=1e-5)  # another order of summation
    for position in range(5, 13):
        logits, cache = step_of(model, IDS[:, position : position + 1], jnp.int32(position), jnp.int32(0), cache)
        np.testing.assert_allclose(logits, expected[:, position], rtol=1e-5, atol=1e-5)


@variants
def test_one_story_gives_the_same_logits_as_in_a_batch(config: Config) -> None:
    model = filled(config)
    np.testing.assert_allclose(logits_of(model, IDS[1]), logits_of(model, IDS)[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["pocket", "modern", "tutorial", "six-by-192", "a-to-a", "gpu-10m", "gpt2-small"])
def test_the_initial_loss_is_the_log_of_the_vocabulary(name: str) -> None:
    config = replace(preset(name), vocab_size=1000, context=32, d_model=48, num_heads=4, d_ff=64, dtype="float32")
    logits = GPT(config, nnx.Rngs(0))(jax.random.randint(jax.random.key(0), (4, 32), 0, 1000))
    losses = -jax.nn.log_softmax(logits)[..., 7]
    # On normalized activations, an untied Xavier head has logits with a standard deviation of about 1/3. Vectors of
    # length one that are also the embedding have one of 1, and a token's own logit is larger.
    assert abs(losses.mean() / math.log(1000) - 1) < {"tutorial": 0.1, "modern": 0.2}.get(name, 0.02)


def test_the_program_does_not_grow_with_depth() -> None:
    def size(layers: int) -> int:
        config = replace(SMALL, num_layers=layers)
        graph, parameters = nnx.split(GPT(config, nnx.Rngs(0)))
        gradient = jax.grad(lambda p: nnx.merge(graph, p).hidden(IDS).sum())
        return len(jax.jit(gradient).lower(parameters).as_text().splitlines())

    assert size(9) <= size(3) + 4


@pytest.mark.thorough
def test_every_so_many_layers_has_no_window() -> None:
    """The gradient of the last position reaches the first one only through a layer without a window."""
    config = replace(VARIANTS["layers of two kinds"], num_layers=2, context=13)

    def reached(**changes: int) -> int:
        model = filled(replace(config, **changes))
        ids = jnp.arange(13)  # each has a row of its own
        gradient = nnx.grad(lambda model: model.hidden(ids[None])[0, -1].sum())(model)
        return int(jnp.sum(jnp.any(gradient.embed[...][:13] != 0, axis=1)))

    assert reached(full_every=0, window_rope_base=0.0) == 7  # two windows of four tokens
    assert reached(full_every=2) == reached(full_every=1) == 13
    assert reached(full_every=3) == 7


def test_layers_do_not_share_weights() -> None:
    kernel = GPT(replace(SMALL, num_layers=3), nnx.Rngs(0)).blocks.ff1.kernel[...]
    assert kernel.shape == (3, 16, 24)
    assert (kernel[0] != kernel[1]).any()
    assert (kernel[1] != kernel[2]).any()


@pytest.mark.parametrize("layers", ["remat", "a GPU's loop", "a GPU's, written out"])
def test_what_is_computed_again_does_not_change_gradients(layers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def gradient(config: Config):
        graph, parameters = nnx.split(filled(config))
        return jax.jit(jax.grad(lambda p: nnx.merge(graph, p).hidden(IDS).sum()))(parameters)

    kept = gradient(SMALL)
    if layers != "remat":
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        monkeypatch.setattr(gpt, "MOST_UNROLLED", {"gpu": 0 if "loop" in layers else 12})
    again = gradient(replace(SMALL, remat=layers == "remat"))
    for a, b in zip(jax.tree.leaves(kept), jax.tree.leaves(again), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_bfloat16_applies_to_the_computation_only() -> None:
    model = filled(replace(SMALL, dtype="bfloat16"))
    assert {leaf.dtype for leaf in jax.tree.leaves(nnx.state(model))} == {jnp.dtype("float32")}
    with jax.numpy_dtype_promotion("standard"):  # Flax's LayerNorm promotes its float32 scale
        assert model.hidden(IDS).dtype == jnp.bfloat16
        logits = model(IDS)
    assert logits.dtype == jnp.float32
    exact = filled(SMALL)(IDS)
    assert 1e-4 < abs(logits - exact).max() < 0.1 * abs(exact).max()  # 8 bits of mantissa over a few layers


def test_a_key_enables_dropout() -> None:
    model = filled(replace(SMALL, dropout=0.5))
    np.testing.assert_array_equal(model.hidden(IDS), model.hidden(IDS))
    one, two = (model.hidden(IDS, jax.random.key(seed)) for seed in (1, 2))
    assert (one != two).any()
    np.testing.assert_array_equal(one, model.hidden(IDS, jax.random.key(1)))


@pytest.mark.parametrize("window", [0, 1, 7, 90])
@pytest.mark.parametrize("length", [11, 150])  # one tile, and three, the last of which is not full
def test_attention_and_its_gradients_equal_those_of_jax_nn(length: int, window: int) -> None:
    q, k, v, weights = jax.random.normal(jax.random.key(0), (4, 2, length, 3, 8))

    def of(attention):
        return jax.jit(jax.value_and_grad(lambda *qkv: jnp.sum(attention(*qkv) * weights), argnums=(0, 1, 2)))(q, k, v)

    own = of(functools.partial(causal_attention, window=window))
    local = (window - 1, 0) if window else None
    reference = of(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=local))
    for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(reference), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("width", "dtype"), [(136, jnp.bfloat16), (8, jnp.float32), (8, jnp.bfloat16)])
def test_a_gpu_without_a_fitting_kernel_uses_tiles(
    width: int, dtype: jnp.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k, v = jax.random.normal(jax.random.key(0), (3, 2, 11, 3, width), dtype)
    expected = causal_attention(q, k, v)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")  # this CPU has no compute capability
    np.testing.assert_array_equal(causal_attention(q, k, v), expected)


def test_attention_stores_no_residual_of_the_size_of_the_scores() -> None:
    q, k, v = jax.random.normal(jax.random.key(0), (3, 2, 64, 3, 8))
    _, pullback = jax.vjp(causal_attention, q, k, v)
    assert max(leaf.size for leaf in jax.tree.leaves(pullback)) < 2 * 3 * 64 * 64


@pytest.mark.parametrize("window", [0, 5])
def test_sinks_take_a_share_of_each_head_and_learn(window: int) -> None:
    """As one more key of each head, which all positions see and whose value is 0; in tiles, and in a cache."""
    T, H, K = 150, 2, 4
    rng = np.random.default_rng(0)
    q, k, v, out = (jnp.asarray(rng.normal(size=(1, T, H, K)), jnp.float32) for _ in range(4))
    sinks = jnp.array([0.7, -1.0])

    def plain(q: Any, k: Any, v: Any, sinks: Any) -> Any:
        scores = jnp.einsum("bthk,bshk->bhts", q, k) / K**0.5
        places = jnp.arange(T)
        hidden = is_hidden(places[:, None], places[None, :], window)
        scores = jnp.where(hidden, -jnp.inf, scores)
        extra = jnp.broadcast_to(sinks[None, :, None, None], (1, H, T, 1))
        weights = jax.nn.softmax(jnp.concatenate([scores, extra], axis=-1))[..., :T]
        return jnp.einsum("bhts,bshk->bthk", weights, v)

    own = jax.jit(lambda *given: jax.vjp(lambda q, k, v, s: causal_attention(q, k, v, window, None, s), *given)[1](out))
    expected, pullback = jax.vjp(plain, q, k, v, sinks)
    for got, wanted in zip(own(q, k, v, sinks), pullback(out), strict=True):
        np.testing.assert_allclose(got, wanted, atol=2e-5)
    np.testing.assert_allclose(causal_attention(q, k, v, window, None, sinks), expected, atol=2e-5)
    cached = cached_attention(q, k.swapaxes(1, 2), v.swapaxes(1, 2), jnp.arange(T), window, sinks)
    np.testing.assert_allclose(cached, expected, atol=2e-5)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"head_width": 5}, "positions=rope rotates pairs, so it needs an even width; of each head, it rotates 5."),
        ({"rotary_fraction": 0.1}, "of each head, it rotates 0."),
        ({"num_heads": 5}, "num_heads=5 does not divide d_model=16; choose one that does, or set head_width."),
        (
            {"positions": "none", "rope_scaling": "linear:2"},
            "positions=none has no rotary_fraction and no rope_scaling",
        ),
        (
            {"rope_scaling": "llama3:8:4:1:64"},
            "rope_scaling=llama3:8:4:1:64 is not valid; write none, linear:FACTOR, llama3",
        ),
        ({"rope_scaling": "linear:0"}, "rope_scaling=linear:0 is not valid"),
        ({"rope_scaling": "linear:fast"}, "rope_scaling=linear:fast is not valid"),
        ({"rope_scaling": "yarn:2"}, "rope_scaling=yarn:2 is not valid"),
        ({"rope_scaling": "yarn:2:1:32:64:1"}, "rope_scaling=yarn:2:1:32:64:1 is not valid"),
        (
            {"mixer": "latent_attention", "d_latent": 8},
            "mixer=latent_attention needs positions=rope, and widths of what it caches",
        ),
        ({"mixer": "latent_attention", "d_latent": 8, "d_rope": 4, "positions": "learned"}, "needs positions=rope"),
        (
            {"mixer": "latent_attention", "d_latent": 8, "d_rope": 3},
            "positions=rope rotates pairs, so it needs an even width; of each",
        ),
        (
            {"mixer": "latent_attention", "d_latent": 8, "d_rope": 4, "rope_scaling": "linear:2"},
            "mixer=latent_attention has no rope_scaling; mixer=attention has it.",
        ),
        ({"mixer": "state_space"}, "mixer=state_space has no heads that positions=rope could rotate"),
        (
            {"mixer": "state_space", "window": 4},
            "mixer=state_space has no window; mixer=attention or latent_attention has it.",
        ),
        ({"d_state": 4}, "mixer=attention has no d_state; mixer=state_space has it."),
        (
            {"attention_every": 2},
            "mixer=attention has no attention_every; mixer=state_space or gated_delta has it.",
        ),
        ({"mixer": "gated_delta"}, "mixer=gated_delta has no heads that positions=rope could rotate"),
        (
            {"mixer": "gated_delta", "positions": "none", "key_heads": 3, "value_heads": 4},
            "key_heads=3 does not divide value_heads=4.",
        ),
        ({"attention_gate": True}, "attention_gate needs num_kv_heads, the heads of keys and values."),
        ({"d_shared": 4}, "d_shared is a setting of experts; set experts, too."),
        (
            {"experts": 2, "experts_per_token": 3, "activation": "swiglu"},
            "experts_per_token=3 is not valid; there are only experts=2.",
        ),
        (
            {"experts": 2, "activation": "relu"},
            "activation=relu is not valid with experts; use activation=swiglu.",
        ),
        (
            {"experts": 2, "activation": "swiglu", "shared_gate": True},
            "shared_gate needs a shared expert; set d_shared.",
        ),
        ({"mixer": "state_space", "attention_every": 1}, "attention_every=1 leaves no layer to mixer=state_space"),
        ({"mixer": "state_space", "attention_every": 3}, "num_layers=2 is no multiple of attention_every=3."),
        (
            {"mixer": "state_space", "attention_every": 2, "window": 4, "full_every": 2},
            "full_every is not valid with attention_every, where all layers with attention are alike.",
        ),
        ({"norm": "post", "parallel_residual": True}, "parallel_residual needs norm=pre; norm=post is something else."),
    ],
)
def test_settings_that_conflict_are_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        replace(SMALL, **{"positions": "rope", **changes})
    assert sentence in str(raised.value)
