"""Smoke tests: run each piece once on a tiny example, so that a broken one is reported before training starts."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from harness.data.tokenizer import get_tokenizer
from harness.data.tokenizer_json import END_OF_TEXT
from harness.pieces.adapt import PAD_ID

V, T, D, H, G, F, L = 11, 5, 12, 3, 3, 14, 2
IDS = np.array([3, 1, 4, 1, 5], np.int32)
SEGMENTS = np.array([1, 1, 2, 2, 0], np.int32)
X = np.random.default_rng(0).normal(size=(T, D)).astype(np.float32)


class SmokeTestError(Exception):
    """A piece is broken. The message continues a sentence that begins with the name of the piece."""

    def __init__(self, piece: str, message: str):
        super().__init__(message)
        self.piece = piece


def check_shape(name: str, value: Any, shape: tuple[int, ...], given: str) -> Any:
    """Returns `value`, which may be traced. Raises SmokeTestError if it is not a float array of this shape."""
    if not isinstance(value, jax.Array | np.ndarray):
        got = f"{value!r:.60}" if value is None or isinstance(value, str | float | int) else f"a {type(value).__name__}"
    elif value.shape != shape or not jnp.issubdtype(value.dtype, jnp.floating):
        got = f"{value.dtype}{list(value.shape)}"
    else:
        return value
    raise _wrong_output(name, got, given, shape)


def check_output(name: str, value: Any, shape: tuple[int, ...], given: str) -> Any:
    """Returns `value`. Raises SmokeTestError if it is not a finite float array of this shape."""
    if not np.isfinite(check_shape(name, value, shape, given)).all():
        raise _wrong_output(name, "numbers that are not finite", given, shape)
    return value


def _wrong_output(name: str, got: str, given: str, shape: tuple[int, ...]) -> SmokeTestError:
    return SmokeTestError(name, f"returned {got} for {given}; it must return finite floats of shape {shape}.")


def filled(make: Callable[[], Any], scale: float = 0.1) -> Any:
    """The module that `make` returns, with numbers in its parameters that take no random draws: these take long to
    compile."""
    parts: Any = nnx.split(nnx.eval_shape(make), nnx.Param, ...)
    graph, parameters, others = parts
    if jax.tree.leaves(others):  # such as the streams of dropout
        return make()
    rng = np.random.default_rng(0)
    numbers = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, scale, leaf.shape).astype(leaf.dtype)), parameters)
    return nnx.merge(graph, numbers, others)


def run_module(name: str, make: Callable[[Any], Any], given: Any, shape: tuple[int, ...]) -> None:
    """Calls a module for one example and for a batch, in one program: op by op takes many times as long."""
    one = f"{given.dtype}{list(given.shape)}"
    batch = f"a batch of {one}, under vmap"

    def made() -> Any:
        module = make(nnx.Rngs(0))
        if not isinstance(module, nnx.Module):
            raise SmokeTestError(name, f"is a {type(module).__name__}, which is not an nnx.Module.")
        return module

    graph, parameters = nnx.split(filled(made))

    def outputs(parameters: Any, x: Any) -> tuple[Any, Any]:
        module = nnx.merge(graph, parameters)
        single = check_shape(name, module(x), shape, one)
        return single, check_shape(name, jax.vmap(module)(jnp.stack([x, x])), (2, *shape), batch)

    single, several = jax.jit(outputs)(parameters, given)
    check_output(name, single, shape, one)
    check_output(name, several, (2, *shape), batch)


def run_cached_layer(name: str, make: Callable[[Any], Any]) -> None:
    """A layer with a cache: one position after another must give the outputs of the whole."""
    run_module(name, make, X, (T, D))
    graph, parameters = nnx.split(
        filled(lambda: make(nnx.Rngs(0)), scale=0.5)
    )  # or what is remembered is too small to matter

    def outputs(parameters: Any, x: Any) -> tuple[Any, Any]:
        layer, rows = nnx.merge(graph, parameters), []
        cache = layer.empty_cache(T)
        for row in x:
            out, cache = layer.decode_step(cache, row)
            rows.append(check_shape(name, out, (D,), f"decode_step of float32[{D}]"))
        return jnp.stack(rows), layer(x)

    steps, whole = jax.jit(outputs)(parameters, X)
    if not np.allclose(steps, whole, rtol=1e-3, atol=1e-3):
        raise SmokeTestError(name, "returned outputs of `decode_step` that differ from those of the whole story.")


def run_load_gpt2(gpt2: Any, load: Any) -> None:
    """The model, and a file of ones that must reach a parameter."""

    def make(rngs: Any) -> Any:
        return gpt2(V, D, H, F, L, max_T=T, rngs=rngs)

    run_module("GPT2", make, IDS, (T, V))
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
        f"transformer.{name}.weight": shape for name, shape in (weights | {"wte": (V, D), "wpe": (T, D)}).items()
    }
    tensors |= {f"transformer.{name}.bias": shape[-1:] for name, shape in weights.items()}
    model = filled(lambda: make(nnx.Rngs(0)))
    load({name: np.ones(shape, np.float32) for name, shape in tensors.items()}, model)
    if any(np.any(np.asarray(leaf) != 1) for leaf in jax.tree.leaves(nnx.state(model, nnx.Param))):
        raise SmokeTestError("load_gpt2", "did not copy every array of a file of ones.")


def run_rope(rope: Any) -> None:
    given = jnp.asarray(X).reshape(T, H, D // H)
    rotated = jax.jit(rope, static_argnums=2)(given, jnp.arange(T), 1e4)
    check_output("rope", rotated, given.shape, f"float32[{T}, {H}, {D // H}]")


def run_loader(make_loader: Any) -> None:
    loader = make_loader(np.arange(24, dtype=np.int32).reshape(8, 3), 2, 0, 0, 2)
    first, state = np.asarray(next(loader)), loader.get_state()
    loader.set_state(state)
    if first.shape != (2, 3):
        raise SmokeTestError(
            "make_loader", f"gave a batch of shape {first.shape}; two rows of three ids were expected."
        )


def run_tokenize(tokenize: Any) -> None:
    encoding = get_tokenizer("pocket-2k")
    ids = np.asarray(tokenize(f"One day.{END_OF_TEXT}Two.", encoding))
    if ids.ndim != 1 or list(ids).count(encoding.eot_token) != 2:
        raise SmokeTestError("tokenize", "did not end each of two stories with the end-of-text id.")


def run_pack(pack: Any) -> None:
    windows = np.asarray(pack(np.arange(7, dtype=np.int32), 3, PAD_ID))
    if windows.shape != (3, 3):
        raise SmokeTestError(
            "pack", f"gave windows of shape {windows.shape} for 7 ids and width 3; (3, 3) was expected."
        )


def run_deduplicate(deduplicate: Any) -> None:
    """Three texts, of which two are equal."""
    texts, hashes = ["a cat sat", "a dog ran", "a cat sat"], np.arange(1, 9)
    kept = deduplicate(texts, 2, hashes, hashes, 4, 0.5)
    if [*kept] != [0, 1]:
        raise SmokeTestError("deduplicate", f"returned {kept!r:.60} for three texts of which the last is the first.")


def run_encode(encode: Any) -> None:
    ids = encode("lower low", {bytes([byte]): byte for byte in range(256)} | {b"lo": 256, b"low": 257}, {})
    if not isinstance(ids, list) or ids != [257, *b"er ", 257]:
        raise SmokeTestError("encode", f"returned {ids!r:.80} for 'lower low' and the tokens `lo` and `low`.")


def run_pack_stories(pack: Any) -> None:
    stories = [np.full(length, 10 * length, np.int32) for length in (5, 6, 3)]
    shapes = [np.shape(array) for array in pack(stories, 8, PAD_ID)]
    if shapes != [(2, 8)] * 2:
        raise SmokeTestError(
            "pack_stories", f"returned arrays of shapes {shapes} for stories of 5, 6 and 3 ids in rows of 8; two of "
            "(2, 8) were expected."
        )  # fmt: skip


def run_of_segments(name: str, function: Any) -> None:
    """A function of segment ids must return ids of their shape under vmap."""
    _check_kind(name, jax.jit(jax.vmap(function))(jnp.stack([SEGMENTS] * 2)), (2, T), jnp.integer)


def run_segment_mask(mask: Any) -> None:
    _check_kind("segment_mask", jax.jit(jax.vmap(mask))(jnp.stack([SEGMENTS] * 2)), (2, T, T), jnp.bool_)


def _check_kind(name: str, value: Any, shape: tuple[int, ...], kind: Any) -> None:
    if value.shape != shape or not (value.dtype == kind or jnp.issubdtype(value.dtype, kind)):
        got = f"{value.dtype}{list(value.shape)}"
        raise SmokeTestError(name, f"returned {got} for two rows of {T} segment ids; shape {shape} was expected.")


def run_segment_attention(attention: Any) -> None:
    """Calls the attention of one head, and traces its gradient, which takes seconds to compile."""

    def of(x_TD: Any) -> Any:
        out_TD = attention(x_TD, x_TD, x_TD, SEGMENTS, 2)
        return check_shape("segment_attention", out_TD, (T, D), f"float32[{T}, {D}]")

    check_output("segment_attention", jax.jit(of)(X), (T, D), f"float32[{T}, {D}]")
    jax.eval_shape(jax.grad(lambda x_TD: jnp.sum(of(x_TD))), X)


def run_block_manager(manager_type: Any) -> None:
    """The sketch of the problem's page: a block that two sequences share, copied when one of them writes."""
    manager = manager_type(4, 2)
    manager.start("a", 3)
    manager.fork("a", "b")
    got = [manager.append(name) for name in ("b", "a", "a")]
    if [*map(tuple, got)] != [(2, 1, 1), (1, 1, -1), (3, 0, -1)]:
        raise SmokeTestError("BlockManager", f"returned {got!r:.80} from `append` for the three tokens of the page.")
    try:
        manager.append("b")
    except MemoryError:
        pass
    else:
        raise SmokeTestError("BlockManager", "raised no MemoryError when a token needed a block and none was free.")
    tables, free = [[*manager.table(name)] for name in "ab"], manager.free_blocks()
    manager.free("a")
    if (tables, free, manager.free_blocks()) != ([[0, 1, 3], [0, 2]], 0, 2):
        raise SmokeTestError(
            "BlockManager", f"has the tables {tables!r:.80}, or numbers of free blocks, of other sequences."
        )


