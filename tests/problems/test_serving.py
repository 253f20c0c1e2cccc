"""The references of the problems on serving agree with independent oracles."""

import ast
import itertools
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from problems.p63_paged_cache import problem as paged
from problems.p64_continuous_batching import problem as batching
from problems.p65_constrained_decoding import problem as constrained
from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


def pattern(expression) -> bytes:
    """An expression as Python's `re` writes it."""
    kind, *parts = expression
    if kind == "byte":
        return b"[" + b"".join(b"\\x%02x" % byte for byte in parts[0]) + b"]"
    inner = [pattern(part) for part in parts]
    return b"(?:" + (b"|" if kind == "or" else b"").join(inner) + b")" + (b"*" if kind == "many" else b"")


def read(transitions, accepting, text: bytes) -> bool:
    state = 0
    for byte in text:
        state = int(transitions[state, byte]) if state >= 0 else -1
    return state >= 0 and bool(accepting[state])


def expressions():
    yield from itertools.chain(*constrained.EXPRESSIONS.values())
    rng = np.random.default_rng(0)
    for _ in range(40):
        yield constrained.random_expression(3, rng)


def test_automata_accept_what_python_matches():
    from p65_constrained_decoding import build_automaton

    texts = [bytes(letters) for n in range(6) for letters in itertools.product(b"abc", repeat=n)]
    matched = 0
    for expression in expressions():
        automaton, oracle = build_automaton(expression), re.compile(pattern(expression))
        own = [read(*automaton, text) for text in texts]
        assert own == [bool(oracle.fullmatch(text)) for text in texts]
        matched += sum(own)
    assert matched > 1000


def test_every_state_of_an_automaton_can_reach_an_end():
    from p65_constrained_decoding import build_automaton

    for expression in expressions():
        transitions, accepting = build_automaton(expression)
        alive = accepting.copy()
        for _ in transitions:
            alive |= ((transitions >= 0) & alive[transitions]).any(axis=1)
        assert alive.all()


def test_allowed_tokens_are_those_that_begin_a_text_of_the_rule():
    """By trying: a row of tokens is possible if and only if a longer row of tokens ends in a match."""
    from p65_constrained_decoding import build_automaton, token_transitions

    vocabulary = [b"a", b"ab", b"bc", b"c", b"", b"abc", b"<end>"]
    rng = np.random.default_rng(1)
    for expression in [constrained.random_expression(3, rng) for _ in range(12)]:
        oracle = re.compile(pattern(expression))
        rows = [row for n in range(6) for row in itertools.product((0, 1, 2, 3, 5), repeat=n)]
        finished = {row for row in rows if oracle.fullmatch(b"".join(vocabulary[each] for each in row))}
        beginnings = {row[:n] for row in finished for n in range(len(row) + 1)}
        table = token_transitions(*build_automaton(expression), vocabulary, 6)
        for row in (row for row in rows if len(row) < 3):
            state = 0
            for each in row:
                state = table[state, each] if state >= 0 else -1
            if row in beginnings:
                assert state >= 0
                assert (table[state, 6] >= 0) == (row in finished)
            elif row and state >= 0:  # more than five tokens finish it
                assert ends(table, state, 6)


def ends(table, state: int, end_id: int) -> bool:
    """Whether tokens lead from a state to the end token."""
    seen, states = set(), [state]
    while states:
        state = states.pop()
        if table[state, end_id] >= 0:
            return True
        if state not in seen:
            seen.add(state)
            states += [int(each) for each in table[state] if each >= 0]
    return False


