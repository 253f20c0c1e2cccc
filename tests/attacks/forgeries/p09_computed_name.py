"""Forges the work: `optax.scale_by_adam` does it, under a name that is put together."""

import optax

LOSES = ("five updates",)


def adamw(learning_rate, b1, b2, epsilon, weight_decay):
    moments = getattr(optax, "_".join(["scale", "by", "adam"]))(b1, b2, epsilon)
    return optax.chain(moments, optax.add_decayed_weights(weight_decay), optax.scale(-learning_rate))
