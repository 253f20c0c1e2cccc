"""Short formulas: lambdas by name, ceilings written as inverse rates, a search by sorting."""

import functools
import math
import operator

MOVES = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2}


def ring(kind, size, n, device):
    rate = (device["network_bits"] / 8, device["link"])[n <= device["node"]]
    return MOVES[kind] * size * (1 - 1 / n) / rate


def seconds(op, shape, bits, device):
    if op in MOVES:
        return ring(op, shape[0] * bits / 8, shape[1], device), "sending"
    count = functools.reduce(operator.mul, shape)
    if op == "add":
        work, moved = count, 3 * count
    else:
        work, moved = 2 * count, sum(count // length for length in shape)
    by_name = {"arithmetic": work / device["flops"], "memory": moved * bits / 8 / device["bandwidth"]}
    limit = max(by_name, key=by_name.get)
    return by_name[limit], limit


def size_of(m, experts):
    D, K = m["d_model"], m["head_width"]
    q, kv = m["num_heads"] * K, m["kv_heads"] * K
    return m["vocab_size"] * D + m["num_layers"] * D * (2 * q + 2 * kv + 3 * experts * m["d_ff"])


def decode_rate(m, batch, context, device):
    token = m["num_layers"] * m["kv_heads"] * m["head_width"] * m["cache_bits"] / 4
    cache = token * batch * context
    E = m["experts"]
    if E and size_of(m, E) * m["weight_bits"] + 8 * cache > 8 * device["memory"]:
        return 0.0
    met = -E * math.expm1(batch * math.log1p(-m["active"] / E)) if m["active"] < E else E
    of_a_token = size_of(m, m["active"]) + 2 * m["num_layers"] * m["num_heads"] * m["head_width"] * context
    a = 2 * of_a_token / device["flops"]
    b = (size_of(m, met) * m["weight_bits"] / 8 + cache) / (batch * device["bandwidth"])
    return 1 / (a if a > b else b)


def step_seconds(m, batch, context, device, mesh):
    d, t = mesh
    n, tokens = d * t, batch * context
    byte = m["weight_bits"] / 8
    per_token = 6 * size_of(m, m["active"]) + 12 * m["num_layers"] * m["num_heads"] * m["head_width"] * context
    whole = size_of(m, m["experts"]) * byte / t
    rate = device["link"] if n <= device["node"] else device["network_bits"] / 8
    gathers = sum((whole - whole / d) / rate for _ in ("forward", "backward", "gradients"))
    sums = 4 * m["num_layers"] * ring("all_reduce", tokens / d * m["d_model"] * byte, t, device)
    return sums + max(per_token * tokens / n / device["flops"], gathers)


def best_mesh(m, batch, context, device, devices):
    divisors = [d for d in range(1, min(batch, devices) + 1) if math.gcd(d, batch) == d == math.gcd(d, devices)]
    meshes = [(d, devices // d) for d in divisors if m["kv_heads"] % (devices // d) == 0]
    return sorted((step_seconds(m, batch, context, device, mesh), mesh) for mesh in meshes)[0][1]
