"""What training takes on a mesh of devices, by calculation: the memory of each, arithmetic, and bytes sent.

The arrays of parameters and moments are counted from the harness's own state and its own shardings, without making
them. Activations are estimated; `harness profile` measures them.
"""

import math
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from flax import nnx

from harness.config import TRAIN, Config
from harness.data.tokenizer import get_tokenizer
from harness.model.loss import CHUNK, CPU_CHUNK, chunk_in
from harness.run.hardware import Device, flops_per_token
from harness.training.sharding import make_mesh
from harness.training.train_step import default_recipe, make_step_functions

# Numbers that the backward pass keeps of a position in a layer: an estimate, within a fourth of what XLA takes on a CPU
KEPT_D, KEPT_F, KEPT_GATED_F = 18, 3, 7  # of width D; of width F, or with a gate
F32 = 4  # bytes of a number
SHARE = 0.4  # of the rate of large products that a good program reaches
LINK, NETWORK = 450e9, 50e9  # bytes/s of a device to others: NVLink in a machine of H100s, 400 Gbit/s between machines
IN_A_MACHINE = 8
GPT2_TOKENS = 50_257  # of GPT-2's tokenizer, which would have to be downloaded
TOKENS_PER_PARAMETER = 20  # that a model wants (Hoffmann et al. 2022)


def itemsize(config: Config) -> int:
    """The bytes of a number in the dtype of the products."""
    return jnp.dtype(config.dtype).itemsize


