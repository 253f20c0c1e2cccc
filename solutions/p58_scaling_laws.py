"""Problem 58, reference: a scaling law, fitted, and what it says about a budget (Hoffmann et al. 2022)."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import least_squares


def count_parameters(vocab_size: int, context: int, d_model: int, d_ff: int, num_layers: int) -> int:
    """All of them, as Hoffmann et al. (2022) count."""
    blocks = non_embedding_parameters(vocab_size, context, d_model, d_ff, num_layers)
    biases_and_norms = num_layers * (9 * d_model + d_ff) + 2 * d_model
    embeddings = (vocab_size + context) * d_model
    return embeddings + blocks + biases_and_norms


def non_embedding_parameters(vocab_size: int, context: int, d_model: int, d_ff: int, num_layers: int) -> int:
    """The matrices of all blocks, as Kaplan et al. (2020) count: four for attention, two for the feed-forward
    network."""
    return num_layers * (4 * d_model**2 + 2 * d_model * d_ff)


def predicted_loss(law: Float[Array, "5"], N: Float[Array, "M"], D: Float[Array, "M"]) -> Float[Array, "M"]:
    """E + A / N^alpha + B / D^beta, from the logarithms of its three terms."""
    return jnp.exp(_log_loss(law, N, D))


def _log_loss(law: Array, N: Array, D: Array) -> Array:
    log_A, log_B, log_E, alpha, beta = law
    terms = jnp.stack(jnp.broadcast_arrays(log_A - alpha * jnp.log(N), log_B - beta * jnp.log(D), log_E))
    return jax.nn.logsumexp(terms, axis=0)


def huber_objective(
    law: Float[Array, "5"], N: Float[Array, "M"], D: Float[Array, "M"], losses: Float[Array, "M"], delta: float
) -> Float[Array, ""]:
    """The sum of the Huber losses of the differences of logarithms."""
    distance = jnp.abs(_log_loss(law, N, D) - jnp.log(losses))
    return jnp.sum(jnp.where(distance <= delta, distance**2 / 2, delta * (distance - delta / 2)))


def fit_scaling_law(
    N: Float[np.ndarray, "M"], D: Float[np.ndarray, "M"], losses: Float[np.ndarray, "M"], delta: float
) -> Float[np.ndarray, "5"]:
    """The best of the laws that least squares with Huber's loss finds from several starts, in float64."""

    def distances(law: np.ndarray) -> np.ndarray:
        log_A, log_B, log_E, alpha, beta = law
        terms = log_A - alpha * np.log(N), log_B - beta * np.log(D), np.full(len(N), log_E)
        return np.logaddexp.reduce(terms) - np.log(losses)

    starts = product((3.0, 6.0), (3.0, 6.0), (0.5,), (0.3,), (0.3,))
    options = {"loss": "huber", "f_scale": delta, "x_scale": "jac", "ftol": 1e-10, "xtol": 1e-10}
    fits = [least_squares(distances, start, **options) for start in starts]
    return np.asarray(min(fits, key=lambda fit: fit.cost).x)


def optimal_allocation(
    law: Float[Array, "5"], flops: float, per_parameter: float
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The best N and D with per_parameter * N * D = flops: there, alpha A / N^alpha = beta B / D^beta."""
    log_A, log_B, _, alpha, beta = law
    log_ratio = (jnp.log(alpha) + log_A - jnp.log(beta) - log_B) / (alpha + beta)
    log_ND = jnp.log(flops / per_parameter)
    log_N = log_ratio + beta / (alpha + beta) * log_ND
    return jnp.exp(log_N), jnp.exp(log_ND - log_N)


def isoflop_minimum(N: Float[Array, "M"], losses: Float[Array, "M"]) -> Float[Array, ""]:
    """The N at the vertex of the parabola through the losses over log N."""
    log_N = jnp.log(N)
    middle = jnp.mean(log_N)
    square, slope, _ = jnp.polyfit(log_N - middle, losses, 2)
    return jnp.exp(middle - slope / (2 * square))
