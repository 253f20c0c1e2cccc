"""The pieces that are a model, a layer of one, or continue a text with one."""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from harness.config import Config
from harness.hugging_face.layouts import GPT2
from harness.pieces import adapt
from harness.pieces.smoke_tests import (
    IDS,
    SIZES,
    D,
    F,
    H,
    L,
    SmokeTestError,
    T,
    V,
    X,
    check_output,
    filled,
    run_cached_layer,
    run_module,
)
from harness.pieces.spec import PieceSpec, Setup, Use, only, piece, through, unless_done_by, unless_segments
from harness.presets import is_imported


def of_llamas_kind(config: Config) -> bool:
    """Whether the parts of problems 37 to 39 can be those of the model: RMSNorm before each part, SwiGLU, rotary
    positions."""
    kinds = (config.norm, config.norm_kind, config.activation, config.positions)
    return kinds == ("pre", "rmsnorm", "swiglu", "rope") and not config.parallel_residual


def _layer(
    name: str,
    module: str,
    use: Callable[[Setup], Use],
    sizes: Callable[[Any], tuple[Any, ...]],
    wrap: Callable[[Any, Any], Any] = lambda layer, config: adapt.BatchedLayer(layer),
    smoke_test: Callable[[Callable[[Any], Any]], None] = run_module,
) -> PieceSpec:
    """A class of layers of the harness's GPT. `sizes` are its arguments for settings; `wrap` adapts a layer."""

    def adapter(config: Config, layer: Any) -> Any:
        return lambda config, rngs: wrap(layer(*sizes(config), rngs=rngs), config)

    return PieceSpec(
        name, module, lambda layer: smoke_test(lambda rngs: layer(*sizes(SIZES), rngs=rngs)), adapter=adapter, use=use
    )


def _model(name: str, module: str, use: Callable[[Setup], Use], adapter: Callable[[Any, Any], Any]) -> PieceSpec:
    """A class of whole models."""

    def smoke_test(model: Any) -> None:
        run_module(adapter(SIZES, model), IDS, (T, V))

    return PieceSpec(name, module, smoke_test, adapter=adapter, use=use)


def _in_first_model(run: Setup) -> Use:
    """The settings choose between the models of problems 06 and 40."""
    config = run.config
    is_other = of_llamas_kind(config) or is_imported(config) or config.experts > 0
    is_first = config.mixer == "attention" and not is_other and not config.mtp
    when = "with mixer=attention, unless the model is of Llama's kind, in Hugging Face's format, or has experts or mtp"
    return unless_segments(run, only(is_first, when))


def _through_mini_gpt(run: Setup) -> Use:
    return through("MiniGPT", run, _in_first_model(run))


embed = _layer(
    "TokenAndPositionEmbed",
    "p01_token_embedding",
    _through_mini_gpt,
    lambda sizes: (sizes.vocab_size, sizes.context, sizes.d_model),
    lambda layer, config: adapt.BatchedEmbed(layer),
    lambda make: run_module(make, IDS),
)
causal_mha = _layer("CausalMHA", "p03_causal_mha", _through_mini_gpt, lambda sizes: (sizes.d_model, sizes.num_heads))
gpt_block = _layer(
    "GPTBlock", "p05_gpt_block", _through_mini_gpt, lambda sizes: (sizes.d_model, sizes.num_heads, sizes.d_ff)
)
mini_gpt = _model("MiniGPT", "p06_mini_gpt", _in_first_model, adapt.model_factory)


def _filled_gpt(mini_gpt: Any) -> Any:
    return filled(adapt.model_factory(SIZES, mini_gpt))


