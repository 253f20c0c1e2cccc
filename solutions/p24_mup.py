"""Problem 24, reference: widths that share a learning rate."""

import jax
import optax
from flax import nnx
from jaxtyping import Array, Float, Int, PyTree


class MupLM(nnx.Module):
    """The maximal update parametrization (Yang et al. 2022, Tensor Programs V, table 8) of a small model."""

    def __init__(self, vocab_size: int, d_model: int, base_d_model: int, rngs: nnx.Rngs):
        normal = nnx.initializers.normal
        self.width_ratio = d_model / base_d_model
        self.embed = nnx.Embed(vocab_size, d_model, embedding_init=normal(1.0), rngs=rngs)
        self.hidden = nnx.Linear(d_model, d_model, kernel_init=normal(d_model**-0.5), rngs=rngs)
        self.head = nnx.Linear(d_model, vocab_size, use_bias=False, kernel_init=normal(base_d_model**-0.5), rngs=rngs)

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        x = nnx.relu(self.hidden(self.embed(token_ids)))
        return self.head(x) / self.width_ratio


def groups(parameters: PyTree) -> PyTree:
    """A tree with the name of the group of each leaf."""

    def group(path: tuple, leaf: Array) -> str:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        return "hidden" if "kernel" in name and "head" not in name else "other"

    return jax.tree_util.tree_map_with_path(group, parameters)


def mup_adam(learning_rate: float, d_model: int, base_d_model: int) -> optax.GradientTransformation:
    """Adam with a rate for hidden kernels that falls as one over the width."""
    hidden = learning_rate * base_d_model / d_model
    return optax.partition({"hidden": optax.adam(hidden), "other": optax.adam(learning_rate)}, groups)
