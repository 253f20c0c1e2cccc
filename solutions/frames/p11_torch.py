"""What torch.nn.utils.clip_grad_norm_ does: the norm of the leaves' norms, and a small number in the divisor."""

import jax
import jax.numpy as jnp


def clip_by_global_norm(gradients, max_norm):
    norms = [jnp.linalg.norm(leaf.reshape(-1)) for leaf in jax.tree.leaves(gradients)]
    total_norm = jnp.linalg.norm(jnp.stack(norms))
    clip_coef_clamped = jnp.clip(max_norm / (total_norm + 1e-6), max=1.0)
    return jax.tree.map(lambda leaf: leaf * clip_coef_clamped, gradients), total_norm