@piece("p28_hf_export", needs=("MiniGPT",), use=lambda run: Use(True, "by `harness export`"))
def export_gpt2(export: Any, mini_gpt: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        export(_filled_gpt(mini_gpt), SIZES.num_heads, folder)
        if missing := [file for file in ("model.safetensors", "config.json") if not Path(folder, file).exists()]:
            raise SmokeTestError(f"did not write {missing[0]}.")


@piece("p29_sampling", adapter=lambda config, distribution: adapt.token_chooser(distribution))
def sampling_distribution(distribution: Any) -> None:
    probabilities = jax.jit(lambda logits: distribution(logits, 0.8, 0, 0.9))(jnp.arange(float(V)))
    check_output(probabilities, (V,), f"{V} logits")


@piece(
    "p29_sampling",
    use=lambda run: only(run.config.mixer == "attention", "with mixer=attention, if there is no decode_step"),
)
def generate(generate: Any) -> None:
    def model(ids_T: Any) -> Any:  # predicts token + 1; V - 1 is the stop token
        return 50 * jax.nn.one_hot(jnp.minimum(ids_T + 1, V - 1), V)

    tokens = np.asarray(generate(model, jnp.array([V - 4]), 9, T, V - 1, jax.random.key(0), 1.0, 0, 1.0))
    if list(tokens) != [V - 3, V - 2]:
        raise SmokeTestError("did not return exactly the two tokens before the stop token.")


@piece("p30_kv_cache", needs=("empty_cache", "MiniGPT"))
def decode_step(step: Any, empty_cache: Any, mini_gpt: Any) -> None:
    """One token after another must give the logits of the whole."""
    model = _filled_gpt(mini_gpt)
    graph, parameters = nnx.split(model)
    cache, rows = empty_cache(model, T), []
    traced = jax.jit(lambda parameters, cache, token: step(nnx.merge(graph, parameters), cache, token))
    for token in IDS:
        logits, cache = traced(parameters, cache, jnp.int32(token))
        rows.append(check_output(logits, (V,), "one token"))
    expected = jax.jit(lambda parameters, ids: nnx.merge(graph, parameters)(ids))(parameters, IDS)
    if not np.allclose(np.stack(rows), expected, rtol=1e-3, atol=1e-3):
        raise SmokeTestError("returned logits that differ from those of MiniGPT for the same ids.")


@piece(
    "p31_lora",
    name="LoRALinear",
    needs=("merge",),
    use=lambda run: only(run.config.lora_rank > 0, "if lora_rank is more than 0"),
)
def lora_linear(lora: Any, merge: Any) -> None:
    base, x = nnx.Linear(D, F, rngs=nnx.Rngs(0)), jnp.asarray(X)
    layer = lora(base, 2, 2.0, nnx.Rngs(0))
    check_output(layer(x), (T, F), f"float32[{T}, {D}]")
    if not np.allclose(layer(x), base(x), atol=1e-5):
        raise SmokeTestError("changed the output of the base layer before any training.")
    check_output(merge(layer)(x), (T, F), f"float32[{T}, {D}]", "merge")


def _has_unscaled_rope(config: Config) -> bool:
    return of_llamas_kind(config) and config.rope_scaling == "none" and not config.window_rope_base


def _has_gqa(config: Config) -> bool:
    """Whether attention is that of problem 39: without biases, norms of its own, a window, or heads of another
    width."""
    biases = config.model.qkv_bias or config.model.out_bias
    others = config.qk_norm != "none" or config.window or config.head_width or config.rotary_fraction < 1
    others = others or config.sinks or config.attention_gate
    return config.mixer == "attention" and _has_unscaled_rope(config) and not biases and not others


def _through_modern_gpt(is_used: Callable[[Config], bool], when: str) -> Callable[[Setup], Use]:
    def use(run: Setup) -> Use:
        own = only(is_used(run.config), f"if the model is of Llama's kind{when}")
        return through("MultiTokenGPT", run, through("ModernGPT", run, own))

    return use


@piece(
    "p37_rope",
    adapter=lambda config, rope: adapt.rotation(rope),
    use=_through_modern_gpt(_has_unscaled_rope, ", without rope_scaling"),
)
def rope(rope: Any) -> None:
    given = jnp.asarray(X).reshape(T, H, D // H)
    rotated = jax.jit(rope, static_argnums=2)(given, jnp.arange(T), 1e4)
    check_output(rotated, given.shape, f"float32[{T}, {H}, {D // H}]")


# The harness's GPT gives a norm the rows of all stories as those of one, (N, D).
rms_norm = _layer(
    "RMSNorm",
    "p38_rms_norm_swiglu",
    _through_modern_gpt(of_llamas_kind, ""),
    lambda sizes: (sizes.d_model, sizes.norm_epsilon),
    lambda layer, config: layer,
)
swiglu = _layer(
    "SwiGLU",
    "p38_rms_norm_swiglu",
    _through_modern_gpt(
        lambda config: of_llamas_kind(config) and not config.bias and not config.experts,
        ", with bias=false and without experts",
    ),
    lambda sizes: (sizes.d_model, sizes.d_ff),
    lambda layer, config: layer,
)


def _gqa(run: Setup) -> Use:
    without = ", and its attention has no biases, norms, window or head_width"
    return unless_segments(run, _through_modern_gpt(_has_gqa, without)(run))


gqa = _layer(
    "GQA",
    "p39_grouped_query_attention",
    _gqa,
    lambda sizes: (sizes.d_model, sizes.num_heads, sizes.kv_heads, sizes.rope_base),
)


def _modern_gpt(run: Setup, mtp: int) -> Use:
    """The model of problem 40, or with `mtp` that of problem 75."""
    config = run.config
    others = config.bias or not config.tied_head or config.head_bias or config.scaled_embedding or config.experts
    is_modern = _has_gqa(config) and not others
    when = "if the model is that of the preset modern, of any size"
    return unless_segments(run, only(is_modern and config.mtp == mtp, when + (", with mtp=1" if mtp else "")))


modern_gpt = _model("ModernGPT", "p40_modern_gpt", functools.partial(_modern_gpt, mtp=0), adapt.modern_model_factory)
multi_token_gpt = _model(
    "MultiTokenGPT", "p75_multi_token", functools.partial(_modern_gpt, mtp=1), adapt.multi_token_model_factory
)


def _gpt2(run: Setup) -> Use:
    config = run.config
    has_layout = all(getattr(config, name) == values[0] for name, values in GPT2.has.items())
    is_gpt2 = is_imported(config) and has_layout and config.tied_head and config.norm_epsilon == 1e-5 and not config.mtp
    return unless_segments(run, only(is_gpt2, "if the run starts from a GPT-2 in Hugging Face's format"))


@piece("p41_load_gpt2", name="GPT2", needs=("load_gpt2",), adapter=adapt.model_factory, use=_gpt2)
def gpt2(gpt2: Any, load: Any) -> None:
    """The model, and a file of ones that must reach each parameter."""
    build = adapt.model_factory(SIZES, gpt2)
    run_module(build, IDS, (T, V))
    model = filled(build)
    shapes = {
        "ln_1": (D,),
        "attn.c_attn": (D, 3 * D),
        "attn.c_proj": (D, D),
        "ln_2": (D,),
        "mlp.c_fc": (D, F),
        "mlp.c_proj": (F, D),
    }
    weights = {f"h.{i}.{name}": shape for i in range(L) for name, shape in shapes.items()} | {"ln_f": (D,)}
    tensors = {
        f"transformer.{name}.weight": shape for name, shape in (weights | {"wte": (V, D), "wpe": (T + 1, D)}).items()
    }
    tensors |= {f"transformer.{name}.bias": shape[-1:] for name, shape in weights.items()}
    load({name: np.ones(shape, np.float32) for name, shape in tensors.items()}, model)
    if any(np.any(np.asarray(leaf) != 1) for leaf in jax.tree.leaves(nnx.state(model, nnx.Param))):
        raise SmokeTestError("did not copy every array of a file of ones.", "load_gpt2")


def _has_switches(config: Config) -> bool:
    """Whether attention is that of problem 71, in all layers or in those with and without a window."""
    has_norm = config.norm_kind in ("rmsnorm", "rmsnorm_1") and config.qk_norm != "all"
    rotates = config.positions == "rope" and config.rope_scaling == "none" and config.rotary_fraction == 1
    others = config.attention_gate or config.qkv_bias != config.out_bias
    return config.mixer == "attention" and has_norm and rotates and not others


def _attention(run: Setup) -> Use:
    when = "if attention has rotary positions without rope_scaling, RMSNorm for its norms, and no gate"
    use = only(_has_switches(run.config), when)
    for other in ("MiniGPT", "GPTBlock", "CausalMHA", "ModernGPT", "MultiTokenGPT", "GQA"):
        use = unless_done_by(other, run, use) if use.is_used else use
    return unless_segments(run, use)


@piece(
    "p71_attention_switches",
    name="Attention",
    adapter=lambda config, attention: lambda config, rngs: adapt.SwitchedAttention(attention, config, rngs),
    use=_attention,
)
def switched_attention(attention: Any) -> None:
    """With all switches."""
    plain = {"scale": 0.5, "norm_epsilon": 1e-6, "pairing": "halves", "chunk": None}
    on = {"bias": True, "qk_norm": "1 + w", "sinks": True, "rope_base": 1e4, "window": 3}
    run_module(functools.partial(_with_switches, attention, plain | on))


def _with_switches(attention: Any, switches: dict[str, Any], rngs: nnx.Rngs) -> nnx.Module:
    module: nnx.Module = attention(d_model=D, num_heads=2 * H, num_kv_heads=H, head_dim=4, **switches, rngs=rngs)
    return module


# Models and parts of models without a cache of keys and values
WITHOUT_CACHE = (
    "MiniGPT",
    "GPT2",
    "ModernGPT",
    "MultiTokenGPT",
    "GPTBlock",
    "CausalMHA",
    "GQA",
    "TokenAndPositionEmbed",
    "Attention",
)


def _with_cache(run: Setup, use: Use) -> Use:
    other = next(filter(run.uses, WITHOUT_CACHE), None)
    if use.is_used and other:
        return Use(False, f"it does not work with your {other}, which has no cache of keys and values")
    return use


@piece(
    "p63_paged_cache",
    name="BlockManager",
    use=lambda run: _with_cache(run, only(run.config.cache_blocks > 0, "with cache_blocks")),
)
def block_manager(manager_type: Any) -> None:
    """The sketch of the problem's page: a block that two sequences share, copied when one of them writes."""
    manager = manager_type(4, 2)
    manager.start("a", 3)
    manager.fork("a", "b")
    got = [manager.append(name) for name in ("b", "a", "a")]
    if [*map(tuple, got)] != [(2, 1, 1), (1, 1, -1), (3, 0, -1)]:
        raise SmokeTestError(f"returned {got!r:.80} from `append` for the three tokens of the page.")
    try:
        manager.append("b")
    except MemoryError:
        pass
    else:
        raise SmokeTestError("raised no MemoryError when a token needed a block and none was free.")
    tables, free = [[*manager.table(name)] for name in "ab"], manager.free_blocks()
    manager.free("a")
    if (tables, free, manager.free_blocks()) != ([[0, 1, 3], [0, 2]], 0, 2):
        raise SmokeTestError(f"has the tables {tables!r:.80}, or numbers of free blocks, of other sequences.")


def _paged_attention(run: Setup) -> Use:
    fits = run.config.cache_blocks > 0 and not run.config.window and not run.config.sinks
    return _with_cache(run, only(fits, "with cache_blocks, if there is no window"))


@piece("p63_paged_cache", adapter=lambda config, attention: adapt.paged_attention(attention), use=_paged_attention)
def paged_attention(attention: Any) -> None:
    """Three tokens in two blocks of two, for two queries, against plain attention."""
    rng = np.random.default_rng(0)
    keys, values = rng.normal(size=(2, 3, 2, H, D)).astype(np.float32)
    q, table = rng.normal(size=(2, H, D)).astype(np.float32), np.array([2, 0, -1], np.int32)
    each = jax.vmap(attention, in_axes=(0, None, None, None, 0))
    out = jax.jit(each)(q, keys, values, table, np.array([3, 3], np.int32))
    given = f"float32[{H}, {D}], three tokens in blocks of two"
    check_output(out, q.shape, given)
    k, v = (x[[2, 0]].reshape(4, H, D)[:3] for x in (keys, values))
    weights = jax.nn.softmax(np.einsum("nhk,thk->nht", q, k) / D**0.5)
    if not np.allclose(out, np.einsum("nht,thk->nhk", weights, v), rtol=1e-3, atol=1e-3):
        raise SmokeTestError(f"returned other numbers than attention to these tokens for {given}.")


def _latent_attention(run: Setup) -> Use:
    fits = run.config.mixer == "latent_attention" and not run.config.window and not run.config.head_width
    return only(fits, "with mixer=latent_attention, without window and head_width")


latent_attention = _layer(
    "LatentAttention",
    "p66_latent_attention",
    _latent_attention,
    lambda sizes: (sizes.d_model, sizes.num_heads, sizes.d_latent, sizes.d_rope, sizes.rope_base),
    adapt.CachedLayer,
    run_cached_layer,
)
selective_ssm = _layer(
    "SelectiveSSM",
    "p67_state_space",
    lambda run: only(run.config.mixer == "state_space", "with mixer=state_space"),
    lambda sizes: (sizes.d_model, sizes.d_state),
    adapt.CachedLayer,
    run_cached_layer,
)


@piece(
    "p74_gated_delta",
    adapter=lambda config, rule: adapt.delta_rule(rule),
    use=lambda run: only(run.config.mixer == "gated_delta", "with mixer=gated_delta"),
)
def delta_rule(rule: Any) -> None:
    """Two chunks, the second from the state after the first, must give what both give together."""
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, T, 4)).astype(np.float32)
    v, state = rng.normal(size=(T, 3)).astype(np.float32), np.zeros((4, 3), np.float32)
    beta, log_alpha = rng.uniform(0.2, 0.8, T).astype(np.float32), -rng.uniform(0.1, 0.9, T).astype(np.float32)
    run = jax.jit(rule, static_argnums=6)
    given = (q, k, v, beta, log_alpha)
    out, last = run(*given, state, T)
    check_output(out, (T, 3), f"{T} positions of queries and keys of 4 numbers and values of 3")
    check_output(last, (4, 3), "the state after them")
    _, between = run(*(x[:2] for x in given), state, 2)
    rest, again = run(*(x[2:] for x in given), between, 2)
    if not (np.allclose(rest, out[2:], atol=1e-3) and np.allclose(again, last, atol=1e-3)):
        raise SmokeTestError("returned other numbers from the state after two positions than for all at once.")


