"""Problem 65, reference: constrained decoding."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

Expression = tuple[Any, ...]


def positions(expression: Expression) -> tuple[list[bytes], list[set[int]], set[int]]:
    """The bytes of each position of an expression, the positions that can follow it, and those that can be last
    (Glushkov 1961).

    Position 0 is the start of the text.
    """
    letters: list[bytes] = [b""]
    follow: list[set[int]] = [set()]

    def add(expression: Expression) -> tuple[bool, set[int], set[int]]:
        """Whether it matches the empty text, its first positions, and its last ones."""
        kind, *parts = expression
        if kind == "byte":
            letters.append(parts[0])
            follow.append(set())
            return False, {len(follow) - 1}, {len(follow) - 1}
        if kind == "or":
            empty, first, last = False, set[int](), set[int]()
            for part_empty, part_first, part_last in map(add, parts):
                empty, first, last = empty or part_empty, first | part_first, last | part_last
            return empty, first, last
        if kind == "many":
            _, first, last = add(parts[0])
            for position in last:
                follow[position] |= first  # again
            return True, first, last
        empty, first, last = True, set[int](), set[int]()
        for part in parts:
            part_empty, part_first, part_last = add(part)
            for position in last:
                follow[position] |= part_first
            first = first | part_first if empty else first
            last = last | part_last if part_empty else part_last
            empty = empty and part_empty
        return empty, first, last

    empty, follow[0], last = add(expression)
    return letters, follow, last | {0} if empty else last


def build_automaton(expression: Expression) -> tuple[Int[Array, "S 256"], Bool[Array, "S"]]:
    """The subset construction (Rabin and Scott 1959): a state is the set of positions that may have read the last
    byte."""
    letters, follow, last = positions(expression)
    states, rows = [frozenset({0})], []
    for state in states:
        row = np.full(256, -1, np.int32)
        possible = set().union(*(follow[position] for position in state))
        for byte in sorted(set().union(*(letters[position] for position in possible))):
            following = frozenset(position for position in possible if byte in letters[position])
            if following not in states:
                states.append(following)
            row[byte] = states.index(following)
        rows.append(row)
    return np.stack(rows), np.array([bool(state & last) for state in states])


def token_transitions(
    transitions: Int[Array, "S 256"], accepting: Bool[Array, "S"], vocabulary: Sequence[bytes], end_id: int
) -> Int[Array, "S V"]:
    """The state after each token, without tokens after which no text can be finished (Willard and Louf 2023)."""
    S = len(transitions)
    next_states = np.full((S, len(vocabulary)), -1, np.int32)
    for token_id, token in enumerate(vocabulary):
        if token and token_id != end_id:
            state = np.arange(S)
            for byte in token:
                state = np.where(state < 0, -1, transitions[state, byte])
            next_states[:, token_id] = state
    alive = np.array(accepting)
    for _ in range(S):
        alive = alive | np.any((next_states >= 0) & alive[next_states], axis=1)
    next_states[~alive[next_states]] = -1
    next_states[accepting, end_id] = np.flatnonzero(accepting)
    return next_states


def constrained_probabilities(logits: Float[Array, "V"], row: Int[Array, "V"]) -> Float[Array, "V"]:
    """The softmax over the allowed tokens only."""
    return jax.nn.softmax(jnp.where(row >= 0, logits, -jnp.inf))


def constrained_text(
    next_logits: Callable[[list[int]], Float[Array, "V"]], next_states: Int[Array, "S V"], end_id: int, max_tokens: int
) -> list[int]:
    """Greedy decoding that follows the states."""
    state, token_ids = 0, list[int]()
    while len(token_ids) < max_tokens:
        odds = constrained_probabilities(jnp.asarray(next_logits(token_ids)), jnp.asarray(next_states[state]))
        token_id = int(jnp.argmax(odds))
        if token_id == end_id:
            break
        token_ids.append(token_id)
        state = int(next_states[state, token_id])
    return token_ids
