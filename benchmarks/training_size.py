"""What training a model takes on a mesh of devices, by calculation: memory of each, arithmetic, and bytes sent.

    python benchmarks/training_size.py [MODEL] [MESH] [DEVICE] [--write]
    python benchmarks/training_size.py 8B 8x8 H100

The arrays of parameters and moments are counted from the harness's own state and its own shardings, on emulated
devices, without making them. Activations are estimated; measure them with `harness profile` on the device.
"""

import math
from dataclasses import replace

import jax
from flax import nnx
from timing import Run

from harness.config import Config
from harness.model.loss import chunk_in
from harness.run.hardware import PEAK_FLOPS, flops_per_token
from harness.training.sharding import make_mesh
from harness.training.train_step import default_recipe, make_step_functions

GPT = dict(vocab_size=50_257, context=1024, positions="learned")
LLAMA = dict(positions="rope", norm_kind="rmsnorm", activation="swiglu", bias=False)
MODELS = {
    "124M": dict(GPT, d_model=768, num_heads=12, d_ff=3072, num_layers=12),
    "1.5B": dict(GPT, d_model=1600, num_heads=25, d_ff=6400, num_layers=48),
    "8B": dict(
        LLAMA, vocab_size=128_256, context=8192, d_model=4096, num_heads=32, num_kv_heads=8, d_ff=14_336, num_layers=32,
        tied_head=False,
    ),
}  # fmt: skip
ROWS_OF_TOKENS = 1 << 19  # tokens of a step, as for GPT-2 and GPT-3 of these sizes
MICROBATCH = 8192  # tokens whose activations exist at once on a device
KEPT = 18  # numbers of width D that the backward pass keeps of a position in a layer, besides 3 of width F: an estimate
F32, BF16 = 4, 2  # bytes of a number
SHARE = 0.4  # of the peak that a good program reaches
# Bytes/s of a device to others: NVLink in a machine of H100s, and 400 Gbit/s between machines
LINK, NETWORK = 450e9, 50e9
IN_A_MACHINE = 8
MEMORY = 60 * 10**9  # bytes that JAX takes of a GPU with 80 GB


def on_each(config: Config) -> tuple[int, int, int]:
    """The number of parameters, and the bytes of parameters and of moments on each device, by the harness's
    shardings."""
    mesh = make_mesh(config)
    functions = make_step_functions(config, mesh, default_recipe(config, mesh))
    model, optimizer = nnx.merge(functions.graph, functions.abstract_state)[:2]

    def share(state: nnx.State) -> int:
        leaves = [leaf for leaf in jax.tree.leaves(state) if leaf.ndim]
        return sum(math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves)

    parameters = nnx.state(model, nnx.Param)
    return sum(leaf.size for leaf in jax.tree.leaves(parameters)), share(parameters), share(nnx.state(optimizer))


def main() -> None:
    run = Run()
    model, mesh, device = [*run.words, *["124M", "1x1", "H100"][len(run.words) :]]
    data, parts = map(int, mesh.split("x"))
    jax.config.update("jax_num_cpu_devices", data * parts)
    config = replace(Config(), preset="", **MODELS[model])
    rows = max(ROWS_OF_TOKENS // config.context, data)
    microbatches = max(rows * config.context // data // max(MICROBATCH, config.context), 1)
    config = replace(
        config, batch_size=rows, grad_accumulation_steps=microbatches, mesh=mesh, fsdp=data > 1, dtype="bfloat16",
        remat=False,
    )  # fmt: skip
    number, parameters, moments = on_each(config)
    D, L, tokens = config.d_model, config.num_layers, rows * config.context
    held = tokens // data // microbatches
    for name, size in {
        "parameters, float32": parameters,
        "two moments of Adam": moments,
        "gradients": parameters,
        f"activations of {held:,} tokens, estimated": held * L * (KEPT * D + 3 * config.d_ff // parts) * BF16,
        "the same with --set remat=true": held * L * D * BF16,
        "logits of one chunk and their gradient":
            chunk_in(MEMORY, config.vocab_rows) * config.vocab_rows // parts * (F32 + BF16),
    }.items():  # fmt: skip
        run.figure(name, size / 1e9, "GB")
    flops = flops_per_token(config) * tokens
    seconds = flops / (PEAK_FLOPS[device] * SHARE * data * parts)
    run.figure(f"arithmetic of a step of {tokens:,} tokens", flops / 1e15, "PFLOP")
    run.figure(f"the same on {data * parts} of {device} at {SHARE:.0%} of their peak", seconds, "s")
    # Each microbatch gathers the parameters twice; the gradients of a step are summed and scattered once.
    sent = {"data": (data - 1) / data * number * F32 / parts * (2 * microbatches + 1)}
    # Two sums forward and two backward in each layer, each as a scatter and a gather.
    sent["model"] = 4 * 2 * (parts - 1) / parts * tokens / data * L * D * BF16
    longest = seconds  # sending overlaps with arithmetic, and the two axes use different links
    for axis, size in sent.items():
        # Neighbors along `model` share a machine if there are at most as many as it has; those along `data` may not.
        near = parts <= IN_A_MACHINE if axis == "model" else data * parts <= IN_A_MACHINE
        rate = LINK if near else NETWORK
        longest = max(longest, size / rate)
        if size:
            run.figure(f"sent by each device along {axis}", size / 1e9, "GB")
            run.figure(f"the same at {rate / 1e9:.0f} GB/s", size / rate, "s")
    run.figure("20 tokens for each parameter", 20 * number / tokens * longest / 86_400, "days")
    run.end()


if __name__ == "__main__":
    main()
