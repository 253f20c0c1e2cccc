"""Two masked transformations in a chain; a mean instead of a sum; the polynomial as powers of the Gram matrix times
X."""

import jax
import jax.numpy as jnp
import optax


def orthogonalize(matrix, steps):
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / (jnp.sqrt(jnp.sum(jnp.square(x))) + 1e-8)

    def step(_, x):
        cube = (x @ x.T) @ x
        fifth = (x @ x.T) @ cube
        return 3.4445 * x - 4.7750 * cube + 2.0315 * fifth

    x = jax.lax.fori_loop(0, steps, step, x, unroll=True)
    return x.T if tall else x


def muon(learning_rate, beta, weight_decay, rest):
    def is_kernel(path, leaf):
        text = jax.tree_util.keystr(path)
        return leaf.ndim == 2 and "kernel" in text and "head" not in text

    def kernels(tree):
        return jax.tree_util.tree_map_with_path(is_kernel, tree)

    def others(tree):
        return jax.tree.map(lambda flag: not flag, kernels(tree))

    def move(m, p):
        scale = 0.2 * jnp.sqrt(max(p.shape))
        return -learning_rate * (scale * orthogonalize(m, 5) + weight_decay * p)

    matrices = optax.chain(
        optax.ema(beta, debias=False),
        optax.stateless(lambda m, p: jax.tree.map(move, m, p)),
    )
    return optax.chain(optax.masked(matrices, kernels), optax.masked(rest, others))
