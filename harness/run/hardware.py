"""Hardware figures: peak FLOP rate, memory in use, and the FLOPs per trained token."""

import functools
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import psutil

from commandline import invocation
from commandline.spelling import nearest
from commandline.text import counted
from harness.errors import UsageError
from harness.model_config import ModelConfig

# Peak rate in FLOP/s of dense bfloat16 matrix products (float16 on V100 and T4), from the vendors' data sheets.
PEAK_FLOPS = {
    "GB200": 2500e12, "B200": 2250e12, "GH200": 989e12, "H200": 989e12, "H100": 989e12, "H100 NVL": 835e12,
    "H100 PCIe": 756e12, "A100": 312e12, "A30": 165e12, "A10": 125e12, "A10G": 70e12, "L40S": 362e12, "L40": 181e12,
    "L4": 121e12, "V100": 125e12, "T4": 65e12, "RTX 5090": 209e12, "RTX 4090": 165e12, "RTX 3090": 71e12,
    "v4": 275e12, "v5 lite": 197e12, "v5e": 197e12, "v5": 459e12, "v5p": 459e12, "v6 lite": 918e12, "v6e": 918e12,
}  # fmt: skip
# Memory in GB, of the smallest card of a name
MEMORY_GB = {
    "GB200": 186, "B200": 180, "GH200": 96, "H200": 141, "H100": 80, "H100 NVL": 94, "H100 PCIe": 80, "A100": 40,
    "A30": 24, "A10": 24, "A10G": 24, "L40S": 48, "L40": 48, "L4": 24, "V100": 16, "T4": 16, "RTX 5090": 32,
    "RTX 4090": 24, "RTX 3090": 24, "v4": 32, "v5 lite": 16, "v5e": 16, "v5": 95, "v5p": 95, "v6 lite": 32, "v6e": 32,
}  # fmt: skip
OF_A_GPU = 0.75  # of its memory, which JAX takes by default
# GPUs without TF32, whose float32 products use no tensor cores.
FLOAT32_FLOPS = {"V100": 15.7e12, "T4": 8.1e12}
MEASURED_SIZE = 1536
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")  # exists on Linux where the driver is loaded, also in containers


def peak_flops(dtype: str) -> float | None:
    """The peak rate of one of this machine's devices in FLOP/s in a dtype; None if the table does not have it, such as
    that of a CPU."""
    return listed_flops(jax.devices()[0].device_kind, dtype)


def utilization(flops_per_s: float, dtype: str, devices: int) -> float | None:
    """The share of the peak rate of so many devices that a program reaches; None where that is unknown."""
    peak = peak_flops(dtype)
    return None if peak is None else flops_per_s / (peak * devices)


@functools.cache
def product_rate(dtype: str) -> float:
    """The rate of large matrix products in a dtype on one device in FLOP/s, measured now. Other programs lower it."""
    square = jnp.ones((MEASURED_SIZE, MEASURED_SIZE), jnp.dtype(dtype))
    product = jax.jit(lambda a: a @ a).lower(square).compile()
    seconds = []
    for _ in range(4):
        started = time.perf_counter()
        product(square).block_until_ready()
        seconds.append(time.perf_counter() - started)
    return 2 * MEASURED_SIZE**3 / min(seconds)


def listed_flops(device_kind: str, dtype: str = "bfloat16") -> float | None:
    """The rate of the longest name in the table that occurs in `device_kind` as whole words, or None.

    JAX multiplies float32 as TF32 on GPUs, at half the rate of bfloat16, and as bfloat16 on TPUs.
    """
    names = [name for name in PEAK_FLOPS if re.search(rf"(?<![A-Za-z0-9]){name}(?![A-Za-z0-9])", device_kind)]
    if not names:
        return None
    name = max(names, key=len)
    if dtype == "bfloat16" or device_kind.startswith("TPU"):
        return PEAK_FLOPS[name]
    return FLOAT32_FLOPS.get(name, PEAK_FLOPS[name] / 2)


@dataclass(frozen=True)
class Device:
    """A device to estimate for."""

    name: str
    flops: float  # FLOP/s in the dtype of a run
    usable: int  # bytes that JAX takes of an accelerator's memory; 0 for a CPU
    all: int  # bytes of memory
    is_listed: bool  # whether the rate is from the table; otherwise it was measured

    @property
    def usable_or_all(self) -> int:
        """The bytes that there are for a run."""
        return self.usable or self.all