def activations(config: Config, tokens: int, parts: int = 1) -> int:
    """The bytes that the backward pass keeps of so many tokens, on each of `parts` devices along the second axis: an
    estimate.

    With `remat`, only what enters each layer is kept, and one layer is computed again at a time.
    """
    wide = (KEPT_GATED_F if config.is_gated else KEPT_F) * config.active_d_ff
    inside = tokens * (KEPT_D * config.d_model + wide // parts) * itemsize(config)
    if config.remat:
        return tokens * config.num_layers * config.d_model * itemsize(config) + inside
    return config.num_layers * inside


def logits(config: Config, tokens: int, memory: int, parts: int = 1) -> int:
    """The bytes of the logits of a chunk of so many tokens at most, and of their gradient. On a GPU, a chunk grows with
    the memory, which is 0 for a CPU."""
    of_device = CHUNK if config.has_pairs else chunk_in(memory, config.vocab_rows)  # the loss of pairs has fixed chunks
    chunk = config.loss_chunk or (of_device if memory else CPU_CHUNK)
    return min(chunk, tokens) * config.vocab_rows // parts * (F32 + itemsize(config))


def on_each(config: Config) -> tuple[int, int, int, int]:
    """The number of parameters, and the bytes of parameters, of gradients and of moments on each device, by the
    harness's shardings."""
    mesh = make_mesh(config)
    functions = make_step_functions(config, mesh, default_recipe(config, mesh))
    model, optimizer, *average = nnx.merge(functions.graph, functions.abstract_state)

    def share(state: nnx.State) -> int:
        leaves = [leaf for leaf in jax.tree.leaves(state) if leaf.ndim]
        return sum(math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves)

    parameters = nnx.state(model, nnx.Param)
    trained = nnx.state(model, nnx.LoRAParam) if config.lora_rank else parameters
    number = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    held = sum(share(nnx.state(each, nnx.Param)) for each in (model, *average))
    return number, held, share(trained), share(nnx.state(optimizer))


@dataclass(frozen=True)
class Estimate:
    """What a train step of a run takes on each device of a mesh."""

    config: Config
    device: Device
    devices: int
    parts: int  # along the second axis of the mesh, which split each layer
    parameters: int
    tokens: int  # of a step
    memory: dict[str, int]  # bytes on a device, by what takes them
    activations: str  # which of these are the activations
    flops: float  # of a step
    arithmetic: float  # seconds of a step
    sent: dict[str, tuple[float, float]]  # bytes and seconds along each axis of the mesh that sends any

    @property
    def step(self) -> float:
        """The seconds of a step: sending overlaps with arithmetic, and the axes use different links."""
        return max([self.arithmetic, *(seconds for _, seconds in self.sent.values())])

    @property
    def total(self) -> int:
        """The bytes on a device."""
        return sum(self.memory.values())


def with_vocabulary(config: Config) -> Config:
    """The settings with the size of the vocabulary, without training or downloading a tokenizer."""
    if config.vocab_size:
        return config
    name = config.tokenizer
    size = int(name.removeprefix(TRAIN)) if name.startswith(TRAIN) else GPT2_TOKENS if name == "gpt2" else 0
    return replace(config, vocab_size=size or get_tokenizer(name).n_vocab)


def estimate(config: Config, device: Device) -> Estimate:
    """Estimates a run on a mesh of these devices, as many as its settings name; JAX must have, or emulate, so many.

    With pairs of answers, a pair is two rows, which the base also reads: a second copy of the parameters that are
    trained. Raises UsageError if the mesh does not fit the devices or the model.
    """
    mesh = make_mesh(config)
    number, parameters, gradients, moments = on_each(config)
    rows = config.batch_size * (2 if config.has_pairs else 1)
    tokens, parts = rows * config.context, mesh.shape["model"]
    data = mesh.size // parts
    held = tokens // data // config.grad_accumulation_steps
    name = f"activations of {held:,} tokens, estimated"
    memory = {
        "parameters, float32": parameters,
        "optimizer state": moments,
        "gradients": gradients,
        name: activations(config, held, parts),
        "logits of one chunk and their gradient": logits(config, held, device.usable, parts),
    }
    flops = flops_per_token(config) * tokens
    if config.has_pairs:
        memory["base, of what is trained"] = gradients  # it has as many numbers
        flops *= 4 / 3  # the base runs forward alone
    sent: dict[str, tuple[float, float]] = {}
    if data > 1:
        # With fsdp, each microbatch gathers the parameters twice; the gradients of a step are summed once.
        times = 2 * config.grad_accumulation_steps + 1 if config.fsdp else 2
        size = (data - 1) / data * number * F32 / parts * times
        sent["data"] = size, size / (LINK if mesh.size <= IN_A_MACHINE else NETWORK)
    if parts > 1:  # two sums forward and two backward in each layer, each as a scatter and a gather
        size = 4 * 2 * (parts - 1) / parts * tokens / data * config.num_layers * config.d_model * itemsize(config)
        sent["model"] = size, size / (LINK if parts <= IN_A_MACHINE else NETWORK)
    arithmetic = flops / (device.flops * SHARE * mesh.size)
    return Estimate(config, device, mesh.size, parts, number, tokens, memory, name, flops, arithmetic, sent)


def table(found: Estimate) -> str:
    """The estimate, over several lines."""
    config, device = found.config, found.device
    run, wanted = config.steps * found.tokens, TOKENS_PER_PARAMETER * found.parameters
    rate = f"{SHARE:.0%} of {'its peak' if device.is_listed else 'the products measured now'}"
    rows = [
        *((name, _size(size)) for name, size in found.memory.items()),
        ("together", f"{_size(found.total)} of {_size(device.usable_or_all)}"),
        (f"arithmetic of a step, at {rate}", duration(found.arithmetic)),
        *((f"sent along {axis} in a step", f"{_size(size)}, {duration(s)}") for axis, (size, s) in found.sent.items()),
        (f"{config.steps:,} steps", duration(config.steps * found.step)),
        (
            "tokens of these steps",
            f"{_short(run)}; {found.parameters / 1e6:,.1f} million parameters want {_short(wanted)}",
        ),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)


def advice(found: Estimate) -> str:
    """What to change where the memory is not enough; empty where it is."""
    room, config = found.device.usable_or_all, found.config
    if found.total <= room:
        return ""
    kept = found.memory[found.activations]
    rows = config.batch_size // (found.devices // found.parts)  # on a device
    for parts in range(config.grad_accumulation_steps + 1, rows + 1):
        if rows % parts == 0 and found.total - kept + kept * config.grad_accumulation_steps / parts <= room:
            return (
                f"This does not fit. --set grad_accumulation_steps={parts} makes it fit, with the same result up to "
                f"rounding."
            )
    again = "" if config.remat else "--set remat=true computes activations again instead of keeping them, and "
    return f"This does not fit: {again}--fsdp divides all but the activations over several devices."


def duration(seconds: float) -> str:
    """A time with its unit."""
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:,.{1 if seconds < 0.01 else 0}f} ms"


def _size(number: float) -> str:
    """Bytes with their unit."""
    return f"{number / 1e9:,.2f} GB" if number >= 1e8 else f"{number / 1e6:,.1f} MB"


def _short(tokens: float) -> str:
    for size, unit in ((1e9, "billion"), (1e6, "million")):
        if tokens >= size:
            return f"{tokens / size:,.1f} {unit}"
    return f"{tokens:,.0f}"
