"""What training a model takes on a mesh of devices, by calculation: memory of each, arithmetic, and bytes sent.

    python benchmarks/training_size.py [MODEL] [MESH] [DEVICE]
    python benchmarks/training_size.py 8B 8x8 H100

The arrays of parameters and moments are counted from the harness's own state and its own shardings, on emulated
devices, without making them. Activations are estimated; measure them with `harness profile` on the device.
"""

from dataclasses import replace

import jax
from timing import Run

from harness.config import Config
from harness.run.estimate import TOKENS_PER_PARAMETER, activations, duration, estimate, table
from harness.run.hardware import device_named

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


def main() -> None:
    """Prints the estimate of `harness profile --estimate` for a model of a known size."""
    words = Run().words
    model, mesh, device = [*words, *["124M", "1x1", "H100"][len(words) :]]
    data, parts = map(int, mesh.split("x"))
    jax.config.update("jax_num_cpu_devices", data * parts)
    config = replace(Config(), preset="", **MODELS[model])
    rows = max(ROWS_OF_TOKENS // config.context, data)
    microbatches = max(rows * config.context // data // max(MICROBATCH, config.context), 1)
    config = replace(
        config, batch_size=rows, grad_accumulation_steps=microbatches, mesh=mesh, fsdp=data > 1, dtype="bfloat16",
    )  # fmt: skip
    found = estimate(config, device_named(device, config.dtype))
    again = activations(replace(config, remat=True), found.tokens // data // microbatches, parts)
    days = TOKENS_PER_PARAMETER * found.parameters / found.tokens * found.step
    print(f"{model}, {found.parameters / 1e6:,.0f} million parameters, mesh {mesh} with --fsdp, on {device}")
    print(table(found))
    print(f"  activations with --set remat=true: {again / 1e9:.2f} GB")
    print(f"  {TOKENS_PER_PARAMETER} tokens for each parameter: {duration(days)}")


if __name__ == "__main__":
    main()