def _moe(run: Setup) -> Use:
    config = run.config
    others = config.bias or config.shared_gate or config.clamped_swiglu or not config.d_shared
    when = "with experts, router=sigmoid, d_shared and bias=false, without shared_gate"
    return only(config.has_router_bias and not others, when)


@piece("p73_experts_today", use=_moe)
def moe(moe: Any) -> None:
    """Five rows, three experts of which each row uses two, and a shared one."""
    rng = np.random.default_rng(0)
    shapes = (D, 3), (3, D, 2 * F), (3, F, D), (D, 2 * F), (F, D)
    router, *kernels = (rng.normal(0, 0.3, shape).astype(np.float32) for shape in shapes)
    out, counts = jax.jit(moe, static_argnums=3)(X, router, np.zeros(3, np.float32), 2, *kernels)
    check_output(out, (T, D), f"float32[{T}, {D}] and 3 experts")
    if np.shape(counts) != (3,) or np.sum(counts) != 2 * T:
        raise SmokeTestError(f"returned {counts!r:.60} as counts; 3 experts have {2 * T} choices here.")


@piece(
    "p73_experts_today",
    use=lambda run: only(run.config.has_router_bias, "with experts and router=sigmoid"),
)
def update_bias(update: Any) -> None:
    moved = check_output(update(jnp.zeros(3), jnp.array([4.0, 1.0, 1.0]), 0.5), (3,), "the counts of 3 experts")
    if not np.allclose(moved, [-0.5, 0.5, 0.5]):
        raise SmokeTestError(f"returned {moved!r:.60} for a bias of zeros, counts of 4, 1 and 1, and a rate of 0.5.")


# What a model in Hugging Face's format may take from a workspace, although it is not of Llama's kind
OF_TODAY = (switched_attention.name, delta_rule.name, moe.name)
