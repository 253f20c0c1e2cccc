"""Smoke tests: run each piece once on a tiny example, so that a broken one is reported before training starts."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

V, T, D, H, F, L = 11, 5, 12, 3, 14, 2
# Those of a tiny model, by the names of the settings
SIZES = SimpleNamespace(
    vocab_size=V, context=T, d_model=D, num_heads=2 * H, kv_heads=H, d_ff=F, num_layers=L, norm_epsilon=1e-6,
    rope_base=1e4, d_latent=5, d_rope=2, d_state=4,
)  # fmt: skip
IDS = np.array([3, 1, 4, 1, 5], np.int32)
SEGMENTS = np.array([1, 1, 2, 2, 0], np.int32)
X = np.random.default_rng(0).normal(size=(T, D)).astype(np.float32)


class SmokeTestError(Exception):
    """A piece is broken. The message continues a sentence that begins with the name of the piece."""

    def __init__(self, message: str, piece: str = ""):
        super().__init__(message)
        self.piece = piece  # if it is not the one that is tested, but one that it needs


def check_output(value: Any, shape: tuple[int, ...], given: str, piece: str = "", *, is_traced: bool = False) -> Any:
    """Returns `value`. Raises SmokeTestError if it is not a float array of this shape, or not finite, which a traced
    one does not tell."""
    if not isinstance(value, jax.Array | np.ndarray):
        got = f"{value!r:.60}" if value is None or isinstance(value, str | float | int) else f"a {type(value).__name__}"
    elif value.shape != shape or not jnp.issubdtype(value.dtype, jnp.floating):
        got = f"{value.dtype}{list(value.shape)}"
    elif not is_traced and not np.isfinite(value).all():
        got = "numbers that are not finite"
    else:
        return value
    raise SmokeTestError(f"returned {got} for {given}; it must return finite floats of shape {shape}.", piece)


def filled(make: Callable[[Any], Any], scale: float = 0.1) -> Any:
    """The module that `make` returns for random streams, with numbers in its parameters that take no random draws:
    these take long to compile."""
    parts: Any = nnx.split(nnx.eval_shape(lambda: make(nnx.Rngs(0))), nnx.Param, ...)
    graph, parameters, others = parts
    if jax.tree.leaves(others):  # such as the streams of dropout
        return make(nnx.Rngs(0))
    rng = np.random.default_rng(0)
    numbers = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, scale, leaf.shape).astype(leaf.dtype)), parameters)
    return nnx.merge(graph, numbers, others)


def run_module(make: Callable[[Any], Any], given: Any = X, shape: tuple[int, ...] = (T, D)) -> None:
    """Calls a module for one example and for a batch, in one program: op by op takes many times as long."""
    one = f"{given.dtype}{list(given.shape)}"
    batch = f"a batch of {one}, under vmap"

    def made(rngs: Any) -> Any:
        module = make(rngs)
        if not isinstance(module, nnx.Module):
            raise SmokeTestError(f"is a {type(module).__name__}, which is not an nnx.Module.")
        return module

    graph, parameters = nnx.split(filled(made))

    def outputs(parameters: Any, x: Any) -> tuple[Any, Any]:
        module = nnx.merge(graph, parameters)
        single = check_output(module(x), shape, one, is_traced=True)
        return single, check_output(jax.vmap(module)(jnp.stack([x, x])), (2, *shape), batch, is_traced=True)

    single, several = jax.jit(outputs)(parameters, given)
    check_output(single, shape, one)
    check_output(several, (2, *shape), batch)


def run_cached_layer(make: Callable[[Any], Any]) -> None:
    """A layer with a cache: one position after another must give the outputs of the whole."""
    run_module(make)
    graph, parameters = nnx.split(filled(make, scale=0.5))  # or what is remembered is too small to matter

    def outputs(parameters: Any, x: Any) -> tuple[Any, Any]:
        layer, rows = nnx.merge(graph, parameters), []
        cache = layer.empty_cache(T)
        for row in x:
            out, cache = layer.decode_step(cache, row)
            rows.append(check_output(out, (D,), f"decode_step of float32[{D}]", is_traced=True))
        return jnp.stack(rows), layer(x)

    steps, whole = jax.jit(outputs)(parameters, X)
    if not np.allclose(steps, whole, rtol=1e-3, atol=1e-3):
        raise SmokeTestError("returned outputs of `decode_step` that differ from those of the whole story.")
