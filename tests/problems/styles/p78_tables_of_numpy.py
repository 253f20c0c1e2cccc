"""Lists of products and arrays of times, in NumPy."""

import numpy as np


def seconds(op, shape, bits, device):
    operations, numbers, sent = 0, 0, 0
    if op == "product":
        M, K, N = shape
        operations, numbers = 2 * M * N * K, M * N + N * K + M * K
    elif op == "add":
        operations = np.prod(shape, dtype=np.float64)
        numbers = operations + 2 * operations
    else:
        whole, n = shape
        sent = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2}[op] * (whole - whole / n)
    speed = device["link"] if n_fits(shape, device) else device["network_bits"] * 0.125
    byte = 0.125 * bits
    times = np.array([operations / device["flops"], numbers * byte / device["bandwidth"], sent * byte / speed])
    names = ["arithmetic", "memory", "sending"]
    return (times[2], "sending") if op not in ("product", "add") else (times.max(), names[int(times.argmax())])


def n_fits(shape, device):
    return shape[-1] <= device["node"]


def products(model, experts):
    """The products of a token: how many there are, and their two sizes."""
    D, K = model["d_model"], model["head_width"]
    H, G, L = model["num_heads"], model["kv_heads"], model["num_layers"]
    return np.array(
        [
            (L, D, H * K),
            (L, D, G * K),
            (L, D, G * K),
            (L, H * K, D),
            (L * experts, D, model["d_ff"]),
            (L * experts, D, model["d_ff"]),
            (L * experts, model["d_ff"], D),
            (1, D, model["vocab_size"]),
        ],
        np.float64,
    )


def weights(model, experts):
    return products(model, experts).prod(axis=1).sum()


def cache_per_token(model):
    return model["num_layers"] * model["kv_heads"] * model["head_width"] * 2.0


def operations_per_token(model, context):
    scores = model["num_layers"] * model["num_heads"] * model["head_width"] * context
    return 2 * (weights(model, model["active"]) + 2 * scores)


def decode_rate(model, batch, context, device):
    byte_W, byte_C = model["weight_bits"] * 0.125, model["cache_bits"] * 0.125
    held = byte_C * cache_per_token(model) * context * batch
    if weights(model, model["experts"]) * byte_W + held > device["memory"]:
        return 0.0
    idle = np.power(1 - model["active"] / model["experts"], batch)
    touched = weights(model, model["experts"] * (1 - idle)) * byte_W + held
    rates = [batch * device["bandwidth"] / touched, device["flops"] / operations_per_token(model, context)]
    return np.min(rates)


def step_seconds(model, batch, context, device, mesh):
    d, t = mesh
    tokens = batch * context
    byte = model["weight_bits"] * 0.125
    compute = 3 * tokens * operations_per_token(model, context) / device["flops"] / d / t
    across = device["link"] if d * t <= device["node"] else device["network_bits"] * 0.125
    inside = device["link"] if t <= device["node"] else device["network_bits"] * 0.125
    moved = weights(model, model["experts"]) * byte / t
    send = 3 * (moved - moved / d) / across
    activations = byte * model["d_model"] * tokens / d
    wait = 8 * model["num_layers"] * (activations - activations / t) / inside
    return np.maximum(compute, send) + wait


def best_mesh(model, batch, context, device, devices):
    t = np.arange(1, devices + 1)
    t = t[(devices % t == 0) & (model["kv_heads"] % t == 0)]
    t = t[batch % (devices // t) == 0]
    times = [step_seconds(model, batch, context, device, (devices // each, each)) for each in t]
    tensor = int(t[np.argmin(times)])
    return devices // tensor, tensor
