"""Problem 58: scaling laws. The page is in pages/p58_scaling_laws.md."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import least_squares, minimize


def count_parameters(
    vocab_size: int,
    context: int,
    d_model: int,
    d_ff: int,
    num_layers: int,
) -> int:
    """All parameters of a MiniGPT, as in problem 23."""
    raise NotImplementedError


def non_embedding_parameters(
    vocab_size: int,
    context: int,
    d_model: int,
    d_ff: int,
    num_layers: int,
) -> int:
    """Those in the weight matrices of its blocks: no biases, norms or embeddings."""
    raise NotImplementedError


def predicted_loss(
    law: Float[Array, "5"],
    N: Float[Array, "M"],
    D: Float[Array, "M"],
) -> Float[Array, "M"]:
    """The losses, (M,), of models with N parameters that are trained on D tokens. `law`
    is log A, log B, log E, alpha, beta."""
    raise NotImplementedError


def huber_objective(
    law: Float[Array, "5"],
    N: Float[Array, "M"],
    D: Float[Array, "M"],
    losses: Float[Array, "M"],
    delta: float,
) -> Float[Array, ""]:
    """The sum over runs of the Huber loss of log predicted loss - log loss."""
    raise NotImplementedError


def fit_scaling_law(
    N: Float[np.ndarray, "M"],
    D: Float[np.ndarray, "M"],
    losses: Float[np.ndarray, "M"],
    delta: float,
) -> Float[np.ndarray, "5"]:
    """The law with the lowest objective, (5,) float64. The arrays are
    NumPy arrays of float64."""
    raise NotImplementedError


def optimal_allocation(
    law: Float[Array, "5"], flops: float, per_parameter: float
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The N and D with per_parameter * N * D = flops and the lowest predicted loss."""
    raise NotImplementedError


def isoflop_minimum(
    N: Float[Array, "M"],
    losses: Float[Array, "M"],
) -> Float[Array, ""]:
    """The N at the minimum of the parabola that fits the losses of runs with
    equal operations over log N."""
    raise NotImplementedError
