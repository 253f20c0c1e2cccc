"""Free blocks in a heap, sequences as objects, and a scan over the whole table."""

import heapq
from collections import Counter
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp


@dataclass
class Sequence:
    blocks: list = field(default_factory=list)
    tokens: int = 0


class BlockManager:
    def __init__(self, num_blocks, block_size):
        self.heap, self.size, self.users, self.sequences = list(range(num_blocks)), block_size, Counter(), {}

    def start(self, name, num_tokens):
        count = num_tokens // self.size + bool(num_tokens % self.size)
        if count > len(self.heap):
            raise MemoryError
        self.sequences[name] = Sequence([self._one() for _ in range(count)], num_tokens)

    def _one(self):
        if not self.heap:
            raise MemoryError("no block is free")
        block = heapq.heappop(self.heap)
        self.users[block] += 1
        return block

    def _leave(self, block):
        self.users[block] -= 1
        if not self.users[block]:
            heapq.heappush(self.heap, block)

    def append(self, name):
        sequence = self.sequences[name]
        number, offset = divmod(sequence.tokens, self.size)
        source = None
        if number == len(sequence.blocks):
            sequence.blocks.append(self._one())
        elif self.users[sequence.blocks[number]] != 1:
            new = self._one()
            source = sequence.blocks[number]
            self._leave(source)
            sequence.blocks[number] = new
        sequence.tokens += 1
        return sequence.blocks[number], offset, -1 if source is None else source

    def fork(self, name, new_name):
        old = self.sequences[name]
        self.users.update(old.blocks)
        self.sequences[new_name] = Sequence(old.blocks.copy(), old.tokens)

    def free(self, name):
        for block in self.sequences.pop(name).blocks:
            self._leave(block)

    def table(self, name):
        return self.sequences[name].blocks

    def free_blocks(self):
        return len(self.heap)


def paged_attention(q, key_blocks, value_blocks, table, length):
    S = key_blocks.shape[1]

    def turn(carry, place):
        top, below, above = carry
        first, block = place
        there = (first + jnp.arange(S) < length)[None]
        k, v = jnp.moveaxis(key_blocks[block], 0, 1), jnp.moveaxis(value_blocks[block], 0, 1)
        s = jnp.where(there, jnp.einsum("hk,hsk->hs", q, k) * k.shape[-1] ** -0.5, -1e30)
        v = jnp.where(there[..., None], v, 0)
        new = jnp.maximum(top, s.max(-1))
        w = jnp.where(there, jnp.exp(s - new[:, None]), 0)
        old = jnp.exp(top - new)
        return (new, old * below + w.sum(-1), old[:, None] * above + jnp.einsum("hs,hsk->hk", w, v)), None

    H, K = q.shape
    start = jnp.full(H, -1e30), jnp.zeros(H), jnp.zeros((H, K))
    (_, below, above), _ = jax.lax.scan(turn, start, (jnp.arange(len(table)) * S, table))
    return above / below[:, None]
