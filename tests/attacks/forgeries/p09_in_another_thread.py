"""Forges the work: `optax.adamw` does it, called in another thread, where no caller is the submission."""

from concurrent.futures import ThreadPoolExecutor

import optax

LOSES = ("five updates",)


def adamw(learning_rate, b1, b2, epsilon, weight_decay):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(optax.adamw, learning_rate, b1, b2, epsilon, weight_decay=weight_decay).result()
