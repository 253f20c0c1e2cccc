"""Problem 18, played: the loss of a story in the learner's chunks, and the memory that it needs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines
from problems.stage.model import stream
from problems.stage.programs import floats, temporary_bytes
from problems.stage.weights import POCKET, held_out

CHUNK, T, D, PAD = 32, 256, 32, 0
VOCABULARIES = (1_000, 4_000, 16_000)


def play(module: LearnerModule) -> Exhibits:
    """The loss by several chunks, then memory over the vocabulary."""
    (ids_T,) = held_out(1)
    table_VD = jnp.asarray(POCKET.arrays["embed.embedding"])
    scale, bias = (jnp.asarray(POCKET.arrays[f"ln_f.{name}"]) for name in ("scale", "bias"))
    x_TD = jax.nn.standardize(stream(ids_T, POCKET.num_layers), axis=-1, epsilon=1e-6) * scale + bias

    def whole(x_TD: jax.Array, table_VD: jax.Array, ids_T: jax.Array) -> jax.Array:
        log_TV = jax.nn.log_softmax(x_TD[:-1] @ table_VD.T)
        return -jnp.mean(jnp.take_along_axis(log_TV, ids_T[1:, None], axis=1))

    right = float(whole(x_TD, table_VD, jnp.asarray(ids_T)))
    bars = [
        Bar(f"chunks of {chunk}", module.chunked_loss(x_TD, table_VD, jnp.asarray(ids_T), PAD, chunk), right)
        for chunk in (7, CHUNK, 512)
    ]
    yield Bars(
        f"The loss of a story of {len(ids_T)} tokens by the trained model",
        tuple(bars),
        "nats per token",
        "The size of the chunks makes no difference."
        if all(abs(bar.value - right) < 1e-3 for bar in bars)
        else "Your loss depends on the size of the chunks, or is another one.",
        names=("yours", "all at once"),
    )

    def chunked(x_TD: jax.Array, table_VD: jax.Array, ids_T: jax.Array) -> Any:
        return module.chunked_loss(x_TD, table_VD, ids_T, PAD, CHUNK)

    def needed(function: Callable[..., Any], V: int) -> int:
        ids = jax.ShapeDtypeStruct((T,), jnp.int32)
        return temporary_bytes(jax.grad(function, (0, 1)), floats(T, D), floats(V, D), ids)

    kept, whole_kept = ([needed(function, V) for V in VOCABULARIES] for function in (chunked, whole))
    yield Lines(
        f"Memory for the loss of {T} tokens and its gradients",
        tuple(
            Line(name, VOCABULARIES, taken)
            for name, taken in ((f"your chunks of {CHUNK}", kept), ("all logits at once", whole_kept))
        ),
        "A language model of today has 100,000 tokens or more, and a batch has many stories. Its logits would be "
        "larger than the model. "
        + (
            f"Your chunks take {kept[-1] / whole_kept[-1]:.0%} of the memory of all logits at the largest vocabulary."
            if kept[-1] < whole_kept[-1] / 3
            else "Your program takes about as much memory as all logits: something still holds many chunks at once."
        ),
        x="vocabulary",
        y="bytes",
    )  # fmt: skip
