"""The paged cache: tables that sequences share, and attention to what they name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.attention import cached_attention
from harness.model.paged_cache import BlockManager, Blocks, paged_attention

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["start", "append", "append", "append", "fork", "free"]), st.integers(0, 9), st.integers(0, 9)
    ),
    max_size=60,
)


@given(EVENTS, st.integers(1, 4), st.integers(1, 9))
def test_each_sequence_reads_its_own_tokens(events: list[tuple[str, int, int]], size: int, number: int) -> None:
    """Tokens are written where the manager says, and the table gives them back, whatever other sequences do."""
    manager, store = BlockManager(number, size), np.full((number, size), -1)
    tokens: dict[str, list[int]] = {}
    for step, (event, chosen, count) in enumerate(events):
        name = f"s{chosen}" if event == "start" or not tokens else [*tokens][chosen % len(tokens)]
        before = {each: [*manager.table(each)] for each in tokens}, manager.free_blocks()
        try:
            if event == "start" and name not in tokens:
                manager.start(name, count)
                tokens[name] = [*range(100 * step, 100 * step + count)]
                for index, token in enumerate(tokens[name]):
                    store[manager.table(name)[index // size], index % size] = token
            elif event == "append" and name in tokens:
                block, place, source = manager.append(name)
                if source >= 0:
                    store[block] = store[source]
                store[block, place] = 100 * step
                tokens[name].append(100 * step)
            elif event == "fork" and name in tokens and f"f{step}" not in tokens:
                manager.fork(name, f"f{step}")
                tokens[f"f{step}"] = [*tokens[name]]
            elif event == "free" and name in tokens:
                manager.free(name)
                del tokens[name]
        except MemoryError:
            assert before == ({each: [*manager.table(each)] for each in tokens}, manager.free_blocks())
    for name, expected in tokens.items():
        table = manager.table(name)
        assert len(table) == -(-len(expected) // size)
        assert store[table].reshape(-1)[: len(expected)].tolist() == expected
    used = {block for name in tokens for block in manager.table(name)}
    assert manager.free_blocks() == number - len(used)


@pytest.mark.parametrize("window", [0, 5, "traced"])
@pytest.mark.parametrize(("size", "wide"), [(4, 1), (4, 3), (40, 2)])
@pytest.mark.usefixtures("strict_dtypes")
def test_attention_over_blocks_is_attention_over_the_whole(size: int, wide: int, window: int | str) -> None:
    rng = np.random.default_rng(0)
    rows, groups, width, layers, longest = 3, 2, 8, 2, 70
    number = -(-longest // size)
    k_BGSK, v_BGSK = (
        rng.normal(size=(rows, groups, number * size, width)).astype(np.float32) - 3 for _ in range(2)
    )  # all scores may be far below 0
    positions_BT = np.array([[69], [5], [30]])
    positions_BT = positions_BT - np.arange(wide)[::-1]
    q_BTHK = rng.normal(size=(rows, wide, 4, width)).astype(np.float32) * 10
    tables_BM = rng.permutation(rows * number + 2)[: rows * number].reshape(rows, number).astype(np.int32)
    blocks = [np.full((layers, rows * number + 2, size, groups, width), np.nan, np.float32) for _ in range(2)]
    for row in range(rows):
        for position in range(positions_BT[row].max() + 1):
            for store, x_BGSK in zip(blocks, (k_BGSK, v_BGSK), strict=True):
                store[1, tables_BM[row, position // size], position % size] = x_BGSK[row, :, position]
        tables_BM[row, positions_BT[row].max() // size + 1 :] = rows * number + 2  # no block
    span = jnp.int32(5) if window == "traced" else window
    sinks_H = jnp.array([-30.0, 0.0, 5.0, 30.0]) if window == 5 else None
    given = (q_BTHK, Blocks(*map(jnp.asarray, blocks)), jnp.int32(1), tables_BM, positions_BT.astype(np.int32), span)
    out = jax.jit(paged_attention, static_argnums=5 if isinstance(span, int) else ())(*given, sinks_H)
    for row in range(rows):
        one = (x[row : row + 1] for x in (q_BTHK, k_BGSK, v_BGSK))
        own = (jnp.asarray(positions_BT[row]), 5 if window else 0, sinks_H)
        expected = cached_attention(*map(jnp.asarray, one), *own)
        np.testing.assert_allclose(out[row], expected[0], rtol=1e-5, atol=1e-5)
