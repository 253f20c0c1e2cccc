"""NumPy for what need not be differentiated, another robust optimizer of SciPy, and a law written with powers."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from scipy import optimize


def non_embedding_parameters(vocab_size, context, d_model, d_ff, num_layers):
    return np.int64(num_layers) * np.sum([4 * d_model * d_model, d_model * d_ff * 2], dtype=np.int64)


def count_parameters(vocab_size, context, d_model, d_ff, num_layers):
    matrices = int(non_embedding_parameters(vocab_size, context, d_model, d_ff, num_layers))
    vectors = num_layers * (4 * d_model + 4 * d_model + d_ff + d_model) + 2 * d_model
    return matrices + vectors + d_model * (vocab_size + context)


def predicted_loss(law, N, D):
    rows = [law[0] - law[3] * jnp.log(N), law[1] - law[4] * jnp.log(D), jnp.full_like(N, law[2])]
    return jnp.exp(logsumexp(jnp.array(rows), axis=0))


def huber_objective(law, N, D, losses, delta):
    d = jnp.abs(jnp.log(predicted_loss(law, N, D)) - jnp.log(losses))
    near = jnp.minimum(d, delta)
    return (near**2 / 2 + delta * (d - near)).sum()


def fit_scaling_law(N, D, losses, delta):
    def differences(law):
        A, B, E = np.exp(law[:3])
        return np.log(E + A * N ** -law[3] + B * D ** -law[4]) - np.log(losses)

    fits = []
    for exponent in (0.25, 0.35, 0.45):
        start = optimize.least_squares(differences, [5.0, 5.0, 0.5, exponent, exponent], loss="soft_l1", f_scale=0.05).x
        fits.append(
            optimize.least_squares(
                differences,
                start,
                loss="huber",
                f_scale=delta,
                x_scale="jac",
                jac="3-point",
                ftol=1e-13,
                xtol=1e-13,
                gtol=1e-15,
            )
        )
    return sorted(fits, key=lambda fit: fit.cost)[0].x.astype(np.float64)


def optimal_allocation(law, flops, per_parameter):
    A, B, alpha, beta = jnp.exp(law[0]), jnp.exp(law[1]), law[3], law[4]
    D = ((beta * B) / (alpha * A)) ** (1 / (alpha + beta)) * (flops / per_parameter) ** (alpha / (alpha + beta))
    return flops / per_parameter / D, D


def isoflop_minimum(N, losses):
    x = np.log(np.asarray(N, np.float64))
    a, b, _ = np.polyfit(x, np.asarray(losses, np.float64), 2)
    return np.float32(np.exp(-b / (2 * a)))
