"""Sets of positions as the bits of an integer, dead ends by a matrix power, softmax with `where`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np


def build_automaton(expression):
    classes = []

    def visit(e):
        """nullable, first, last and pairs (position, mask of followers)."""
        match e:
            case ("byte", letters):
                classes.append(set(letters))
                bit = 1 << len(classes)
                return False, bit, bit, []
            case ("many", inner):
                _, f, l_, pairs = visit(inner)
                return True, f, l_, [*pairs, (l_, f)]
            case ("or", *inner):
                rows = [visit(each) for each in inner]
                return (
                    any(r[0] for r in rows),
                    functools.reduce(int.__or__, (r[1] for r in rows), 0),
                    functools.reduce(int.__or__, (r[2] for r in rows), 0),
                    [pair for r in rows for pair in r[3]],
                )
            case ("then", *inner):
                total = (True, 0, 0, [])
                for each in inner:
                    n, f, l_, pairs = total
                    n2, f2, l2, pairs2 = visit(each)
                    total = (n and n2, f | (f2 if n else 0), l2 | (l_ if n2 else 0), pairs + pairs2 + [(l_, f2)])
                return total
        raise ValueError(e)

    empty, first, last, pairs = visit(expression)
    pairs.append((1, first))
    readers = [sum(1 << (i + 1) for i, letters in enumerate(classes) if byte in letters) for byte in range(256)]
    states, table = [1], []
    n = 0
    while n < len(states):
        reachable = functools.reduce(int.__or__, (f for l_, f in pairs if l_ & states[n]), 0)
        # A pair may hold several last positions: all of them have the same followers.
        line = []
        for byte in range(256):
            target = reachable & readers[byte]
            if target and target not in states:
                states.append(target)
            line.append(states.index(target) if target else -1)
        table.append(line)
        n += 1
    return np.array(table, np.int64), np.array([bool(s & last) or (s == 1 and empty) for s in states])


def token_transitions(transitions, accepting, vocabulary, end_id):
    S = len(transitions)
    with_sink = np.vstack([np.where(transitions < 0, S, transitions), np.full(256, S)])
    table = np.full((S, len(vocabulary)), S)
    for i, token in enumerate(vocabulary):
        if token and i != end_id:
            table[:, i] = functools.reduce(lambda states, byte: with_sink[states, byte], token, np.arange(S))
    step = np.eye(S + 1, dtype=bool)
    step[np.repeat(np.arange(S), len(vocabulary)), table.ravel()] = True
    reach = np.linalg.matrix_power(step.astype(float), S) > 0
    alive = np.append((reach[:S, :S] & accepting[None]).any(axis=1), False)
    table = np.where(alive[table], table, -1)
    table[:, end_id] = np.where(accepting, np.arange(S), -1)
    return table.astype(np.int32)


def constrained_probabilities(logits, row):
    return jnp.nan_to_num(jax.nn.softmax(logits, where=row >= 0))


def constrained_text(next_logits, next_states, end_id, max_tokens):
    ids = []
    state = 0
    while len(ids) < max_tokens and (token := choose(next_logits(ids), next_states[state])) != end_id:
        state = next_states[state][token]
        ids.append(token)
    return ids


def choose(logits, row):
    return max(np.flatnonzero(np.asarray(row) >= 0).tolist(), key=lambda token: float(logits[token]))
