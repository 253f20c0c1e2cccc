"""Forges "stages stay on their devices": no mesh is used at all."""

import jax
import jax.numpy as jnp

LOSES = ("stages stay on their devices",)


def pipeline_step(stage, loss, parameters, x, targets, mesh):
    def run(parameters):
        def one(x, target):
            y, _ = jax.lax.scan(lambda y, own: (stage(own, y), None), x, parameters)
            return loss(y, target)

        return jnp.mean(jax.vmap(one)(x, targets))

    value, slopes = jax.value_and_grad(run)(parameters)
    everywhere = jax.NamedSharding(mesh, jax.P())
    return value, jax.tree.map(lambda g: jax.lax.with_sharding_constraint(g, everywhere), slopes)
