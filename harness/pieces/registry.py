"""The pieces that the harness takes: which module of the course defines each, and a trial of each on a tiny example, so that a
broken one is named before anything is trained with it."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, PartitionSpec

from harness.config import Config
from harness.data.tokenizer import END_OF_TEXT, get_tokenizer
from harness.errors import PieceError
from harness.model.gpt import GPT

PAD_ID = -1
V, T, D, H, F, L = 11, 5, 12, 3, 14, 2
IDS = np.array([3, 1, 4, 1, 5], np.int32)
X = np.random.default_rng(0).normal(size=(T, D)).astype(np.float32)
PARAMETERS = {"kernel": np.ones((2, 3), np.float32), "bias": np.zeros(3, np.float32)}


class Known(NamedTuple):
    """A piece: its module, its trial, and the other names without which it is of no use. The trial gets all of them."""

    module: str
    trial: Callable[..., None]
    others: tuple[str, ...] = ()


def _wrong(name: str, said: str) -> PieceError:
    module = MODULES[name]
    return PieceError(f"{name} of {module}.py {said} `grade problem {module[1:3]}` says more.")


def _returned(name: str, value: Any, shape: tuple[int, ...], given: str) -> Any:
    """Checks what a piece returned."""
    if not isinstance(value, jax.Array | np.ndarray):
        got = f"{value!r:.60}" if value is None or isinstance(value, str | float | int) else f"a {type(value).__name__}"
    elif value.shape != shape or not jnp.issubdtype(value.dtype, jnp.floating):
        got = f"{value.dtype}{list(value.shape)}"
    elif not jnp.isfinite(value).all():
        got = "numbers that are not finite"
    else:
        return value
    raise _wrong(name, f"returned {got} for {given}; it must return finite floats of shape {shape}.")


def _try_module(name: str, make: Callable[[Any], Any], given: Any, shape: tuple[int, ...]) -> None:
    what = f"{given.dtype}{list(given.shape)}"
    _returned(name, make(nnx.Rngs(0))(given), shape, what)
    graph, parameters = nnx.split(make(nnx.Rngs(0)))
    batch = jnp.stack([given, given])
    traced = jax.jit(lambda p, b: jax.vmap(nnx.merge(graph, p))(b))(parameters, batch)
    _returned(name, traced, (2, *shape), f"a batch of {what}, under jit and vmap")


def _try_loss(loss: Any) -> None:
    logits, ids = jnp.ones((T, V)), jnp.array([3, 1, 4, PAD_ID, PAD_ID])
    _returned(
        "next_token_loss", jax.jit(loss, static_argnums=2)(logits, ids, PAD_ID), (), f"logits of shape ({T}, {V})"
    )


def _try_step(step: Any) -> None:
    config = Config(vocab_size=V, context=T, d_model=D, num_heads=H, d_ff=F, num_layers=L)
    model = GPT(config, nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    before = jax.tree.map(np.asarray, nnx.state(model))
    _returned("train_step", step(model, optimizer, jnp.ones((2, T), int), PAD_ID), (), f"ids of shape (2, {T})")
    after = jax.tree.map(np.asarray, nnx.state(model))
    if all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)):
        raise _wrong("train_step", "left every parameter as it was.")


def _try_update(name: str, made: Any) -> None:
    """An optax transformation that takes a step under jit."""
    if not isinstance(made, optax.GradientTransformation):
        raise _wrong(name, f"returned a {type(made).__name__}, not an optax.GradientTransformation.")
    state = made.init(PARAMETERS)
    updates, _ = jax.jit(made.update)(PARAMETERS, state, PARAMETERS)
    for key, leaf in PARAMETERS.items():
        _returned(name, updates[key], leaf.shape, "the update of a gradient")


def _try_schedule(schedule: Any) -> None:
    rates = jax.jit(jax.vmap(schedule(1e-3, 2, 6)))(jnp.arange(8))
    _returned("warmup_cosine", rates, (8,), "eight steps")


def _try_clip(clip: Any) -> None:
    clipped, norm = jax.jit(lambda gradients: clip(gradients, 0.5))(PARAMETERS)
    _returned("clip_by_global_norm", norm, (), "its norm")
    _returned("clip_by_global_norm", clipped["kernel"], (2, 3), "a kernel's gradient")


def _try_accumulation(accumulate: Any) -> None:
    def loss_sum(parameters: Any, ids: Any) -> Any:
        return jnp.sum(parameters["kernel"]) * jnp.sum(ids), jnp.int32(ids.size)

    loss, gradients, norm = jax.jit(lambda p, ids: accumulate(loss_sum, p, ids, 2, 1.0))(
        PARAMETERS, np.stack([IDS] * 4)
    )
    _returned("accumulated_gradients", loss, (), "its loss")
    _returned("accumulated_gradients", norm, (), "its norm")
    _returned("accumulated_gradients", gradients["kernel"], (2, 3), "a kernel's gradient")


def _try_guard(guard: Any) -> None:
    made = guard(optax.sgd(0.1))
    _try_update("finite_guard", made)
    if optax.tree_utils.tree_get(made.init(PARAMETERS), "skipped") is None:
        raise _wrong("finite_guard", "has a state without a field `skipped`.")


def _try_loader(make_loader: Any) -> None:
    loader = make_loader(np.arange(24, dtype=np.int32).reshape(8, 3), 2, 0, 0, 2)
    first, state = np.asarray(next(loader)), loader.get_state()
    loader.set_state(state)
    if first.shape != (2, 3):
        raise _wrong("make_loader", f"gave a batch of shape {first.shape} for two rows of three.")


def _try_tokenize(tokenize: Any) -> None:
    encoding = get_tokenizer("pocket-2k")
    ids = np.asarray(tokenize(f"One day.{END_OF_TEXT}Two.", encoding))
    if ids.ndim != 1 or list(ids).count(encoding.eot_token) != 2:
        raise _wrong("tokenize", "does not end each of two stories with the id of end-of-text.")


def _try_pack(pack: Any) -> None:
    windows = np.asarray(pack(np.arange(7, dtype=np.int32), 3, PAD_ID))
    if windows.shape != (3, 3):
        raise _wrong("pack", f"gave windows of shape {windows.shape} for 7 ids in windows of 3.")


def _try_make_mesh(make_mesh: Any) -> None:
    mesh = make_mesh(1, 1)
    if not isinstance(mesh, Mesh) or tuple(mesh.axis_names) != ("data", "model"):
        raise _wrong("make_mesh", "did not give a Mesh with the axes `data` and `model`.")


def _try_spec(name: str, spec: Any) -> None:
    if not isinstance(spec, PartitionSpec) or len(spec) > 2:
        raise _wrong(name, f"returned {spec!r:.60} for a kernel; it must return a PartitionSpec of two axes.")


def _try_shard_batch(shard_batch: Any) -> None:
    given = np.stack([IDS, IDS])
    placed = shard_batch(given, _one_device())
    if not isinstance(placed, jax.Array) or placed.shape != given.shape:
        raise _wrong("shard_batch", "did not give the batch back as one array.")


def _try_resume(resume: Any, save: Any) -> None:
    def make() -> Any:
        model = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
        return model, nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param), nnx.Rngs(0)

    model, optimizer, rngs = make()
    model.kernel[...] = model.kernel[...] + 1
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder).resolve() / "checkpoint")
        save(path, model, optimizer, rngs, Position({"next_index": 7}))
        found = resume(path, make, Position)
    if len(found) != 4 or not np.array_equal(found[0].kernel[...], model.kernel[...]):
        raise _wrong("resume", "did not give back the model that was saved.")
    if found[3].get_state() != {"next_index": 7}:
        raise _wrong("resume", "did not tell the loader where it was.")


class Position:
    """What a checkpoint keeps of a data pipeline, in the form of a loader."""

    def __init__(self, state: dict[str, Any] | None = None):
        self.state = state or {}

    def get_state(self) -> dict[str, Any]:
        return self.state

    def set_state(self, state: dict[str, Any]) -> None:
        self.state = state


def _try_distribution(distribution: Any) -> None:
    _returned("sampling_distribution", distribution(jnp.arange(float(V)), 0.8, 0, 0.9), (V,), f"{V} logits")


def _try_generate(generate: Any) -> None:
    def model(ids_T: Any) -> Any:  # each token is followed by the next; V - 1 is the end
        return 50 * jax.nn.one_hot(jnp.minimum(ids_T + 1, V - 1), V)

    given = np.asarray(generate(model, jnp.array([V - 4]), 9, T, V - 1, jax.random.key(0), 1.0, 0, 1.0))
    if list(given) != [V - 3, V - 2]:
        raise _wrong("generate", "did not give the two tokens that come before the stop token, and end there.")


def _try_decode_step(step: Any, empty_cache: Any, mini_gpt: Any) -> None:
    model = mini_gpt(V, D, H, F, L, max_T=T, rngs=nnx.Rngs(0))
    cache, rows = empty_cache(model, T), []
    for token in IDS:
        logits, cache = step(model, cache, jnp.int32(token))
        rows.append(_returned("decode_step", logits, (V,), "one token"))
    if not np.allclose(np.stack(rows), model(jnp.asarray(IDS)), rtol=1e-3, atol=1e-3):
        raise _wrong("decode_step", "gives other logits than MiniGPT does for the same ids at once.")


def _try_lora(lora: Any, merge: Any) -> None:
    base, x = nnx.Linear(D, F, rngs=nnx.Rngs(0)), jnp.asarray(X)
    layer = lora(base, 2, 2.0, nnx.Rngs(0))
    _returned("LoRALinear", layer(x), (T, F), f"float32[{T}, {D}]")
    if not np.allclose(layer(x), base(x), atol=1e-5):
        raise _wrong("LoRALinear", "changes the base layer before anything was trained.")
    _returned("merge", merge(layer)(x), (T, F), f"float32[{T}, {D}]")


def _try_export(export: Any, mini_gpt: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        export(mini_gpt(V, D, H, F, L, max_T=T, rngs=nnx.Rngs(0)), H, folder)
        if missing := [file for file in ("model.safetensors", "config.json") if not Path(folder, file).exists()]:
            raise _wrong("export_gpt2", f"wrote no {missing[0]}.")


def _one_device() -> Mesh:
    return jax.make_mesh(
        (1, 1), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2, devices=jax.devices()[:1]
    )


KNOWN: dict[str, Known] = {
    "TokenAndPositionEmbed": Known(
        "p01_token_embedding",
        lambda p: _try_module("TokenAndPositionEmbed", lambda r: p(V, T, D, rngs=r), IDS, (T, D)),
    ),
    "CausalMHA": Known("p03_causal_mha", lambda p: _try_module("CausalMHA", lambda r: p(D, H, rngs=r), X, (T, D))),
    "GPTBlock": Known("p05_gpt_block", lambda p: _try_module("GPTBlock", lambda r: p(D, H, F, rngs=r), X, (T, D))),
    "MiniGPT": Known(
        "p06_mini_gpt", lambda p: _try_module("MiniGPT", lambda r: p(V, D, H, F, L, max_T=T, rngs=r), IDS, (T, V))
    ),
    "next_token_loss": Known("p07_next_token_loss", _try_loss),
    "train_step": Known("p08_train_step", _try_step),
    "adamw": Known("p09_adamw", lambda p: _try_update("adamw", p(1e-3, 0.9, 0.99, 1e-8, 0.1))),
    "warmup_cosine": Known("p10_lr_schedule", _try_schedule),
    "clip_by_global_norm": Known("p11_gradient_clipping", _try_clip),
    "accumulated_gradients": Known("p12_gradient_accumulation", _try_accumulation),
    "finite_guard": Known("p13_finite_guard", _try_guard),
    "tokenize": Known("p15_tokenize_and_pack", _try_tokenize),
    "pack": Known("p15_tokenize_and_pack", _try_pack),
    "make_loader": Known("p16_data_pipeline", _try_loader),
    "make_mesh": Known("p20_mesh_and_partitioning", _try_make_mesh),
    "partition_spec": Known(
        "p20_mesh_and_partitioning",
        lambda p, _: _try_spec("partition_spec", p("blocks.0.ff1.kernel", (D, F), _one_device())),
        ("MiniGPT",),  # it knows the names of its parameters
    ),
    "shard_batch": Known("p21_sharded_train_step", _try_shard_batch),
    "fsdp_spec": Known("p22_fsdp", lambda p: _try_spec("fsdp_spec", p((D, F), 2))),
    "resume": Known("p26_exact_resume", _try_resume, ("save",)),
    "export_gpt2": Known("p28_hf_export", _try_export, ("MiniGPT",)),
    "sampling_distribution": Known("p29_sampling", _try_distribution),
    "generate": Known("p29_sampling", _try_generate),
    "decode_step": Known("p30_kv_cache", _try_decode_step, ("empty_cache", "MiniGPT")),
    "LoRALinear": Known("p31_lora", _try_lora, ("merge",)),
}
# The module of every name, those that only go with another included.
MODULES = {
    name: KNOWN[name].module if name in KNOWN else known.module
    for piece, known in KNOWN.items()
    for name in (piece, *known.others)
}
