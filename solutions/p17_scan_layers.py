"""Problem 17, reference: layers by scan."""

import jax
from flax import nnx
from jaxtyping import Array, Float
from p05_gpt_block import GPTBlock


class LayerStack(nnx.Module):
    """One block with stacked parameters, run once for each slice."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, num_layers: int, rngs: nnx.Rngs):
        @nnx.split_rngs(splits=num_layers)
        @nnx.vmap(in_axes=0, out_axes=0)
        def make(rngs: nnx.Rngs) -> GPTBlock:
            return GPTBlock(d_model, num_heads, d_ff, rngs=rngs)

        self.blocks = make(rngs)

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        graphdef, state = nnx.split(self.blocks)

        def body(x: Float[Array, "T D"], layer: nnx.State) -> tuple[Float[Array, "T D"], None]:
            return nnx.merge(graphdef, layer)(x), None

        x, _ = jax.lax.scan(body, x, state)
        return x
