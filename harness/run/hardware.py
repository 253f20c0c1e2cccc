"""What the device can do: its peak rate, its memory, and the floating-point operations that a token needs."""

import functools
import sys
import time

import jax
import jax.numpy as jnp
import psutil

from harness.config import Config

# Dense bfloat16 products, operations a second, from the makers' data sheets.
PEAK = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L4": 121e12, "L40": 181e12, "V100": 125e12, "T4": 65e12,
    "v5 lite": 197e12,
        "v5p": 459e12, "v4": 275e12, "v6 lite": 918e12, "RTX 4090": 165e12, "RTX 3090": 71e12}  # fmt: skip
MEASURED_SIZE = 1536


@functools.cache
def peak_flops() -> float:
    """Operations a second of one device: from the data sheet, else the best of a few large products made now."""
    kind = jax.devices()[0].device_kind
    for name, flops in PEAK.items():
        if name in kind:
            return flops
    square = jnp.ones((MEASURED_SIZE, MEASURED_SIZE), jnp.float32)
    product = jax.jit(lambda a: a @ a).lower(square).compile()
    seconds = []
    for _ in range(4):
        began = time.perf_counter()
        product(square).block_until_ready()
        seconds.append(time.perf_counter() - began)
    return 2 * MEASURED_SIZE**3 / min(seconds)


def flops_per_token(config: Config) -> float:
    """Operations to train on one token: 2 for each weight of a product forward and 4 backward, and the attention's own products
    over the half of the positions that it sees (Kaplan et al. 2020, table 1, with the mask)."""
    D, F, V, L = config.d_model, config.d_ff, config.vocab_size, config.num_layers
    weights = L * (4 * D * D + 2 * D * F) + V * D
    attention = L * 2 * config.context * D  # scores and mix: 2 products of 2 T D, halved by the mask
    return 6.0 * weights + 3.0 * attention


def memory_bytes() -> int:
    """The most memory in use so far: the device's if it counts it, else this process's."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if peak := stats.get("peak_bytes_in_use"):
        return int(peak)
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
