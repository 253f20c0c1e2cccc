"""Reweighted least squares by hand in NumPy, with damping; the budget by bisection; everything else in NumPy where it
can be."""

import jax.numpy as jnp
import numpy as np


def non_embedding_parameters(vocab_size, context, d_model, d_ff, num_layers):
    shapes = [(d_model, d_model)] * 4 + [(d_model, d_ff), (d_ff, d_model)]
    return sum(rows * columns for rows, columns in shapes) * num_layers


def count_parameters(vocab_size, context, d_model, d_ff, num_layers):
    columns_of_a_block = 4 * d_model + d_ff + d_model
    biases = columns_of_a_block * num_layers
    blocks = non_embedding_parameters(vocab_size, context, d_model, d_ff, num_layers)
    norms = (2 * num_layers + 1) * 2 * d_model
    return blocks + biases + norms + vocab_size * d_model + context * d_model


def predicted_loss(law, N, D):
    return jnp.exp(law[2]) + jnp.exp(law[0] - law[3] * jnp.log(N)) + jnp.exp(law[1] - law[4] * jnp.log(D))


def huber_objective(law, N, D, losses, delta):
    r = jnp.log(predicted_loss(law, N, D) / losses)
    inside = jnp.clip(r, -delta, delta)
    return jnp.sum(inside * r - inside**2 / 2)


def fit_scaling_law(N, D, losses, delta):
    log_N, log_D, log_L = np.log(N), np.log(D), np.log(losses)

    def terms(law):
        return np.stack([law[0] - law[3] * log_N, law[1] - law[4] * log_D, np.full(len(N), law[2])])

    def cost(r):
        a = np.abs(r)
        return np.where(a <= delta, a * a / 2, delta * (a - delta / 2)).sum() / delta

    found = []
    for a in (3.0, 6.0):
        for b in (3.0, 6.0):
            law, damping = np.array([a, b, 0.5, 0.3, 0.3]), 1e-2
            for _ in range(1500):
                t = terms(law)
                r = np.logaddexp.reduce(t) - log_L
                p = np.exp(t - np.logaddexp.reduce(t))
                J = np.stack([p[0], p[1], p[2], -p[0] * log_N, -p[1] * log_D], axis=1)
                w = np.minimum(1, delta / np.maximum(np.abs(r), 1e-300)) / delta
                H = J.T @ (w[:, None] * J)
                step = np.linalg.solve(H + damping * np.diag(np.diag(H) + 1e-12), -J.T @ (w * r))
                if cost(np.logaddexp.reduce(terms(law + step)) - log_L) < cost(r):
                    law, damping = law + step, max(damping / 3, 1e-12)
                else:
                    damping *= 4
                    if damping > 1e12:
                        break
            found.append((cost(np.logaddexp.reduce(terms(law)) - log_L), law))
    return min(found, key=lambda pair: pair[0])[1]


def optimal_allocation(law, flops, per_parameter):
    product = jnp.log(flops) - jnp.log(per_parameter)

    def surplus(log_N):
        """Above 0 where a larger N gains more than the smaller D costs."""
        return jnp.log(law[3]) + law[0] - law[3] * log_N - (jnp.log(law[4]) + law[1] - law[4] * (product - log_N))

    low, high = jnp.float32(0), jnp.float32(80)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = jnp.where(surplus(middle) > 0, middle, low), jnp.where(surplus(middle) > 0, high, middle)
    return jnp.exp(low), jnp.exp(product - low)


def isoflop_minimum(N, losses):
    x = jnp.log(N)
    x, shift = x - x.mean(), x.mean()
    rows = jnp.vander(x, 3)
    a, b, _ = jnp.linalg.solve(rows.T @ rows, rows.T @ losses)
    return jnp.exp(shift - b / (2 * a))
