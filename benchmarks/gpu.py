"""On a machine with a GPU: training, sampling and reinforcement, cuDNN's attention, a compiled Pallas kernel, and
verdicts.

    python benchmarks/gpu.py [PRESET] [--smoke]

Training and sampling are those of GPT-2 124M in bfloat16, with random weights; reinforcement is that of the preset
`pocket`, trained for 300 steps before. Verdicts must not use the GPU. Needs JAX with CUDA or ROCm, such as `pip install
"jax[cuda12]"`. Without a GPU, it says so and ends with code 2. The bar is 45% of the peak rate in bfloat16, with the
arithmetic of all pairs of positions, as PaLM (Chowdhery et al. 2022, appendix B) and nanoGPT count it. The harness's
own `mfu` leaves out those that a mask hides.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from timing import ROOT, as_options, smoke

BAR = 0.45
TOP = 12  # operations to print
VOCABULARY = 50_257  # as large as GPT-2's
GRADED = ("07", "30", "44")
OFFLINE = ("dtype=bfloat16", "data=pocket", "tokenizer=pocket-2k")  # the embedded stories need no network

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


def python(*arguments: str, **env: str) -> str:
    """What this Python prints, with the repository on its path. Ends the program if it fails."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)[:200]} failed:\n{done.stderr}")
    return done.stdout


def train_step(preset_name: str, *changes: str) -> float:
    """Profiles the train step in bfloat16 for two batch sizes, and prints the rows. Returns the best share of the peak
    rate."""
    from harness.presets import preset

    config, shares = preset(preset_name), [0.0]
    with tempfile.TemporaryDirectory() as folder:
        settings = [*as_options(*OFFLINE, "mesh=1x1", f"vocab_size={VOCABULARY}"), *changes]
        rows = json.loads(
            python("-m", "harness", "profile", "--preset", preset_name, "--to", folder, "--json", *settings)
        )
    for row in rows:
        share = "unknown"
        if row["mfu"] is not None:
            tokens = row["tokens_per_s"] * row["step"]
            hidden = 6 * config.num_layers * config.context * config.d_model * tokens  # the other half of all pairs
            shares.append(row["mfu"] * (1 + hidden / row["flops"]))
            share = f"{shares[-1]:.1%}, without pairs that the mask hides {row['mfu']:.1%}"
        assert row["operations"], "the trace names no operation"
        print(
            f"{preset_name}, batch {row['batch_size']:<6}{row['step'] * 1e3:10.1f} ms{row['tokens_per_s']:14,.0f} "
            f"tokens/s   MFU {share}   {row['memory']['total'] / 1e9:.1f} GB"
        )
        for operation in row["operations"][:TOP]:
            print(f"    {operation['part']:<14}{operation['primitive']:<32}{operation['seconds'] * 1e3:10.2f} ms")
    return max(shares)


def decode(preset_name: str, new: int, rows: int) -> None:
    """Prints, as JSON, the tokens/s of one story with a step of Python between the tokens, and of `rows` without."""
    import dataclasses

    import jax
    import numpy as np
    from flax import nnx

    from harness.model.gpt import GPT
    from harness.model.sampling import CachedDecoder, Sampling, generate, generate_batch
    from harness.presets import preset

    config = dataclasses.replace(preset(preset_name), vocab_size=VOCABULARY, dtype="bfloat16", dropout=0.0)
    model, sampling = GPT(config, nnx.Rngs(0)), Sampling(temperature=1.0, top_p=1.0, max_tokens=new)
    decoder, prompt = CachedDecoder(model, sampling), [*range(100, 108)]
    keys, prompts = jax.random.split(jax.random.key(0), rows), np.tile(np.array(prompt), (rows, 1))
    speeds = []
    for run, count in (
        (lambda: list(generate(decoder, prompt, sampling, end_of_text=-1)), new),
        (lambda: generate_batch(model, prompts, sampling, -1, keys), new * rows),
    ):
        run()  # compiles
        start = time.perf_counter()
        run()
        speeds.append(count / (time.perf_counter() - start))
    print(json.dumps(speeds))


def sampling(preset_name: str, new: int = 256, rows: int = 64) -> None:
    """Prints the speed of sampling."""
    one, many = json.loads(python(__file__, "--decode", preset_name, str(new), str(rows), PYTHONPATH=str(ROOT)))
    print(f"sampling {new} tokens, {preset_name}: {one:,.0f} tokens/s of one story, {many:,.0f} of {rows} together")


def reinforcement(trained: int = 300, updates: int = 40, *changes: str) -> None:
    """Trains `pocket`, reinforces a word, and prints updates/minute without the first ten, which include the
    compilation."""
    with tempfile.TemporaryDirectory() as folder:
        run = ["-m", "harness", "train", "--run", "base", "--runs", folder, "--quiet"]
        python(*run, *as_options(f"steps={trained}", "mesh=1x1", *OFFLINE), *changes)
        python(
            "-m",
            "harness",
            "rl",
            "base",
            "--runs",
            folder,
            "--reward",
            "word:water",
            "--steps",
            str(updates),
            "--quiet",
        )
        base, reinforced = (
            [json.loads(line) for line in (Path(folder) / name / "metrics.jsonl").read_text().splitlines()]
            for name in ("base", "base-rl")
        )
    times = [line["time"] for line in reinforced if "reward" in line]
    skipped = min(10, len(times) // 3)
    rate = 60 * (len(times) - 1 - skipped) / (times[-1] - times[skipped])
    speed = sorted(line["tokens_per_s"] for line in base if "tokens_per_s" in line)[trained // 2]
    print(f"pocket, {trained} steps: {speed:,.0f} tokens/s; GRPO of it: {rate:,.0f} updates/minute")


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
    sampling("pocket", 2, 2)
    reinforcement(2, 3, *small)
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
    share = train_step(preset, "--batch-sizes", "64,128")
    print(f"MFU: {share:.1%} (bar: {BAR:.0%})")
    sampling(preset)
    reinforcement()
    cudnn, tiles, cudnn_apart, tiles_apart = map(float, python("-c", ATTENTION).split())
    print(f"attention in bfloat16, from float32: cuDNN's {cudnn:.1e}, tiles {tiles:.1e}", end="; ")
    print(f"of segments: cuDNN's {cudnn_apart:.1e}, tiles {tiles_apart:.1e}")
    difference = float(python("-c", PALLAS))
    print(f"Pallas kernel of problem 44, compiled and interpreted: they differ by {difference:.1e}")
    same = verdicts()
    print(f"verdicts are {'the same' if same else 'NOT the same'}")
    # cuDNN rounds where the tiles do, but adds in another order.
    attention_holds = cudnn < 2 * tiles and cudnn_apart < 2 * tiles_apart
    return 0 if share >= BAR and attention_holds and difference < 1e-5 and same else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--decode"]:
        decode(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        sys.exit()
    sys.exit(main(*sys.argv[1:2]))
