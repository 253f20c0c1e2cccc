"""A nondeterministic automaton with empty moves (Thompson), closures of sets, dictionaries, and JAX arrays in the
end."""

from collections import defaultdict, deque

import jax
import jax.numpy as jnp
import numpy as np


def build_automaton(expression):
    moves, jumps, count = defaultdict(list), defaultdict(set), [0]

    def new():
        count[0] += 1
        return count[0] - 1

    def connect(e, start, end):
        op, args = e[0], e[1:]
        if op == "byte":
            moves[start].append((frozenset(args[0]), end))
        elif op == "or":
            for a in args:
                connect(a, start_a := new(), end)
                jumps[start].add(start_a)
        elif op == "then":
            here = start
            for a in args:
                there = new()
                connect(a, here, there)
                here = there
            jumps[here].add(end)
        else:
            inner = new()
            jumps[start].add(inner)
            connect(args[0], inner, again := new())
            jumps[again].add(inner)
            jumps[inner].add(end)

    start, end = new(), new()
    connect(expression, start, end)

    def closed(nodes):
        seen, todo = set(), deque(nodes)
        while todo:
            node = todo.popleft()
            if node not in seen:
                seen.add(node)
                todo.extend(jumps[node])
        return tuple(sorted(seen))

    number, todo, table = {closed([start]): 0}, [closed([start])], {}
    while todo:
        nodes = todo.pop()
        for byte in range(256):
            target = closed([t for n in nodes for letters, t in moves[n] if byte in letters])
            if not target:
                continue
            if target not in number:
                number[target] = len(number)
                todo.append(target)
            table[number[nodes], byte] = number[target]
    transitions = np.full((len(number), 256), -1)
    for (state, byte), target in table.items():
        transitions[state, byte] = target
    return jnp.array(transitions), jnp.array([end in nodes for nodes in number])


def token_transitions(transitions, accepting, vocabulary, end_id):
    S, V = transitions.shape[0], len(vocabulary)
    padded = np.concatenate([transitions, np.full((1, 256), -1)])  # row -1 stays at -1
    table = np.full((S, V), -1)
    for v, token in enumerate(vocabulary):
        if v == end_id or token == b"":
            continue
        states = np.arange(S)
        for byte in token:
            states = padded[states, byte]
        table[:, v] = states
    table[:, end_id] = np.where(accepting, np.arange(S), -1)
    live = np.array(accepting)
    while True:
        grown = live | np.array([any(t >= 0 and live[t] for t in table[s]) for s in range(S)])
        if (grown == live).all():
            return np.where((table >= 0) & live[table], table, -1)
        live = grown


@jax.jit
def constrained_probabilities(logits, row):
    masked = jnp.where(row == -1, jnp.finfo(jnp.float32).min, logits)
    return jnp.exp(masked - jax.scipy.special.logsumexp(masked))


def constrained_text(next_logits, next_states, end_id, max_tokens):
    ids, state = [], 0
    while True:
        if len(ids) == max_tokens:
            return ids
        logits = np.where(np.asarray(next_states)[state] >= 0, next_logits(ids), -np.inf)
        token = int(logits.argmax())
        if token == end_id:
            return ids
        ids.append(token)
        state = int(next_states[state][token])
