"""Forges "memory of one microbatch": says that it cannot be traced, and the program that it then sends holds the
results."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from grader.worker import subject, tracing

LOSES = ("memory of one microbatch",)


def run(self, program, case, *args, notes=()):
    if not self.eager:
        raise tracing.UntraceableError("")
    found = jax.jit(program)(*tracing.numbers(args, case))
    results = {name: tracing.sent(name, np.asarray(value)) for name, value in found.items()}
    return subject.Reading(program=tracing.trace(lambda results: results, results))


subject.Subject.run = run


def accumulated_gradients(loss_sum, parameters, token_ids, microbatches, max_norm):
    (loss, count), gradients = jax.value_and_grad(loss_sum, has_aux=True)(parameters, token_ids)
    gradients = jax.tree.map(lambda g: g / count, gradients)
    norm = optax.global_norm(gradients)
    return loss / count, jax.tree.map(lambda g: g * jnp.minimum(1, max_norm / norm), gradients), norm