def run_paged_attention(attention: Any) -> None:
    """Three tokens in two blocks of two, for two queries, against plain attention."""
    rng = np.random.default_rng(0)
    keys, values = rng.normal(size=(2, 3, 2, H, D)).astype(np.float32)
    q, table = rng.normal(size=(2, H, D)).astype(np.float32), np.array([2, 0, -1], np.int32)
    each = jax.vmap(attention, in_axes=(0, None, None, None, 0))
    out = jax.jit(each)(q, keys, values, table, np.array([3, 3], np.int32))
    given = f"float32[{H}, {D}], three tokens in blocks of two"
    check_output("paged_attention", out, q.shape, given)
    k, v = (x[[2, 0]].reshape(4, H, D)[:3] for x in (keys, values))
    weights = jax.nn.softmax(np.einsum("nhk,thk->nht", q, k) / D**0.5)
    if not np.allclose(out, np.einsum("nht,thk->nhk", weights, v), rtol=1e-3, atol=1e-3):
        raise SmokeTestError("paged_attention", f"returned other numbers than attention to these tokens for {given}.")


def run_distribution(distribution: Any) -> None:
    probabilities = jax.jit(lambda logits: distribution(logits, 0.8, 0, 0.9))(jnp.arange(float(V)))
    check_output("sampling_distribution", probabilities, (V,), f"{V} logits")


