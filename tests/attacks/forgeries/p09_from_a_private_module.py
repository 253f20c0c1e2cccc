"""Forges the work: the private module that defines `optax.adamw` has it under another name."""

import optax._src.alias as names

LOSES = ("five updates",)
make = names.adamw


def adamw(learning_rate, b1, b2, epsilon, weight_decay):
    return make(learning_rate, b1, b2, epsilon, weight_decay=weight_decay)
