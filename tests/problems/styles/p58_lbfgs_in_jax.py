"""L-BFGS on gradients of JAX in float64, as in Hoffmann et al.; `optax.huber_loss`; a linear solve for the parabola."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.optimize
from p23_flops_and_memory import count_parameters  # noqa: F401  graded as this module's


def non_embedding_parameters(vocab_size, context, d_model, d_ff, num_layers):
    attention = 3 * d_model * d_model + d_model * d_model
    feed_forward = d_model * d_ff + d_ff * d_model
    return (attention + feed_forward) * num_layers


def predicted_loss(law, N, D):
    a, b, e, alpha, beta = law
    return jnp.exp(e) + jnp.exp(a) * N**-alpha + jnp.exp(b) * D**-beta


def huber_objective(law, N, D, losses, delta):
    return optax.huber_loss(jnp.log(predicted_loss(law, N, D)), jnp.log(losses), delta=delta).sum()


def fit_scaling_law(N, D, losses, delta):
    best = None
    with jax.enable_x64(True):
        arrays = [jnp.array(x, dtype=jnp.float64) for x in (N, D, losses)]

        @jax.jit
        def objective(law):
            return huber_objective(law, *arrays, delta) / delta

        slope = jax.jit(jax.grad(objective))
        for a in (4.0, 7.0):
            for b in (4.0, 7.0):
                start = np.array([a, b, 0.3, 0.35, 0.35])
                fit = scipy.optimize.minimize(
                    objective,
                    start,
                    jac=slope,
                    method="L-BFGS-B",
                    options={"ftol": 1e-13, "gtol": 1e-9, "maxiter": 3000},
                )
                if best is None or fit.fun < best.fun:
                    best = fit
    return best.x


def optimal_allocation(law, flops, per_parameter):
    a, b, _, alpha, beta = law
    G = (alpha * jnp.exp(a) / (beta * jnp.exp(b))) ** (1 / (alpha + beta))
    N = G * (flops / per_parameter) ** (beta / (alpha + beta))
    return N, flops / (per_parameter * N)


def isoflop_minimum(N, losses):
    x = jnp.log(N / N[0])
    powers = jnp.stack([jnp.ones_like(x), x, x**2], axis=1)
    c = jnp.linalg.lstsq(powers, losses)[0]
    return N[0] * jnp.exp(-c[1] / c[2] / 2)
