"""Problem 63, reference: a paged cache."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class BlockManager:
    """The tables of a paged cache, with a count of users for each block (Kwon et al. 2023)."""

    def __init__(self, num_blocks: int, block_size: int):
        self.block_size = block_size
        self.users = [0] * num_blocks
        self.tables: dict[str, list[int]] = {}
        self.lengths: dict[str, int] = {}

    def take(self, count: int) -> list[int]:
        """Free blocks with the lowest numbers. Raises MemoryError, and takes none, if there are too few."""
        free = [block for block, users in enumerate(self.users) if users == 0]
        if len(free) < count:
            raise MemoryError(f"{count} blocks are needed and {len(free)} are free")
        for block in free[:count]:
            self.users[block] = 1
        return free[:count]

    def start(self, name: str, num_tokens: int) -> None:
        """Blocks for all tokens, the last one perhaps partly empty."""
        self.tables[name] = self.take(-(-num_tokens // self.block_size))
        self.lengths[name] = num_tokens

    def append(self, name: str) -> tuple[int, int, int]:
        """A new block at the end of a block, and a copy of a block that others use."""
        table, offset, source = self.tables[name], self.lengths[name] % self.block_size, -1
        if offset == 0:
            table += self.take(1)
        elif self.users[table[-1]] > 1:
            (copy,) = self.take(1)
            source, table[-1] = table[-1], copy
            self.users[source] -= 1
        self.lengths[name] += 1
        return table[-1], offset, source

    def fork(self, name: str, new_name: str) -> None:
        """The same blocks, each with one more user."""
        self.tables[new_name] = list(self.tables[name])
        self.lengths[new_name] = self.lengths[name]
        for block in self.tables[name]:
            self.users[block] += 1

    def free(self, name: str) -> None:
        """One user less for each block."""
        for block in self.tables.pop(name):
            self.users[block] -= 1
        del self.lengths[name]

    def table(self, name: str) -> list[int]:
        """A copy, which nobody can change from outside."""
        return list(self.tables[name])

    def free_blocks(self) -> int:
        """The blocks without a user."""
        return self.users.count(0)


def paged_attention(
    q: Float[Array, "H K"],
    key_blocks: Float[Array, "B S H K"],
    value_blocks: Float[Array, "B S H K"],
    table: Int[Array, "M"],
    length: Int[Array, ""],
) -> Float[Array, "H K"]:
    """One block at a time, with a running maximum and sum (Milakov and Gimelshein 2018)."""
    S, (H, K) = key_blocks.shape[1], q.shape

    def block(number: Any, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        best_H, total_H, sum_HK = carry
        visible_S = number * S + jnp.arange(S) < length
        keys_SHK, values_SHK = key_blocks[table[number]], value_blocks[table[number]]
        values_SHK = jnp.where(visible_S[:, None, None], values_SHK, 0.0)  # 0 times NaN is NaN
        scores_HS = jnp.einsum("hk,shk->hs", q, keys_SHK) / jnp.sqrt(K)
        scores_HS = jnp.where(visible_S, scores_HS, -jnp.inf)
        new_H = jnp.maximum(best_H, scores_HS.max(axis=1))
        weights_HS, shrink_H = jnp.exp(scores_HS - new_H[:, None]), jnp.exp(best_H - new_H)
        added_HK = jnp.einsum("hs,shk->hk", weights_HS, values_SHK)
        return new_H, shrink_H * total_H + weights_HS.sum(axis=1), shrink_H[:, None] * sum_HK + added_HK

    start = jnp.full(H, -jnp.inf), jnp.zeros(H), jnp.zeros((H, K))
    _, total_H, sum_HK = jax.lax.fori_loop(0, (length + S - 1) // S, block, start)
    return sum_HK / total_H[:, None]
