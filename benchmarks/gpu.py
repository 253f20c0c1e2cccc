"""On a machine with a GPU: the train step, cuDNN's attention, a compiled Pallas kernel, and verdicts.

    python benchmarks/gpu.py [PRESET] [--smoke] [--write]

The train step is that of GPT-2 124M in bfloat16, with random weights. Verdicts must not use the GPU. Needs JAX with
CUDA or ROCm, such as `pip install "jax[cuda12]"`. Without a GPU, it says so and ends with code 2. The share of the peak
rate in bfloat16 counts the arithmetic of all pairs of positions, as PaLM (Chowdhery et al. 2022, appendix B) and
nanoGPT do. The harness's own `mfu` leaves out those that a mask hides.
"""

import json
import sys
import tempfile
from collections.abc import Sequence

from timing import GRADE, ROOT, Run, output

VOCABULARY = 50_257  # as large as GPT-2's
# The embedded stories need no network.
SETTINGS = ("data=pocket", "tokenizer=pocket-2k", "mesh=1x1", f"vocab_size={VOCABULARY}")
# In float32, because CPUs lack some products of bfloat16.
SMALL = ("dtype=float32", "context=16", "d_model=16", "d_ff=16", "num_layers=1", "data=pocket:200")
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}

DEVICES = "import jax; print(jax.default_backend(), jax.devices()[0].device_kind)"
PALLAS = """
import sys; sys.path.insert(0, "solutions")
import jax, jax.numpy as jnp, p44_pallas_kernel as p44
x, weight = jax.random.normal(jax.random.key(0), (64, 128)), jnp.linspace(0.5, 1.5, 128)
interpreted = p44.rms_norm(x, weight, 1e-6, 16)
p44._interpret = lambda: False
compiled = p44.rms_norm(x, weight, 1e-6, 16)
print(float(abs(compiled - interpreted).max()))
"""
# cuDNN's attention and the tiles that run elsewhere, without and with segments, against the same in float32: the
# largest difference of the output and of the three gradients, relative to the largest value.
ATTENTION = """
import jax, jax.numpy as jnp
from harness.model import attention
jax.config.update("jax_default_matmul_precision", "highest")
qkv = [jax.random.normal(key, (2, 256, 12, 64)) for key in jax.random.split(jax.random.key(0), 3)]
segments = jnp.tile(jnp.arange(256) // 100, (2, 1))
def results(qkv, segments):
    def both(*qkv):
        out, pull = jax.vjp(lambda *qkv: attention.causal_attention(*qkv, 0, segments), *qkv)
        return [out, *pull(jnp.cos(jnp.arange(out.size)).reshape(out.shape).astype(out.dtype))]
    return jax.jit(both)(*qkv)
half = [x.astype(jnp.bfloat16) for x in qkv]
assert attention.cudnn_fits(half[0].dtype, 64)
fits = attention.cudnn_fits
for each in (None, segments):
    exact = results(qkv, each)
    for rule in (fits, lambda dtype, width: False):
        attention.cudnn_fits = rule
        print(max(float(abs(x - y).max() / abs(y).max()) for x, y in zip(results(half, each), exact)))
"""


def python(program: str) -> str:
    """What a program prints on the GPU, in a process of its own."""
    return output([sys.executable, "-c", program])


def train_step(run: Run, name: str, sizes: str, changes: Sequence[str], *more: str) -> None:
    """Profiles the train step for two batch sizes. The best share of the peak rate has a bar."""
    from harness.presets import preset

    config, shares = preset(name), [0.0]
    profile = [sys.executable, "-m", "harness", "profile", "--preset", name, "--json", "--batch-sizes", sizes, *more]
    options = [word for setting in (*SETTINGS, *changes) for word in ("--set", setting)]
    with tempfile.TemporaryDirectory() as folder:
        rows = json.loads(output([*profile, "--to", folder, *options]))
    for row in rows:
        assert row["operations"], "the trace names no operation"
        batch = f"{name}, batch {row['batch_size']}"
        run.figure(batch, row["tokens_per_s"], "tokens/s")
        run.figure(f"{batch}, memory", row["memory"]["total"] / 1e9, "GB")
        if row["mfu"] is not None:
            tokens = row["tokens_per_s"] * row["step"]
            hidden = 6 * config.num_layers * config.context * config.d_model * tokens  # the other half of all pairs
            shares.append(row["mfu"] * (1 + hidden / row["flops"]))
            run.figure(f"{batch}, of the peak, without pairs that the mask hides", row["mfu"])
    run.figure("of the peak, at best", max(shares), at_least=0.50)


def verdicts(run: Run, *labels: str) -> None:
    """The references must get the same reports with the GPU visible as with the CPU alone, but for the time."""
    others = 0
    for label in labels:
        (file,) = ROOT.glob(f"solutions/p{label}_*.py")
        with tempfile.TemporaryDirectory() as cache:
            command = [*GRADE, "problem", label, str(file), "--json"]
            reports = [json.loads(output(command, GRADE_CACHE=cache, **env)) for env in ({}, NO_GPU)]
        others += len({json.dumps(report | {"seconds": 0}) for report in reports}) > 1
    run.figure(f"other verdicts with the GPU visible, of {len(labels)}", others, at_most=0)


def main() -> None:
    run = Run()
    if run.smoke:  # what needs no GPU, on whatever JAX finds
        train_step(run, "pocket", "1,2", SMALL, "--steps", "1")
        verdicts(run, "07")
        run.end()
    backend, run.device = python(DEVICES).strip().split(" ", 1)
    if backend != "gpu":
        print(f"JAX finds no GPU here: its backend is {backend} ({run.device}). Nothing was measured.")
        sys.exit(2)
    train_step(run, next(iter(run.words), "gpt2-small"), "64,128", ["dtype=bfloat16"])
    # cuDNN rounds where the tiles do, but adds in another order.
    cudnn, tiles, cudnn_apart, tiles_apart = map(float, python(ATTENTION).split())
    run.figure("error of attention in bfloat16, cuDNN / tiles", cudnn / tiles, at_most=2)
    run.figure("the same with segments", cudnn_apart / tiles_apart, at_most=2)
    run.figure("Pallas kernel of problem 44, compiled and interpreted: difference", float(python(PALLAS)), at_most=1e-5)
    verdicts(run, "07", "30", "44")
    run.end()


if __name__ == "__main__":
    main()
