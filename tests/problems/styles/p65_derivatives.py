"""Derivatives of expressions as states, tokens by recursion over their bytes, and a search backward from the ends."""

import jax.numpy as jnp
import numpy as np

EMPTY, NOTHING = ("then",), ("or",)


def nullable(e):
    return {
        "byte": lambda: False,
        "many": lambda: True,
        "then": lambda: all(map(nullable, e[1:])),
        "or": lambda: any(map(nullable, e[1:])),
    }[e[0]]()


def alternatives(parts):
    flat = set()
    for part in parts:
        flat |= set(part[1:]) if part[0] == "or" else {part}
    flat = sorted(flat, key=repr)
    return flat[0] if len(flat) == 1 else ("or", *flat)


def row(first, rest):
    if NOTHING == first:
        return NOTHING
    parts = [*(first[1:] if first[0] == "then" else [first]), *rest]
    return parts[0] if len(parts) == 1 else ("then", *parts)


def after(e, byte):
    kind, *parts = e
    if kind == "byte":
        return EMPTY if byte in parts[0] else NOTHING
    if kind == "or":
        return alternatives(after(part, byte) for part in parts)
    if kind == "many":
        return row(after(parts[0], byte), [e])
    ways = []
    for place, part in enumerate(parts):
        ways.append(row(after(part, byte), parts[place + 1 :]))
        if not nullable(part):
            break
    return alternatives(ways)


def build_automaton(expression):
    names, queue, table = {expression: 0}, [expression], []
    while queue:
        e = queue.pop(0)
        line = []
        for byte in range(256):
            next_e = after(e, byte)
            if next_e == NOTHING:
                line.append(-1)
                continue
            if next_e not in names:
                names[next_e] = len(names)
                queue.append(next_e)
            line.append(names[next_e])
        table.append(line)
    return np.array(table), np.array([nullable(e) for e in names])


def token_transitions(transitions, accepting, vocabulary, end_id):
    def walk(state, token):
        return state if not token or state < 0 else walk(int(transitions[state][token[0]]), token[1:])

    S, V = len(transitions), len(vocabulary)
    out = np.array(
        [[walk(s, vocabulary[v]) if vocabulary[v] and v != end_id else -1 for v in range(V)] for s in range(S)],
        np.int32,
    ).reshape(S, V)
    good, frontier = set(), [s for s in range(S) if accepting[s]]
    while frontier:
        s = frontier.pop()
        if s not in good:
            good.add(s)
            frontier += [p for p in range(S) if s in out[p]]
    out = np.where(np.isin(out, list(good)), out, -1)
    for s in range(S):
        if accepting[s]:
            out[s, end_id] = s
    return out


def constrained_probabilities(logits, row):
    ok = row > -1
    weights = jnp.exp(logits - jnp.max(logits, where=ok, initial=-jnp.inf))
    weights = jnp.where(ok, weights, 0)
    return weights / weights.sum()


def constrained_text(next_logits, next_states, end_id, max_tokens):
    out, state = [], 0
    for _ in range(max_tokens):
        p = constrained_probabilities(next_logits(out), next_states[state])
        best = int(np.argmax(np.asarray(p)))
        if best == end_id:
            return out
        out = [*out, best]
        state = next_states[state, best]
    return out
