"""On a machine with a GPU: the train step of GPT-2 124M, a compiled Pallas kernel, and verdicts that do not use the GPU.

    python benchmarks/gpu.py [PRESET] [--smoke]

Needs JAX with CUDA or ROCm, such as `pip install "jax[cuda12]"`. Without a GPU, it says so and ends with code 2. The bar is 45%
of the peak rate in bfloat16; llm.c reaches about 41% of an H100's.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from timing import ROOT, as_options, smoke

BAR = 0.45
TOP = 12  # operations to print
GRADED = ("07", "30", "44")

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


def python(*arguments: str, **env: str) -> str:
    """What this Python prints, with the repository on its path. Ends the program if it fails."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)[:200]} failed:\n{done.stderr}")
    return done.stdout


def train_step(preset: str, *changes: str) -> float:
    """Profiles the train step in bfloat16 for two batch sizes, and prints the rows. Returns the best share of the peak rate."""
    with tempfile.TemporaryDirectory() as folder:
        # The embedded stories and their tokenizer need no network; the vocabulary keeps its size.
        settings = [*as_options("dtype=bfloat16", "data=pocket", "tokenizer=pocket-2k", "mesh=1x1"), *changes]
        rows = json.loads(python("-m", "harness", "profile", "--preset", preset, "--to", folder, "--json", *settings))
    for row in rows:
        share = "unknown" if row["mfu"] is None else f"{row['mfu']:.1%}"
        print(
            f"{preset}, batch {row['batch_size']:<6}{row['step'] * 1e3:10.1f} ms{row['tokens_per_s']:14,.0f} tokens/s"
            f"   MFU {share}   {row['memory']['total'] / 1e9:.1f} GB"
        )
        for operation in row["operations"][:TOP]:
            print(f"    {operation['part']:<14}{operation['primitive']:<32}{operation['seconds'] * 1e3:10.2f} ms")
    return max(row["mfu"] or 0.0 for row in rows)


def verdicts(labels: Sequence[str] = GRADED) -> bool:
    """Whether the references get the same reports with the GPU visible as with the CPU alone, but for the time."""
    same = True
    for label in labels:
        (file,) = ROOT.glob(f"solutions/p{label}_*.py")
        with tempfile.TemporaryDirectory() as cache:
            reports = [
                json.loads(python("-m", "grader", "problem", label, str(file), "--json", GRADE_CACHE=cache, **env))
                for env in ({}, {"CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""})
            ]
        for report in reports:
            report.pop("seconds", None)
        same &= reports[0] == reports[1]
        print(f"problem {label}: {reports[0]['verdict']} with the GPU visible, {reports[1]['verdict']} without")
    return same


def without_gpu() -> int:
    """Runs what needs no GPU, on whatever JAX finds."""
    # In float32, because CPUs lack some products of bfloat16.
    small = as_options("dtype=float32", "context=16", "d_model=16", "d_ff=16", "num_layers=1", "data=pocket:200")
    train_step("pocket", *small, "--batch-sizes", "1,2", "--steps", "1")
    return 0 if verdicts(GRADED[:1]) else 1


def main(preset: str = "gpt2-small") -> int:
    """Runs all three, prints them, and returns the exit code: 0 if all hold, 1 if not, 2 without a GPU."""
    if smoke():
        return without_gpu()
    backend, kind = python("-c", DEVICES).strip().split(" ", 1)
    if backend != "gpu":
        print(f"JAX finds no GPU here: its backend is {backend} ({kind}). Nothing was measured.")
        return 2
    print(kind)
    share = train_step(preset)
    print(f"MFU: {share:.1%} (bar: {BAR:.0%})")
    difference = float(python("-c", PALLAS))
    print(f"Pallas kernel of problem 44, compiled and interpreted: they differ by {difference:.1e}")
    same = verdicts()
    print(f"verdicts are {'the same' if same else 'NOT the same'}")
    return 0 if share >= BAR and difference < 1e-5 and same else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