def device_named(name: str, dtype: str) -> Device:
    """A device of the table. Raises UsageError, naming the nearest ones, if it has none of that name."""
    if name not in PEAK_FLOPS:
        close = " or ".join(nearest(name, PEAK_FLOPS, 2)) or ", ".join(PEAK_FLOPS)
        raise UsageError(f"--device {name} is not known; it could be {close}.")
    memory, flops = MEMORY_GB[name] * 10**9, listed_flops(name, dtype)
    assert flops is not None
    return Device(name, flops, int(OF_A_GPU * memory), memory, is_listed=True)


def device_here(dtype: str) -> Device:
    """The first of this machine's devices. Where its rate is not in the table, it is measured."""
    device = jax.devices()[0]
    memory = (device.memory_stats() or {}).get("bytes_limit", 0)
    listed = peak_flops(dtype)
    everything = memory or psutil.virtual_memory().total
    return Device(device.device_kind, listed or product_rate(dtype), memory, everything, is_listed=listed is not None)


def described_devices() -> str:
    """A sentence on the devices that JAX has, and on a GPU of NVIDIA that it leaves unused."""
    devices = jax.devices()
    kinds = ", ".join(dict.fromkeys(device.device_kind for device in devices))
    sentence = f"JAX has {counted(len(devices), 'device')}: {kinds}."
    unused = devices[0].platform == "cpu" and NVIDIA_DRIVER.exists() and "JAX_PLATFORMS" not in os.environ
    if not unused:
        return sentence
    install = invocation.install(f"jax[cuda12]=={jax.__version__}")
    return f"{sentence} This machine has a GPU of NVIDIA, which this JAX cannot use: run `{install}` (docs/gpu.md)."


def flops_per_token(config: ModelConfig) -> float:
    """FLOPs to train on one token: 2 per weight in the forward pass and 4 in the backward pass, plus the mixing of
    positions."""
    D, F, V, L = config.d_model, config.active_d_ff, config.vocab_size, config.num_layers
    kinds = {config: L}
    if config.attention_every:
        kinds = {config: L - config.repeats, config.of_attention(): config.repeats}
    of_feed_forward = (3 if config.is_gated else 2) * D * F + D * config.experts
    weights, mixing = L * of_feed_forward + V * D, 0.0
    if config.mtp:  # one more layer, what joins two rows, and the head again
        kinds[config.of_mtp()] = kinds.get(config.of_mtp(), 0) + 1
        weights += of_feed_forward + 2 * D * D + V * D
    for kind, layers in kinds.items():
        mixer_weights, mixing_of_layer = _mixer_costs(kind)
        weights, mixing = weights + layers * mixer_weights, mixing + layers * mixing_of_layer
    return 6.0 * weights + 3.0 * mixing


def _mixer_costs(config: ModelConfig) -> tuple[int, float]:
    """The weights of a layer's mixer, and the FLOPs of its forward pass that have no weights, per token.

    Causal attention covers half of all pairs of positions (Kaplan et al. 2020, table 1, with the mask).
    """
    D, H, G, K = config.d_model, config.num_heads, config.kv_heads, config.per_head
    C, R, N = config.d_latent, config.d_rope, config.d_state
    if (
        config.mixer == "state_space"
    ):  # for each number of a state: its decay, its input, a sum of products, and that of the output
        return 4 * D * D + 2 * D * N, 6.0 * D * N
    if config.mixer == "gated_delta":  # for each number of a state: what a key reads, a correction, what a query reads
        (G, H), (K, V) = config.delta_heads, config.delta_widths
        return D * (2 * G * K + 2 * H * V + 2 * H) + H * V * D, 6.0 * H * K * V
    # Scores and mix: 2 for each number of a query and of a value, for each of the S positions in view, of which the
    # mask leaves a half, or the window.
    T, W = config.context, config.window or config.context
    in_view = min(T, W) * (1 - min(T, W) / (2 * T))
    if config.mixer == "latent_attention":  # which makes the keys and values of all heads in training
        return D * H * (K + R) + D * (C + R) + C * 2 * H * K + H * K * D, 2 * in_view * H * (2 * K + R)
    return D * H * (config.query_width + K) + 2 * D * G * K, 4 * in_view * H * K


def memory_bytes() -> int:
    """The peak memory in bytes: of the device if it reports one, otherwise of this process."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if peak := stats.get("peak_bytes_in_use"):
        return int(peak)
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource  # does not exist on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
