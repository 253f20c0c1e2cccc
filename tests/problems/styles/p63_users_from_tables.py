"""No counts at all: the users of a block are the tables that name it. Attention in two passes over the blocks."""

import jax
import jax.numpy as jnp


class BlockManager:
    def __init__(self, num_blocks, block_size):
        self.all = range(num_blocks)
        self.S = block_size
        self.state = {}

    def users(self, block):
        return [name for name, (blocks, _) in self.state.items() if block in blocks]

    def free_list(self):
        used = {block for blocks, _ in self.state.values() for block in blocks}
        return sorted(set(self.all) - used)

    def free_blocks(self):
        return len(self.free_list())

    def take(self, n):
        free = self.free_list()
        if n > len(free):
            raise MemoryError(f"no {n} free blocks")
        return tuple(free[:n])

    def start(self, name, num_tokens):
        self.state[name] = self.take((num_tokens + self.S - 1) // self.S), num_tokens

    def fork(self, name, new_name):
        self.state[new_name] = self.state[name]

    def free(self, name):
        del self.state[name]

    def table(self, name):
        return list(self.state[name][0])

    def append(self, name):
        blocks, n = self.state[name]
        if n == len(blocks) * self.S:
            blocks, source = blocks + self.take(1), -1
        elif len(self.users(blocks[-1])) > 1:
            blocks, source = blocks[:-1] + self.take(1), blocks[-1]
        else:
            source = -1
        self.state[name] = blocks, n + 1
        return blocks[-1], n % self.S, source


def paged_attention(q, key_blocks, value_blocks, table, length):
    _, S, H, K = key_blocks.shape

    def scores(i):
        keys = jax.lax.dynamic_index_in_dim(key_blocks, table[i], keepdims=False)
        return jnp.where((i * S + jnp.arange(S))[:, None] < length, jnp.sum(keys * q, axis=-1) / K**0.5, -jnp.inf)

    def add(i, sums):
        weights = jnp.exp(scores(i) - top)
        values = jax.lax.dynamic_index_in_dim(value_blocks, table[i], keepdims=False)
        return sums[0] + weights.sum(0), sums[1] + jnp.sum(
            jnp.where(weights[..., None] > 0, weights[..., None] * values, 0), 0
        )

    last = (length - 1) // S + 1
    top = jax.lax.fori_loop(0, last, lambda i, best: jnp.maximum(best, scores(i).max(0)), jnp.full(H, -jnp.inf))
    total, out = jax.lax.fori_loop(0, last, add, (jnp.zeros(H), jnp.zeros((H, K))))
    return out / total[:, None]
