"""Newton-Schulz as a scan; `multi_transform` with labels; the decay added by hand."""

import jax
import jax.numpy as jnp
import optax

FACTORS = jnp.array([3.4445, -4.7750, 2.0315])


def orthogonalize(matrix, steps):
    flip = matrix.shape[0] > matrix.shape[1]
    start = jnp.where(True, matrix.T if flip else matrix, 0)
    start = start * (1 / (jnp.sqrt(jnp.vdot(start, start)) + 1e-8))

    def turn(x, _):
        gram = jnp.matmul(x, x.T)
        return FACTORS[0] * x + jnp.matmul(FACTORS[1] * gram + FACTORS[2] * jnp.matmul(gram, gram), x), None

    end, _ = jax.lax.scan(turn, start, None, length=steps)
    return end.T if flip else end


def kernels_only(learning_rate, beta, weight_decay):
    def init(parameters):
        return jax.tree.map(jnp.zeros_like, parameters)

    def update(gradients, buffers, parameters):
        buffers = jax.tree.map(lambda old, g: g + beta * old, buffers, gradients)

        def delta(m, p):
            rows, columns = p.shape
            unit = orthogonalize(m, 5)
            return -(learning_rate * 0.2 * max(rows, columns) ** 0.5) * unit - (learning_rate * weight_decay) * p

        return jax.tree.map(delta, buffers, parameters), buffers

    return optax.GradientTransformation(init, update)


def muon(learning_rate, beta, weight_decay, rest):
    def which(path, leaf):
        name = jax.tree_util.keystr(path)
        return int(leaf.ndim == 2 and name.count("kernel") > 0 and name.count("head") == 0)

    return optax.multi_transform(
        {1: kernels_only(learning_rate, beta, weight_decay), 0: rest},
        lambda parameters: jax.tree_util.tree_map_with_path(which, parameters),
    )
