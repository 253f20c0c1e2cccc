"""Problem 78: roofline. The page is in pages/p78_roofline.md."""

from collections.abc import Mapping, Sequence

Device = Mapping[str, float]
Model = Mapping[str, int]


def seconds(
    op: str,
    shape: Sequence[int],
    bits: int,
    device: Device,
) -> tuple[float, str]:
    """The seconds that one operation takes, and what limits it:
    "arithmetic", "memory" or "sending".

    `op` is "product" of (M, C, N), "add" of an array's shape, or "all_gather",
    "reduce_scatter" or "all_reduce" of (numbers, devices). A number has `bits` bits.
    """
    raise NotImplementedError


def decode_rate(model: Model, batch: int, context: int, device: Device) -> float:
    """The tokens per second of `batch` sequences together, each with `context` tokens
    in the cache. 0.0 if they do not fit into memory."""
    raise NotImplementedError


def step_seconds(
    model: Model,
    batch: int,
    context: int,
    device: Device,
    mesh: tuple[int, int],
) -> float:
    """The seconds of a training step of `batch` sequences on a mesh
    of (data, tensor) devices."""
    raise NotImplementedError


def best_mesh(
    model: Model,
    batch: int,
    context: int,
    device: Device,
    devices: int,
) -> tuple[int, int]:
    """The mesh (data, tensor) of so many devices with the shortest training step."""
    raise NotImplementedError
