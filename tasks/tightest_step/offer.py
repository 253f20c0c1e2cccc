"""What a submission to the tightest step offers: one program on eight devices. It gets its parameters and tokens where
it is weighed."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from grader.authoring import (
    BadOutputError,
    Given,
    Offer,
    Subject,
    UntraceableError,
    called_on_mesh,
    described,
    mesh_of,
    placed,
    trace,
)

DEVICES, AXIS = 8, "data"
V, D, F, H, L = 2048, 64, 256, 4, 4  # tokens, widths, heads, blocks
B, T = 8, 32  # rows of the batch, and targets of a row
BLOCK: dict[str, tuple[int, ...]] = {
    "norm1": (D,), "q": (D, D), "k": (D, D), "v": (D, D), "o": (D, D),
    "norm2": (D,), "gate": (D, F), "up": (D, F), "down": (F, D),
}  # fmt: skip


def shapes() -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters, by name."""
    blocks = {f"blocks.{i}.{name}": shape for i in range(L) for name, shape in BLOCK.items()}
    return {"embed": (V, D), "norm": (D,), **blocks}


def offer(subject: Subject) -> Offer:
    """The program `step`. Raises BadOutputError."""
    mesh, rows = mesh_of(DEVICES, axes=(AXIS,)), PartitionSpec(AXIS)

    def step(parameters: Any, tokens: Any) -> dict[str, Any]:
        loss, new = called_on_mesh(subject, "step", parameters, tokens, mesh)
        if not isinstance(new, dict):
            raise BadOutputError(f"`step` returned {described(new)} as the new parameters; it must be a dict")
        if others := sorted({name: jnp.shape(x) for name, x in new.items()}.items() ^ shapes().items()):
            raise BadOutputError(
                f"`step` returned new parameters of other names or shapes, such as `{others[0][0]}`; they must have "
                "those of the old ones"
            )
        if jnp.shape(loss) or not isinstance(loss, jax.Array):
            raise BadOutputError(f"`step` returned {described(loss)} as the loss; it must be a scalar jax.Array")
        return {"loss": jnp.float32(loss)} | {name: jnp.float32(new[name]) for name in shapes()}

    parameters = {name: placed(Given("case", name, shape, jnp.float32), mesh, rows) for name, shape in shapes().items()}
    tokens = placed(Given("case", "tokens", (B, T + 1), jnp.int32), mesh, rows)
    try:
        return Offer({"step": trace(step, parameters, tokens)}, {})
    except UntraceableError as error:
        raise BadOutputError(f"`step` must be traceable by jax.jit ({error})") from error
