"""A cache of keys and values in blocks that sequences share (Kwon et al. 2023, "PagedAttention").

The manager says on the host which blocks a sequence has. Programs get its table, and read and write the blocks that are
in it.

Shapes: L layers, N blocks, S positions of a block, G heads of keys and values, K head width, H heads, R heads of a
group, B rows, T positions of a row, M blocks of a table, C blocks of a tile, P = C S.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from harness.model.attention import by_group, is_hidden
from harness.model_config import GPTConfig

TILE = 64  # positions that are read together: fewer take longer on a CPU, and so do all at once


class Manager(Protocol):
    """What says which blocks a sequence has. Methods that need a block raise MemoryError, and change nothing, if none
    is free."""

    def start(self, name: str, num_tokens: int) -> None: ...

    def append(self, name: str) -> tuple[int, int, int]: ...

    def fork(self, name: str, new_name: str) -> None: ...

    def free(self, name: str) -> None: ...

    def table(self, name: str) -> list[int]: ...

    def free_blocks(self) -> int: ...


class BlockManager:
    """The tables of sequences by name, with a count of users for each block."""

    def __init__(self, num_blocks: int, block_size: int):
        self._size, self._users = block_size, [0] * num_blocks
        self._free = [*range(num_blocks)][::-1]
        self._tables: dict[str, list[int]] = {}
        self._lengths: dict[str, int] = {}

    def start(self, name: str, num_tokens: int) -> None:
        """Begins a sequence with room for so many tokens."""
        self._tables[name] = self._taken(-(-num_tokens // self._size))
        self._lengths[name] = num_tokens

    def append(self, name: str) -> tuple[int, int, int]:
        """Makes room for a token: its block, its place there, and the block that has to be copied into this one first,
        or -1."""
        table, place, source = self._tables[name], self._lengths[name] % self._size, -1
        if place == 0:
            table += self._taken(1)
        elif self._users[table[-1]] > 1:
            (copy,) = self._taken(1)
            source, table[-1] = table[-1], copy
            self._users[source] -= 1
        self._lengths[name] += 1
        return table[-1], place, source

    def fork(self, name: str, new_name: str) -> None:
        """Begins a sequence with the tokens and the blocks of another one."""
        self._tables[new_name], self._lengths[new_name] = [*self._tables[name]], self._lengths[name]
        for block in self._tables[name]:
            self._users[block] += 1

    def free(self, name: str) -> None:
        """Ends a sequence. Blocks that no other one uses are free."""
        del self._lengths[name]
        for block in self._tables.pop(name):
            self._users[block] -= 1
            if not self._users[block]:
                self._free.append(block)

    def table(self, name: str) -> list[int]:
        """The blocks of a sequence, in order."""
        return self._tables[name]

    def free_blocks(self) -> int:
        """The number of blocks without a user."""
        return len(self._free)

    def _taken(self, count: int) -> list[int]:
        if count > len(self._free):
            raise MemoryError(f"{count} blocks are needed and {len(self._free)} are free")
        taken = [self._free.pop() for _ in range(count)]
        for block in taken:
            self._users[block] = 1
        return taken


class Blocks(NamedTuple):
    """The keys and values of all blocks."""

    k_LNSGK: Float[Array, "L N S G K"]
    v_LNSGK: Float[Array, "L N S G K"]

    def copied(self, sources_B: Int[Array, "B"], targets_B: Int[Array, "B"]) -> "Blocks":
        """Copies blocks into others. A target of N stands for none."""
        return Blocks(*(x.at[:, targets_B].set(x[:, sources_B], mode="drop") for x in self))


def empty_blocks(config: GPTConfig, number: int, size: int) -> Blocks:
    """So many blocks of so many positions, for all layers of a model."""
    shape = (config.num_layers, number, size, config.kv_heads, config.per_head)
    return Blocks(jnp.zeros(shape, config.dtype), jnp.zeros(shape, config.dtype))


def paged_attention(
    q_BTHK: Float[Array, "B T H K"],
    blocks: Blocks,
    layer: Int[Array, ""],
    tables_BM: Int[Array, "B M"],
    positions_BT: Int[Array, "B T"],
    window: int | Int[Array, ""] = 0,
    sinks_H: Float[Array, "H"] | None = None,
) -> Float[Array, "B T H K"]:
    """The attention of queries at some positions to the keys up to them, in blocks of the tables.

    Takes a tile of a few blocks at a time, with a running maximum and sum (Milakov and Gimelshein 2018), from the first
    that a window leaves to the last that is needed. A window that is traced must be at least 1.
    """
    (B, T, H, K), (_, _, S, G, _), M = q_BTHK.shape, blocks.k_LNSGK.shape, tables_BM.shape[1]
    C = min(max(TILE // S, 1), M)
    tables_BM = jnp.pad(tables_BM, ((0, 0), (0, -M % C)))
    q_BTGRK = q_BTHK.reshape(B, T, G, H // G, K)
    einsum = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)

    def tile(number: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        best_BGRT, total_BGRT, sum_BGRTK = carry
        table_BC = jax.lax.dynamic_slice_in_dim(tables_BM, number * C, C, axis=1)
        k_BPGK, v_BPGK = (x[layer, table_BC].reshape(B, C * S, G, K) for x in blocks)
        hidden_BTP = is_hidden(positions_BT[:, :, None], (number * C * S + jnp.arange(C * S))[None, None, :], window)
        # Places behind the last token may hold anything, and 0 times NaN is NaN.
        v_BPGK = jnp.where(hidden_BTP.all(axis=1)[:, :, None, None], 0, v_BPGK)
        scores_BGRTP = einsum("btgrk,bpgk->bgrtp", q_BTGRK, k_BPGK) * K**-0.5
        scores_BGRTP = jnp.where(hidden_BTP[:, None, None], -jnp.inf, scores_BGRTP)
        new_BGRT = jnp.maximum(best_BGRT, scores_BGRTP.max(axis=-1))
        weights_BGRTP, shrink_BGRT = jnp.exp(scores_BGRTP - new_BGRT[..., None]), jnp.exp(best_BGRT - new_BGRT)
        added_BGRTK = einsum("bgrtp,bpgk->bgrtk", weights_BGRTP.astype(v_BPGK.dtype), v_BPGK)
        sum_BGRTK = shrink_BGRT[..., None] * sum_BGRTK + added_BGRTK
        return new_BGRT, shrink_BGRT * total_BGRT + weights_BGRTP.sum(axis=-1), sum_BGRTK

    shape = (B, G, H // G, T)
    # A finite maximum at the start: in a tile that the mask hides, it stays, and all weights are 0.
    start = jnp.full(shape, jnp.finfo(jnp.float32).min), jnp.zeros(shape), jnp.zeros((*shape, K))
    if sinks_H is not None:  # as if seen before the first tile
        start = jnp.broadcast_to(by_group(sinks_H, G), shape), jnp.ones(shape), start[2]
    has_window = not isinstance(window, int) or window > 0
    first = jnp.maximum(positions_BT.min() - window + 1, 0) // (C * S) if has_window else 0
    last = jnp.minimum(positions_BT.max() // (C * S) + 1, tables_BM.shape[1] // C)
    _, total_BGRT, sum_BGRTK = jax.lax.fori_loop(first, last, tile, start)
    mixed_BGRTK = sum_BGRTK / total_BGRT[..., None]
    return jnp.moveaxis(mixed_BGRTK, 3, 1).reshape(B, T, H, K).astype(q_BTHK.dtype)


PagedAttend = Callable[..., Array]  # `paged_attention`, or another one of its signature


@functools.partial(jax.tree_util.register_dataclass, data_fields=["blocks", "tables_BM"], meta_fields=["attention"])
@dataclass(frozen=True)
class PagedCache:
    """The cache of `Attention` with the blocks of B rows.

    Where a row has no block, its table has N, and nothing is written.
    """

    blocks: Blocks
    tables_BM: Int[Array, "B M"]
    attention: PagedAttend = paged_attention

    def attend(
        self, q_BTHK: Array, k_BTGK: Array, v_BTGK: Array, position: Any, layer: Any, window: Any, *sinks: Array
    ) -> tuple[Array, "PagedCache"]:
        """The attention of rows that start at a position each, and the cache extended by their keys and values."""
        (N, S), T = self.blocks.k_LNSGK.shape[1:3], q_BTHK.shape[1]
        positions_BT = jnp.add.outer(position, jnp.arange(T))
        block_BT = jnp.take_along_axis(self.tables_BM, positions_BT // S, axis=1, mode="fill", fill_value=N)
        places = (layer, block_BT, positions_BT % S)
        new = zip(self.blocks, (k_BTGK, v_BTGK), strict=True)
        blocks = Blocks(*(x.at[places].set(x_BTGK, mode="drop") for x, x_BTGK in new))
        mixed_BTHK = self.attention(q_BTHK, blocks, layer, self.tables_BM, positions_BT, window, *sinks)
        return mixed_BTHK, PagedCache(blocks, self.tables_BM, self.attention)