def run_generate(generate: Any) -> None:
    def model(ids_T: Any) -> Any:  # predicts token + 1; V - 1 is the stop token
        return 50 * jax.nn.one_hot(jnp.minimum(ids_T + 1, V - 1), V)

    tokens = np.asarray(generate(model, jnp.array([V - 4]), 9, T, V - 1, jax.random.key(0), 1.0, 0, 1.0))
    if list(tokens) != [V - 3, V - 2]:
        raise SmokeTestError("generate", "did not return exactly the two tokens before the stop token.")


def run_decode_step(step: Any, empty_cache: Any, mini_gpt: Any) -> None:
    """One token after another must give the logits of the whole."""
    model = _filled_gpt(mini_gpt)
    graph, parameters = nnx.split(model)
    cache, rows = empty_cache(model, T), []
    traced = jax.jit(lambda parameters, cache, token: step(nnx.merge(graph, parameters), cache, token))
    for token in IDS:
        logits, cache = traced(parameters, cache, jnp.int32(token))
        rows.append(check_output("decode_step", logits, (V,), "one token"))
    expected = jax.jit(lambda parameters, ids: nnx.merge(graph, parameters)(ids))(parameters, IDS)
    if not np.allclose(np.stack(rows), expected, rtol=1e-3, atol=1e-3):
        raise SmokeTestError("decode_step", "returned logits that differ from those of MiniGPT for the same ids.")


def run_lora(lora: Any, merge: Any) -> None:
    base, x = nnx.Linear(D, F, rngs=nnx.Rngs(0)), jnp.asarray(X)
    layer = lora(base, 2, 2.0, nnx.Rngs(0))
    check_output("LoRALinear", layer(x), (T, F), f"float32[{T}, {D}]")
    if not np.allclose(layer(x), base(x), atol=1e-5):
        raise SmokeTestError("LoRALinear", "changed the output of the base layer before any training.")
    check_output("merge", merge(layer)(x), (T, F), f"float32[{T}, {D}]")


def run_export(export: Any, mini_gpt: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        export(_filled_gpt(mini_gpt), H, folder)
        if missing := [file for file in ("model.safetensors", "config.json") if not Path(folder, file).exists()]:
            raise SmokeTestError("export_gpt2", f"did not write {missing[0]}.")


def _filled_gpt(mini_gpt: Any) -> Any:
    return filled(lambda: mini_gpt(V, D, H, F, L, max_T=T, rngs=nnx.Rngs(0)))