@pytest.mark.parametrize("block_size", [1, 2, 3])
def test_blocks_hold_what_the_sequences_say(block_size):
    """A cache of tokens that does only what the manager says, beside sequences that share nothing."""
    from p63_paged_cache import BlockManager

    rng = np.random.default_rng(block_size)
    events = ast.literal_eval(paged.freed({"B": 400, "S": block_size, "events": 300}, rng)["events"])
    manager, cache, texts = BlockManager(400, block_size), np.full((400, block_size), -1), {}
    copies = 0
    for name, *arguments in events:
        act = getattr(manager, name)
        if name == "start":
            text = rng.integers(0, 1000, arguments[1]).tolist()
            act(*arguments)
            for place, token in enumerate(text):
                cache[manager.table(arguments[0])[place // block_size], place % block_size] = token
            texts[arguments[0]] = text
        elif name == "append":
            token = int(rng.integers(0, 1000))
            block, offset, source = act(*arguments)
            if source >= 0:
                cache[block], copies = cache[source], copies + 1
            cache[block, offset] = token
            texts[arguments[0]].append(token)
        elif name == "fork":
            act(*arguments)
            texts[arguments[1]] = list(texts[arguments[0]])
        else:
            act(*arguments)
            del texts[arguments[0]]
        for each, text in texts.items():
            table = manager.table(each)
            assert len(table) == -(-len(text) // block_size)
            assert cache[table].ravel()[: len(text)].tolist() == text
        used = {block for each in texts for block in manager.table(each)}
        assert manager.free_blocks() == 400 - len(used)
    assert bool(copies) == (block_size > 1)


def test_attention_over_blocks_equals_that_of_jax():
    from p63_paged_cache import paged_attention

    values = paged.garbage({"B": 9, "S": 4, "H": 2, "K": 4, "M": 5, "empty": 2, "left": 2}, np.random.default_rng(0))
    length, table = int(values["length"]), values["table"]
    keys, rows = (values[name][table].reshape(-1, 2, 4)[:length] for name in ("key_blocks", "value_blocks"))
    out = paged_attention(
        *(jnp.asarray(values[name]) for name in ("q", "key_blocks", "value_blocks", "table", "length"))
    )
    np.testing.assert_allclose(out, jax.nn.dot_product_attention(values["q"][None], keys, rows)[0], atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_a_server_keeps_its_limits_and_everybody_gets_the_answer_of_one_alone(seed):
    """A cache that holds what was computed and nothing else, and a bound on the steps, which starvation would break."""
    from p64_continuous_batching import Scheduler, serve

    rng = np.random.default_rng(seed)
    B, S, budget, running = 9, 2, 5, 3
    requests = [
        (arrival, f"r{number}", rng.integers(1, 40, rng.integers(1, 9)).tolist(), int(rng.integers(1, 9)))
        for number, arrival in enumerate(np.sort(rng.integers(0, 30, 14)).tolist())
    ]

    def following(token_ids):
        return sum((place + 3) * each * each for place, each in enumerate(token_ids)) % 40  # 0 ends an answer

    caches, computed, again = {}, 0, set()

    def run(batch):
        nonlocal computed
        assert 0 < sum(len(token_ids) for _, _, token_ids in batch) <= budget
        for name, start, token_ids in batch:
            assert start == 0 or start == len(caches[name]), "a gap, or work done twice"
            if start == 0 and caches.get(name):
                again.add(name)
            caches[name] = [*caches.get(name, [])[:start], *token_ids]
            computed += len(token_ids)
        holding = [name for name, _, _ in batch]
        assert len(holding) <= running
        assert sum(-(-len(caches[name]) // S) for name in holding) <= B
        return {name: following(caches[name]) for name in holding}

    answers = serve(run, requests, Scheduler(B, S, budget, running), 0)
    for _, name, prompt, most in requests:
        alone = []
        while len(alone) < most and (token := following(prompt + alone)):
            alone.append(token)
        assert answers[name] == alone
    assert len(answers) == len(requests)
    assert again, "nobody was evicted, so this tests little"
    assert computed < 3 * sum(len(prompt) + most for _, _, prompt, most in requests)


def test_tokens_of_a_mixed_batch_see_what_they_would_see_alone():
    from p64_continuous_batching import batched_attention

    sizes = {"R": 5, "L": 8, "H": 2, "K": 4, "chunk": 3, "unused": 2}
    values = batching.batch(True, sizes, np.random.default_rng(0))
    names = ("q", "k", "v", "keys", "values", "rows", "positions")
    out, keys, _ = jax.jit(batched_attention)(*(jnp.asarray(values[name]) for name in names))
    caches = {name: values[name].copy() for name in ("keys", "values")}
    used = values["rows"] >= 0
    places = values["rows"][used], values["positions"][used]
    caches["keys"][places], caches["values"][places] = values["k"][used], values["v"][used]
    np.testing.assert_array_equal(keys, caches["keys"])
    for n, (row, position) in enumerate(zip(values["rows"], values["positions"], strict=True)):
        if row < 0:
            assert not out[n].any()
            continue
        own = (caches[name][row, : position + 1] for name in ("keys", "values"))
        np.testing.assert_allclose(out[n], jax.nn.dot_product_attention(values["q"][n][None], *own)[0], atol=1e-5)
