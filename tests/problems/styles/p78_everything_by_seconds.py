"""Every step as a list of operations, each timed by `seconds` or by its parts; classes in place of dictionaries."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass
class Budget:
    operations: float = 0
    bytes: float = 0

    def multiply(self, rows, inner, columns, size, times=1.0):
        self.operations += times * 2 * rows * inner * columns
        self.bytes += times * size * inner * columns


def speed(devices, device):
    if devices > device["node"]:
        return device["network_bits"] / 8
    return device["link"]


def seconds(op, shape, bits, device):
    size = Fraction(bits, 8)
    if op in ("all_gather", "reduce_scatter", "all_reduce"):
        numbers, devices = shape
        part = Fraction(numbers, devices) * size
        turns = devices - 1
        if op == "all_reduce":
            turns *= 2
        return float(part * turns) / speed(devices, device), "sending"
    if op == "add":
        count = 1
        for length in shape:
            count *= length
        budget = Budget(count, float(3 * count * size))
    else:
        M, K, N = shape
        budget = Budget(2 * M * K * N, float((M * K + K * N + M * N) * size))
    arithmetic = budget.operations / device["flops"]
    memory = budget.bytes / device["bandwidth"]
    if memory >= arithmetic:
        return memory, "memory"
    return arithmetic, "arithmetic"


def forward(model, rows, context, experts_of_a_row, experts_read):
    """The operations of `rows` tokens, and the bytes of all weights that they read."""
    size = model["weight_bits"] / 8
    D, K, F = model["d_model"], model["head_width"], model["d_ff"]
    budget = Budget()
    for _ in range(model["num_layers"]):
        budget.multiply(rows, D, K * (model["num_heads"] + 2 * model["kv_heads"]), size)
        budget.multiply(rows, K * model["num_heads"], D, size)
        budget.operations += 2 * 2 * rows * context * K * model["num_heads"]
        work, read = Budget(), Budget()
        for inner, columns in ((D, F), (D, F), (F, D)):
            work.multiply(rows, inner, columns, size, experts_of_a_row)
            read.multiply(rows, inner, columns, size, experts_read)
        budget.operations += work.operations
        budget.bytes += read.bytes
    budget.multiply(rows, D, model["vocab_size"], size)
    return budget


def decode_rate(model, batch, context, device):
    E, k = model["experts"], model["active"]
    cache = 0.0
    for _ in range(model["num_layers"]):
        cache += 2 * model["kv_heads"] * model["head_width"] * context * batch * model["cache_bits"] / 8
    stored = forward(model, 1, context, k, E).bytes
    if stored + cache > device["memory"]:
        return 0.0
    left_out = 1.0
    for _ in range(batch):
        left_out *= 1 - k / E
    step = forward(model, batch, context, k, E - E * left_out)
    return batch / max(step.operations / device["flops"], (step.bytes + cache) / device["bandwidth"])


def step_seconds(model, batch, context, device, mesh):
    data, tensor = mesh
    tokens = batch * context
    forward_pass = forward(model, tokens, context, model["active"], model["experts"])
    arithmetic = 3 * forward_pass.operations / (device["flops"] * data * tensor)
    gather = forward_pass.bytes / tensor * (data - 1) / data / speed(data * tensor, device)
    waiting = 0.0
    for _ in range(model["num_layers"]):
        for _ in ("attention", "feed-forward", "attention, backward", "feed-forward, backward"):
            rows = tokens * model["d_model"] * model["weight_bits"] / 8 / data
            waiting += 2 * rows * (tensor - 1) / tensor / speed(tensor, device)
    return waiting + (arithmetic if arithmetic > 3 * gather else 3 * gather)


def best_mesh(model, batch, context, device, devices):
    best = None
    tensor = 1
    while tensor <= devices:
        data, rest = divmod(devices, tensor)
        if not (rest or batch % data or model["kv_heads"] % tensor):
            time = step_seconds(model, batch, context, device, (data, tensor))
            if best is None or time < best[0]:
                best = (time, data, tensor)
        tensor += 1
    return best[1:]
