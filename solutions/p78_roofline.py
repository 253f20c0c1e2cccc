"""Problem 78, reference: what a machine needs for an operation, for a step of decoding, and for a step of training."""

import math
from collections.abc import Mapping, Sequence

Device = Mapping[str, float]
Model = Mapping[str, int]


def seconds(op: str, shape: Sequence[int], bits: int, device: Device) -> tuple[float, str]:
    """The seconds of one operation, and what limits it."""
    size = bits / 8  # bytes of a number
    if op == "product":
        M, C, N = shape
        return _slower(2 * M * C * N, (M * C + C * N + M * N) * size, device)
    if op == "add":
        return _slower(math.prod(shape), 3 * math.prod(shape) * size, device)
    numbers, devices = shape
    rounds = 2 if op == "all_reduce" else 1
    sent = rounds * (devices - 1) / devices * numbers * size
    return sent / _link(devices, device), "sending"


def decode_rate(model: Model, batch: int, context: int, device: Device) -> float:
    """The tokens per second of all sequences together, or 0.0 if they do not fit into memory."""
    E, k = model["experts"], model["active"]
    cache = batch * context * 2 * model["num_layers"] * model["kv_heads"] * model["head_width"]
    cache_bytes = cache * model["cache_bits"] / 8
    if _weights(model, E) * model["weight_bits"] / 8 + cache_bytes > device["memory"]:
        return 0.0
    used = E * (1 - (1 - k / E) ** batch)  # experts that at least one of the tokens uses
    read = _weights(model, used) * model["weight_bits"] / 8 + cache_bytes
    operations = batch * (2 * _weights(model, k) + _attention(model, context))
    return batch / _slower(operations, read, device)[0]


def step_seconds(model: Model, batch: int, context: int, device: Device, mesh: tuple[int, int]) -> float:
    """The seconds of a step of training: gathers of weights run beside the arithmetic, sums of activations do not."""
    data, tensor = mesh
    tokens, size = batch * context, model["weight_bits"] / 8
    operations = 3 * tokens * (2 * _weights(model, model["active"]) + _attention(model, context))
    arithmetic = operations / (data * tensor * device["flops"])
    part = _weights(model, model["experts"]) / tensor * size
    gathers = 3 * (data - 1) / data * part / _link(data * tensor, device)
    rows = tokens / data * model["d_model"] * size
    sums = 4 * model["num_layers"] * 2 * (tensor - 1) / tensor * rows / _link(tensor, device)
    return max(arithmetic, gathers) + sums


def best_mesh(model: Model, batch: int, context: int, device: Device, devices: int) -> tuple[int, int]:
    """The mesh (data, tensor) with the shortest step. `data` divides the batch, and `tensor` the heads of the keys."""
    meshes = [(devices // tensor, tensor) for tensor in range(1, devices + 1) if devices % tensor == 0]
    possible = [(d, t) for d, t in meshes if batch % d == 0 and model["kv_heads"] % t == 0]
    return min(possible, key=lambda mesh: step_seconds(model, batch, context, device, mesh))


def _slower(operations: float, moved: float, device: Device) -> tuple[float, str]:
    """The longer of the times for arithmetic and for memory, because they overlap."""
    arithmetic, memory = operations / device["flops"], moved / device["bandwidth"]
    return (arithmetic, "arithmetic") if arithmetic > memory else (memory, "memory")


def _link(devices: int, device: Device) -> float:
    """The bytes per second between so many devices: within a node, or else through the network."""
    return device["link"] if devices <= device["node"] else device["network_bits"] / 8


def _weights(model: Model, experts: float) -> float:
    """The weights of all products, with so many experts in each layer."""
    D, K = model["d_model"], model["head_width"]
    attention = 2 * D * K * (model["num_heads"] + model["kv_heads"])
    return model["num_layers"] * (attention + experts * 3 * D * model["d_ff"]) + model["vocab_size"] * D


def _attention(model: Model, context: int) -> int:
    """The operations of scores and weighted sums for one token."""
    return 4 * model["num_layers"] * model["num_heads"] * model["head_width"] * context
