"""Each piece is first tried on a tiny example, so that a broken one is named before anything is trained with it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from harness.config import Config
from harness.errors import PieceError
from harness.model import GPT

PAD_ID = -1
V, T, D, H, F, L = 11, 5, 12, 3, 14, 2
IDS = np.array([3, 1, 4, 1, 5], np.int32)
X = np.random.default_rng(0).normal(size=(T, D)).astype(np.float32)
PARAMETERS = {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3)}


def _wrong(name: str, said: str) -> PieceError:
    from harness.pieces import MODULES

    return PieceError(f"{name} of {MODULES[name]}.py {said} `grade problem {MODULES[name][1:3]}` says more.")


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


TRIALS: dict[str, Callable[[Any], None]] = {
    "TokenAndPositionEmbed": lambda p: _try_module("TokenAndPositionEmbed", lambda r: p(V, T, D, rngs=r), IDS, (T, D)),
    "CausalMHA": lambda p: _try_module("CausalMHA", lambda r: p(D, H, rngs=r), X, (T, D)),
    "GPTBlock": lambda p: _try_module("GPTBlock", lambda r: p(D, H, F, rngs=r), X, (T, D)),
    "MiniGPT": lambda p: _try_module("MiniGPT", lambda r: p(V, D, H, F, L, max_T=T, rngs=r), IDS, (T, V)),
    "next_token_loss": _try_loss,
    "train_step": _try_step,
    "adamw": lambda p: _try_update("adamw", p(1e-3, 0.9, 0.99, 1e-8, 0.1)),
    "warmup_cosine": _try_schedule,
    "clip_by_global_norm": _try_clip,
    "accumulated_gradients": _try_accumulation,
    "finite_guard": _try_guard,
    "make_loader": _try_loader,
}
