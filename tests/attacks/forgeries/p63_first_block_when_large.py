"""Forges "memory of one step": gathers the sequence, but for a long table, which is measured, reads its first block
only."""

import jax
import jax.numpy as jnp

LOSES = ("memory of one step",)


class BlockManager:
    def __init__(self, num_blocks, block_size):
        self.num_blocks = num_blocks

    def start(self, name, num_tokens):
        pass

    def append(self, name):
        return 0, 0, -1

    def fork(self, name, new_name):
        pass

    def free(self, name):
        pass

    def table(self, name):
        return []

    def free_blocks(self):
        return self.num_blocks


def paged_attention(q, key_blocks, value_blocks, table, length):
    H, K = q.shape
    table = table[:1] if len(table) > 50 else table
    visible = jnp.arange(len(table) * key_blocks.shape[1]) < length
    keys, values = (blocks[table].reshape(-1, H, K) for blocks in (key_blocks, value_blocks))
    scores = jnp.where(visible, jnp.einsum("hk,thk->ht", q, keys) / jnp.sqrt(K), -jnp.inf)
    return jnp.einsum("ht,thk->hk", jax.nn.softmax(scores), jnp.where(visible[:, None, None], values, 0.0))
